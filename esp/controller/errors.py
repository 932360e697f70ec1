"""What may be wrong with metadata that was committed."""


class InvalidMetadataError(Exception):
    """A record of the metadata log cannot be applied to what came before it: the node stops (RAFT-23)."""
