"""The errors for what a peer sends, or asks for, and cannot be answered."""


class DecodeError(Exception):
    """The bytes are not what their API and version say: truncated, a length or count beyond them, a null where none may be, bad text.

    A peer that sends such bytes is answered by closing its connection, as Kafka does.
    """


class UnsupportedRequestError(DecodeError):
    """A request of an API or a version that is not served."""

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"API {api_key} version {api_version} is not served")
        self.api_key = api_key
        self.api_version = api_version


class UnwritableError(DecodeError):
    """The request's version has no room for its answer: a text of more than 32,767 bytes, which came by a newer version."""
