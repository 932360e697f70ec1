"""Records of share groups, there and back, and the bytes that Kafka 4.3.1 writes."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import GroupEpochValue, TargetEpochValue, TargetValue, TopicIdPartition
from esp.schemas.share_group_record_codec import (
    decode_share_group_record,
    encode_share_group_key,
    encode_share_group_value,
)
from esp.schemas.share_group_records import (
    KnownPartitions,
    ShareCurrentValue,
    ShareGroupKey,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareMemberValue,
    SharePartitionsValue,
)

Type = ShareGroupRecordType
T_HEX = "e78e8e7c604048e389f2b79638ba3844"
U_HEX = "9ceb1bdbd28549a6a12c24570389d4ce"
T = TopicId(uuid.UUID(T_HEX))
U = TopicId(uuid.UUID(U_HEX))
MEMBER = "rkOGEPiiRq63UnJp43BgDg"
MEMBER_KEY = f"000167 0016 {MEMBER.encode().hex()}"
T_0, T_1, U_0 = TopicIdPartition(T, 0), TopicIdPartition(T, 1), TopicIdPartition(U, 0)
BOTH_OF_T = frozenset((T_0, T_1))
T_KNOWN = KnownPartitions("t", frozenset((0, 1)))
U_KNOWN = KnownPartitions("u", frozenset((0,)))

OF_KAFKA = [
    (
        f"000a {MEMBER_KEY}",
        "00000017636f6e736f6c652d73686172652d636f6e73756d65720b2f3132372e302e302e3102027400",
        Type.MEMBER,
        ShareMemberValue(None, "console-share-consumer", "/127.0.0.1", ("t",)),
    ),
    ("000b000167", "000000000002e58674319216aec600", Type.GROUP_EPOCH, GroupEpochValue(2, -1907709635891646778)),
    ("000b000167", "000000000004000000000000000000", Type.GROUP_EPOCH, GroupEpochValue(4)),
    (f"000d {MEMBER_KEY}", "00000100", Type.TARGET, TargetValue(frozenset())),
    (f"000d {MEMBER_KEY}", f"000002{T_HEX}0300000000000000010000", Type.TARGET, TargetValue(BOTH_OF_T)),
    ("000c000167", "000000000002010008000001a21a7a06b7", Type.TARGET_EPOCH, TargetEpochValue(2, 1795740534455)),
    (f"000e {MEMBER_KEY}", "00000000000200000000000100", Type.CURRENT, ShareCurrentValue(2, 0, frozenset())),
    (
        f"000e {MEMBER_KEY}",
        f"000000000003000000020002{T_HEX}0300000000000000010000",
        Type.CURRENT,
        ShareCurrentValue(3, 2, BOTH_OF_T),
    ),
    (
        "000f000167",
        f"000002{T_HEX}027403000000000000000100010100",
        Type.PARTITIONS,
        SharePartitionsValue({T: T_KNOWN}, {}, {}),
    ),
    (
        "000f000167",
        f"000002{U_HEX}027502000000000002{T_HEX}0274030000000000000001000100",
        Type.PARTITIONS,
        SharePartitionsValue({U: U_KNOWN}, {T: T_KNOWN}, {}),
    ),
    (
        "000f000167",
        f"00000103{T_HEX}027403000000000000000100{U_HEX}02750200000000000100",
        Type.PARTITIONS,
        SharePartitionsValue({}, {T: T_KNOWN, U: U_KNOWN}, {}),
    ),
    (
        "000f000167",
        f"00000102{T_HEX}02740300000000000000010002{U_HEX}02750000",
        Type.PARTITIONS,
        SharePartitionsValue({}, {T: T_KNOWN}, {U: "u"}),
    ),
]
"""A member joins, all partitions of its topic are initialised and assigned to it; a second topic follows; offsets are deleted."""

names = st.text(max_size=20)
numbers = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
topic_ids = st.builds(TopicId, st.uuids())
partition_numbers = st.frozensets(st.integers(0, 2**31 - 1), max_size=5)
partitions = st.frozensets(st.builds(TopicIdPartition, topic_ids, st.integers(0, 2**31 - 1)), max_size=8)
known = st.builds(KnownPartitions, names, partition_numbers, partition_numbers)
VALUES = {
    Type.MEMBER: st.builds(ShareMemberValue, st.none() | names, names, names, st.lists(names, max_size=3).map(tuple)),
    Type.GROUP_EPOCH: st.builds(GroupEpochValue, numbers, longs),
    Type.TARGET_EPOCH: st.builds(TargetEpochValue, numbers, longs),
    Type.TARGET: st.builds(TargetValue, partitions),
    Type.CURRENT: st.builds(ShareCurrentValue, numbers, numbers, partitions),
    Type.PARTITIONS: st.builds(
        SharePartitionsValue,
        st.dictionaries(topic_ids, known, max_size=3),
        st.dictionaries(topic_ids, known, max_size=3),
        st.dictionaries(topic_ids, names, max_size=3),
    ),
}


@pytest.mark.parametrize(("key", "value", "type_", "decoded"), OF_KAFKA)
def test_the_bytes_are_those_of_kafka(key, value, type_, decoded):
    is_named = type_ in (Type.MEMBER, Type.TARGET, Type.CURRENT)
    record = ShareGroupRecord(ShareGroupKey(type_, "g", MEMBER if is_named else ""), decoded)
    assert decode_share_group_record(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert encode_share_group_key(record.key) == bytes.fromhex(key)
    assert encode_share_group_value(decoded).hex() == value


@pytest.mark.parametrize("type_", VALUES)
@given(st.data())
def test_a_record_comes_back(type_, data):
    is_named = type_ in (Type.MEMBER, Type.TARGET, Type.CURRENT)
    key = ShareGroupKey(type_, data.draw(names), data.draw(names) if is_named else "")
    value = data.draw(st.none() | VALUES[type_])
    encoded = None if value is None else encode_share_group_value(value)
    assert decode_share_group_record(encode_share_group_key(key), encoded) == ShareGroupRecord(key, value)


def test_the_start_of_added_partitions_is_in_a_field_that_kafka_skips():
    added = SharePartitionsValue({T: KnownPartitions("t", frozenset((1, 2)), frozenset((2,)))})
    assert encode_share_group_value(
        added
    ).hex() == f"000002{T_HEX}0274030000000100000002 01904e 05 0200000002 010100".replace(" ", "")


@pytest.mark.parametrize("key", ["0009000167", "0010000167000174", "0003000167"])
def test_records_of_other_groups_are_none_of_these(key):
    assert decode_share_group_record(bytes.fromhex(key), b"") is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("000b000167", "000100000002000000000000000000", "version 1"),
        ("000b000167", "00000000000200000000000000000000", "ends at"),
        ("000b000167", "00000000000200", "a field of"),
        ("000b00016700", "000000000002000000000000000000", "ends at"),
        ("000f000167", f"000002{T_HEX}02740200000000 01904e 06 020000000100 0101 00", "ends at"),
    ],
)
def test_malformed_records_are_refused(key, value, problem):
    with pytest.raises(CorruptionError, match=problem):
        decode_share_group_record(bytes.fromhex(key), bytes.fromhex(value))
