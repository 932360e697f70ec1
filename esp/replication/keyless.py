"""Records without a key are refused for compacted topics, as nothing could ever supersede them (Kafka's ``LogValidator``).

That takes a look at each record. A small batch that is not compressed is looked at where it arrives; any other one goes the way of batches
that are recompressed, beside the loop (:mod:`esp.replication.topic_codec`).
"""

from typing import Final

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.records.batch_header import HEADER_SIZE, BatchHeader, HeaderFields, read_header
from esp.records.compression import Allocate, TooLargeError, decompress_uncopied
from esp.records.keyed import find_keyless

LOOKED_AT_ONCE_BYTES: Final = 16 * 1024
"""Larger batches are not looked at on the loop: it takes a millisecond for a thousand records."""

_TOLD_MAX: Final = 1000
"""The most records of one batch that an answer names."""


class KeylessRecordsError(ApiError):
    """Records have no key: INVALID_RECORD. ``numbers`` are those of the first of them in their batch.

    Args:
        numbers: of all of them.
    """

    def __init__(self, numbers: list[int]) -> None:
        super().__init__(
            ErrorCode.invalid_record,
            f"One or more records have been rejected due to {len(numbers)} record errors in total: records of compacted topics need keys; "
            f"the first without: {', '.join(map(str, numbers[:3]))}",
        )
        self.numbers = numbers[:_TOLD_MAX]


def can_be_looked_at_once(header: HeaderFields, size: int) -> bool:
    """True if the records of a batch may be looked at on the loop."""
    return size <= LOOKED_AT_ONCE_BYTES and not BatchHeader(*header).codec


def require_keys(batch: bytes | bytearray | memoryview, limit: int, allocate: Allocate | None = None) -> None:
    """Check that each record of a produced batch, whose header is sound, has a key.

    Args:
        batch: the whole batch.
        limit: bytes that its records may take when decompressed.
        allocate: see :func:`~esp.records.compression.decompress_uncopied`.

    Raises:
        KeylessRecordsError: not each of them has one.
        ApiError: INVALID_RECORD, they do not match the header; MESSAGE_TOO_LARGE, they take too much memory.
    """
    header = read_header(batch)
    try:
        records = decompress_uncopied(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit, allocate)
        keyless = find_keyless(bytes(records), header)
    except TooLargeError as error:
        raise ApiError(ErrorCode.message_too_large, f"The records cannot be looked at: {error}") from error
    except CorruptionError as error:
        raise ApiError(ErrorCode.invalid_record, f"The records do not match their batch: {error}") from error
    if keyless:
        raise KeylessRecordsError(keyless)
