"""Records of consumer groups, there and back, and the bytes that Kafka 4.3.1 writes."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId
from esp.schemas.consumer_group_record_codec import (
    decode_consumer_group_record,
    encode_consumer_group_key,
    encode_consumer_group_value,
)
from esp.schemas.consumer_group_records import (
    NO_EPOCH,
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
)

Type = ConsumerGroupRecordType
TOPIC = TopicId(uuid.UUID("0102030405060708090a0b0c0d0e0f10"))
ID = TOPIC.bytes.hex()

names = st.text(max_size=20)
numbers = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
partitions = st.builds(TopicIdPartition, st.builds(TopicId, st.uuids()) | st.just(TOPIC), st.integers(0, 2**31 - 1))
with_epochs = st.dictionaries(partitions, st.integers(0, 2**31 - 1), max_size=6)
classic = st.builds(
    ClassicMemberValue,
    numbers,
    st.lists(st.builds(ClassicProtocol, names, st.binary(max_size=20)), max_size=3).map(tuple),
)
VALUES = {
    Type.GROUP_EPOCH: st.builds(GroupEpochValue, numbers, longs),
    Type.MEMBER: st.builds(
        MemberValue,
        st.none() | names,
        st.none() | names,
        names,
        names,
        st.lists(names, max_size=3).map(tuple),
        st.none() | names.filter(bool),
        numbers,
        st.none() | names,
        st.none() | classic,
    ),
    Type.TARGET_EPOCH: st.builds(TargetEpochValue, numbers, longs),
    Type.TARGET: st.builds(TargetValue, st.frozensets(partitions, max_size=8)),
    Type.CURRENT: st.builds(CurrentValue, numbers, numbers, st.sampled_from(MemberState), with_epochs, with_epochs),
    Type.REGEX: st.builds(RegexValue, st.lists(names, max_size=3).map(tuple), longs, longs),
}


@pytest.mark.parametrize("type_", VALUES)
@given(st.data())
def test_a_record_comes_back(type_, data):
    is_named = type_ not in (Type.GROUP_EPOCH, Type.TARGET_EPOCH)
    key = ConsumerGroupKey(type_, data.draw(names), data.draw(names) if is_named else "")
    value = data.draw(st.none() | VALUES[type_])
    encoded = None if value is None else encode_consumer_group_value(value)
    assert decode_consumer_group_record(encode_consumer_group_key(key), encoded) == ConsumerGroupRecord(key, value)


@pytest.mark.parametrize(
    ("key", "value", "key_bytes", "value_bytes"),
    [
        (ConsumerGroupKey(Type.GROUP_EPOCH, "g"), GroupEpochValue(2), "0003 0001 67", "0000 00000002 00"),
        (
            ConsumerGroupKey(Type.GROUP_EPOCH, "g"),
            GroupEpochValue(3, 5),
            "0003 0001 67",
            "0000 00000003 01 00 08 0000000000000005",
        ),
        (
            ConsumerGroupKey(Type.MEMBER, "g", "m"),
            MemberValue(None, "r", "c", "/h", ("t",), None, 9, "range"),
            "0005 0001 67 0001 6d",
            "0000 00 02 72 02 63 03 2f68 02 02 74 01 00000009 06 72616e6765 01 00 01 00",
        ),
        (
            ConsumerGroupKey(Type.MEMBER, "g", "m"),
            MemberValue(None, None, "c", "/h", (), None, 9, None, ClassicMemberValue(7, (ClassicProtocol("p", b"x"),))),
            "0005 0001 67 0001 6d",
            "0000 00 00 02 63 03 2f68 01 01 00000009 00 01 00 0c 01 00000007 02 02 70 02 78 00 00",
        ),
        (
            ConsumerGroupKey(Type.TARGET, "g", "m"),
            TargetValue(frozenset({TopicIdPartition(TOPIC, 1), TopicIdPartition(TOPIC, 0)})),
            "0007 0001 67 0001 6d",
            f"0000 02 {ID} 03 00000000 00000001 00 00",
        ),
        (
            ConsumerGroupKey(Type.CURRENT, "g", "m"),
            CurrentValue(3, 2, MemberState.UNREVOKED_PARTITIONS, {TopicIdPartition(TOPIC, 0): 2}, {}),
            "0008 0001 67 0001 6d",
            f"0000 00000003 00000002 01 02 {ID} 02 00000000 01 00 05 02 00000002 01 00",
        ),
        (
            ConsumerGroupKey(Type.REGEX, "g", "t.*"),
            RegexValue(("t",), 7, 8),
            "0010 0001 67 0003 742e2a",
            "0000 02 02 74 0000000000000007 0000000000000008 00",
        ),
    ],
)
def test_the_bytes_are_those_of_the_format(key, value, key_bytes, value_bytes):
    assert encode_consumer_group_key(key) == bytes.fromhex(key_bytes)
    assert encode_consumer_group_value(value) == bytes.fromhex(value_bytes)


def test_epochs_of_partitions_that_were_not_written_are_none():
    value = bytes.fromhex(f"0000 00000003 00000002 00 02 {ID} 02 00000004 00 01 00")
    record = decode_consumer_group_record(bytes.fromhex("0008 0001 67 0001 6d"), value)
    assert record.value.assigned == {TopicIdPartition(TOPIC, 4): NO_EPOCH}
    assert encode_consumer_group_value(record.value) == value


def test_a_member_of_which_no_protocol_is_written_speaks_that_of_consumers():
    value = bytes.fromhex("0000 00 00 02 63 03 2f68 01 00 00000009 00 00")
    record = decode_consumer_group_record(bytes.fromhex("0005 0001 67 0001 6d"), value)
    assert record.value == MemberValue(None, None, "c", "/h", (), None, 9, None, None)


def test_records_of_other_kinds_are_none_of_these():
    assert decode_consumer_group_record(bytes.fromhex("0011 0001 67"), b"") is None


def test_what_early_releases_wrote_of_partitions_is_passed_over():
    record = decode_consumer_group_record(bytes.fromhex("0004 0001 67"), b"anything")
    assert record == ConsumerGroupRecord(ConsumerGroupKey(Type.PARTITION_METADATA, "g"), None)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("0003 0001 67", "0001 00000002 00", "version 1"),
        ("0003 0001 67", "0000 00000002 00 00", "ends at"),
        ("0003 0001 67", "0000 00000002 01 00 02 0000", "2 bytes"),
        ("0003 0001 67 00", "0000 00000002 00", "ends at"),
        ("0008 0001 67 0001 6d", "0000 00000003 00000002 07 01 01 00", "state 7"),
        (
            "0008 0001 67 0001 6d",
            f"0000 00000003 00000002 01 02 {ID} 02 00000000 01 00 01 01 01 00",
            "1 partitions have 0",
        ),
    ],
)
def test_malformed_records_are_refused(key, value, problem):
    with pytest.raises(CorruptionError, match=problem):
        decode_consumer_group_record(bytes.fromhex(key), bytes.fromhex(value))
