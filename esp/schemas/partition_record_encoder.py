"""The bytes of a new partition's record, made without a field by field walk: thousands of them may be decided in one turn of the loop."""

import struct
import uuid
from typing import Final

from esp.schemas.metadata_records import RECOVERED, PartitionRecord

_COUNT_MAX: Final = 126
"""Of elements in an array whose length is a varint of one byte."""
_ID: Final = struct.Struct(">i16s")
_LEADER: Final = struct.Struct(">iii")
_NO_ID: Final = bytes(16)
_NO_TAGS: Final = b"\0"
_INTEGERS: Final = tuple(struct.Struct(f">B{count}i") for count in range(_COUNT_MAX + 1))


def encode_partition(record: PartitionRecord) -> bytes | None:
    """The record in flexible form, without frame; None if it has what seldom is there, and is for the general writer."""
    counts = (len(record.replicas), len(record.isr), len(record.removing_replicas), len(record.adding_replicas))
    if (
        max(*counts, len(record.directories)) > _COUNT_MAX
        or record.leader_recovery_state != RECOVERED
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
    ):
        return None
    return b"".join(
        (
            _ID.pack(record.partition_id, _id_bytes(record.topic_id)),
            _encode_integers(record.replicas),
            _encode_integers(record.isr),
            _encode_integers(record.removing_replicas),
            _encode_integers(record.adding_replicas),
            _LEADER.pack(record.leader, record.leader_epoch, record.partition_epoch),
            bytes((len(record.directories) + 1,)),
            *map(_id_bytes, record.directories),
            _NO_TAGS,
        )
    )


def _encode_integers(values: tuple[int, ...]) -> bytes:
    return _INTEGERS[len(values)].pack(len(values) + 1, *values)


def _id_bytes(value: uuid.UUID | None) -> bytes:
    return _NO_ID if value is None else value.bytes
