"""The 61 bytes in front of every record batch of format 2, read and stamped in place.

A batch stays bytes on the data path: the leader's decisions about it (offset, epoch) are stamped into the header it came with,
and the checksum covers neither, so it needs no second pass. Layout: Kafka's ``DefaultRecordBatch``.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from esp.model.buffers import Buffer

HEADER_SIZE: Final = 61
"""A batch without records; also the least size of any batch."""

LENGTH_OFFSET: Final = 8
SIZE_BEFORE_LENGTH_ENDS: Final = 12
"""The bytes that the length field does not count: base offset and the field itself."""

MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
"""Where the checksummed part begins."""

MAX_TIMESTAMP_OFFSET: Final = 35
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_START: Final = struct.Struct(">qii")
"""Base offset, batch length, leader epoch."""

_LENGTH: Final = struct.Struct(">i")


class BatchHeader(NamedTuple):
    """A batch header's fields, in the order of the bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + SIZE_BEFORE_LENGTH_ENDS

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch's last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31-1 to 0 (PROD-3). Only of meaning with a producer id.

        Markers, and batches of coordinators, have none.
        """
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """Number of the compression codec, 0 for none."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """True if the records are control records, written by the broker itself."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def has_log_append_time(self) -> bool:
        """True if the broker's time replaces the records' own: ``max_timestamp`` counts for every record."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)


HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A header's fields in the order of the bytes, without names: a :class:`BatchHeader`, or, where batches arrive, a tuple at a third of the
cost."""

read_fields: Final[Callable[[Buffer], HeaderFields]] = _HEADER.unpack_from
"""Read the header at the front of a buffer of at least ``HEADER_SIZE`` bytes. Nothing is checked."""

read_fields_at: Final[Callable[[Buffer, int], HeaderFields]] = _HEADER.unpack_from
"""As :data:`read_fields`, at a position in a buffer."""

_PRODUCER: Final = struct.Struct(f">{ATTRIBUTES_OFFSET}xh20xqh")
"""Attributes, producer id and producer epoch."""

read_producer: Final[Callable[[Buffer], tuple[int, int, int]]] = _PRODUCER.unpack_from
"""Read attributes, producer id and producer epoch of the header at the front of a buffer, as :data:`read_fields` does."""


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at ``position``; the caller made sure that ``HEADER_SIZE`` bytes stand there. Nothing is checked."""
    return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))


pack_fields: Final[Callable[..., bytes]] = _HEADER.pack
"""The 61 bytes of a header's fields, in the order of the bytes."""


def pack_header(header: BatchHeader) -> bytes:
    """The header's 61 bytes."""
    return _HEADER.pack(*header)


def read_size(buffer: Buffer, position: int = 0) -> int:
    """Bytes of the whole batch whose first 12 bytes stand at ``position``; may be nonsense where the bytes are."""
    size: int = _LENGTH.unpack_from(buffer, position + LENGTH_OFFSET)[0]
    return size + SIZE_BEFORE_LENGTH_ENDS


def find_end_offset(batches: Buffer) -> int:
    """The offset after the last of whole batches that stand end to end."""
    end = len(batches)
    position, following = 0, read_size(batches)
    while following < end:
        position = following
        # read_size, whose call would take longer than all the rest of a step
        following += _LENGTH.unpack_from(batches, position + LENGTH_OFFSET)[0] + SIZE_BEFORE_LENGTH_ENDS
    return read_header(batches, position).next_offset


def stamp(buffer: bytearray | memoryview, header: HeaderFields, base_offset: int, leader_epoch: int) -> HeaderFields:
    """Write the offset and the leader epoch into the batch at the front of ``buffer``, and return the header that it has now.

    The checksum stays right: it does not cover them.
    """
    _, length, _, magic, crc, attributes, delta, first, latest, producer_id, producer_epoch, sequence, count = header
    _START.pack_into(buffer, 0, base_offset, length, leader_epoch)
    return (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        delta,
        first,
        latest,
        producer_id,
        producer_epoch,
        sequence,
        count,
    )
