"""Records of share partitions, there and back, and the bytes that Kafka 4.3.1 writes."""

import uuid

import pytest

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId
from esp.schemas.share_state_record_codec import (
    decode_share_state_record,
    encode_share_snapshot_key,
    encode_share_snapshot_value,
    encode_share_update_key,
    encode_share_update_value,
)
from esp.schemas.share_state_records import (
    NO_START_OFFSET,
    RecordState,
    ShareSnapshotRecord,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateRecord,
    ShareUpdateValue,
    StateBatch,
)

TOPIC = "e78e8e7c604048e389f2b79638ba3844"
KEY = ShareStateKey("g", TopicId(uuid.UUID(TOPIC)), 0)
SNAPSHOT_KEY = f"0000000167{TOPIC}00000000"
UPDATE_KEY = f"0001000167{TOPIC}00000000"
AVAILABLE, ACKNOWLEDGED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED

OF_KAFKA = [
    (
        SNAPSHOT_KEY,
        "0000000000000000000200000000ffffffffffffffff000001a21a7a10bc000001a21a7a10bc0100",
        ShareSnapshotRecord(KEY, ShareSnapshotValue(0, 2, 0, NO_START_OFFSET, 1795740537020, 1795740537020, ())),
    ),
    (
        UPDATE_KEY,
        "00000000000000000000000000000000000002000000000000000000000000000000040200010001000400000005",
        ShareUpdateRecord(KEY, ShareUpdateValue(0, 0, 0, (StateBatch(0, 5, ACKNOWLEDGED, 1),), 5)),
    ),
    (
        SNAPSHOT_KEY,
        (
            "00000000000200000002000000000000000000000008000001a21a7a4c0f000001a21a7a4c0f0300000000000000080000000000000008"
            "020003000000000000000009000000000000001d0000020001000400000001"
        ),
        ShareSnapshotRecord(
            KEY,
            ShareSnapshotValue(
                2,
                2,
                0,
                8,
                1795740552207,
                1795740552207,
                (StateBatch(8, 9, ACKNOWLEDGED, 3), StateBatch(9, 30, AVAILABLE, 2)),
                1,
            ),
        ),
    ),
]
"""Initialised; five records accepted; a snapshot after three updates."""


@pytest.mark.parametrize(("key", "value", "record"), OF_KAFKA)
def test_the_bytes_are_those_of_kafka(key, value, record):
    assert decode_share_state_record(bytes.fromhex(key), bytes.fromhex(value)) == record
    if isinstance(record, ShareSnapshotRecord):
        encoded = encode_share_snapshot_key(record.key), encode_share_snapshot_value(record.value)
    else:
        encoded = encode_share_update_key(record.key), encode_share_update_value(record.value)
    assert (encoded[0].hex(), encoded[1].hex()) == (key, value)


def test_a_tombstone_says_that_a_share_partition_is_gone():
    assert decode_share_state_record(bytes.fromhex(SNAPSHOT_KEY), None) == ShareSnapshotRecord(KEY, None)
    assert decode_share_state_record(bytes.fromhex(UPDATE_KEY), None) is None


def test_records_of_other_types_are_left_to_others():
    assert decode_share_state_record(bytes.fromhex("0002"), b"") is None


@pytest.mark.parametrize(
    ("replaced", "by"),
    [("0200010001000400000005", "0100010001000400000005"), ("0000000000000004", "ffffffffffffffff"), ("0005", "00")],
)
def test_states_and_offsets_that_cannot_be_are_refused(replaced, by):
    key, value, _record = OF_KAFKA[1]
    with pytest.raises(CorruptionError):
        decode_share_state_record(bytes.fromhex(key), bytes.fromhex(value.replace(replaced, by, 1)))
