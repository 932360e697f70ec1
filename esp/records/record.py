"""One record: as it is read from a batch, and as it is handed to the builder of one."""

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
"""A record's headers in order; a name may stand more than once. Bytes of a name that are not UTF-8 are kept as surrogate escapes."""


class Record(NamedTuple):
    """A record at its place in a log. ``timestamp`` is in milliseconds since the Unix epoch, -1 if it has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record without a place yet. Without a ``timestamp`` of its own (milliseconds) it takes that of its batch."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
