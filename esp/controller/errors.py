"""The error for committed metadata that cannot be applied."""


class InvalidMetadataError(Exception):
    """A record of the metadata log cannot be applied to what came before it: the node stops (RAFT-23)."""
