"""Records as a real Kafka 4.3.1 wrote them, and old versions as its own classes write them."""

import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.schemas.group_record_codec import (
    decode_group_record,
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from esp.schemas.group_records import (
    GroupMember,
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)

TOPIC_ID = uuid.UUID("47784628-bbf2-4366-b742-3aee3ba06efe")
MEMBER_ID = "wire-ca6f33c9-df42-4feb-81ef-277ad1a57edd"

KAFKAS = [
    (
        "0001000673696d706c6500017400000000",
        "0004000000000000002a00000003056e6f7465000001a1ff6fe0e001001047784628bbf24366b7423aee3ba06efe",
        OffsetCommitRecord(
            OffsetCommitKey("simple", "t", 0),
            OffsetCommitValue(42, 3, "note", 0x01A1FF6FE0E0, topic_id=TOPIC_ID),
        ),
    ),
    (
        "00010002763600017400000000",
        "000400000000000000010000000507c3a9f09f9880000001a1ff6fe1d301001047784628bbf24366b7423aee3ba06efe",
        OffsetCommitRecord(
            OffsetCommitKey("v6", "t", 0), OffsetCommitValue(1, 5, "é😀", 0x01A1FF6FE1D3, topic_id=TOPIC_ID)
        ),
    ),
    (
        "0001000372657400017400000000",
        "0001000000000000002a00046e6f7465000001a1ff6fe152000001a1ffa6cfd2",
        OffsetCommitRecord(
            OffsetCommitKey("ret", "t", 0), OffsetCommitValue(42, -1, "note", 0x01A1FF6FE152, 0x01A1FFA6CFD2)
        ),
    ),
    ("0001000673696d706c6500017400000001", None, OffsetCommitRecord(OffsetCommitKey("simple", "t", 1), None)),
    (
        "0002000476656333",
        "0003000000000000ffffffff000001a1ff706c6700000000",
        GroupMetadataRecord(GroupMetadataKey("vec3"), GroupMetadataValue("", 0, None, None, 0x01A1FF706C67, ())),
    ),
    (
        "0002000476656333",
        (
            "00030008636f6e73756d657200000001000572616e67650029776972652d63613666333363392d646634322d346665622d383165"
            "662d323737616431613537656464000001a1ff707820000000010029776972652d63613666333363392d646634322d346665622d"
            "383165662d323737616431613537656464ffff000477697265000a2f3132372e302e302e3100001b58000017700000000d000100"
            "000001000174ffffffff000000024142"
        ),
        GroupMetadataRecord(
            GroupMetadataKey("vec3"),
            GroupMetadataValue(
                "consumer",
                1,
                "range",
                MEMBER_ID,
                0x01A1FF707820,
                (
                    GroupMember(
                        member_id=MEMBER_ID,
                        group_instance_id=None,
                        client_id="wire",
                        client_host="/127.0.0.1",
                        rebalance_timeout_ms=7000,
                        session_timeout_ms=6000,
                        subscription=b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff",
                        assignment=b"AB",
                    ),
                ),
            ),
        ),
    ),
    (
        "0002000476656333",
        "00030008636f6e73756d657200000002ffffffff000001a1ff70782c00000000",
        GroupMetadataRecord(
            GroupMetadataKey("vec3"), GroupMetadataValue("consumer", 2, None, None, 0x01A1FF70782C, ())
        ),
    ),
    ("0002000673696d706c65", None, GroupMetadataRecord(GroupMetadataKey("simple"), None)),
]

OFFSET_VERSIONS = [
    "0000000000000000002a00046e6f74650000018bcfe56800",
    "0001000000000000002a00046e6f74650000018bcfe568000000018bd01c5680",
    "0002000000000000002a00046e6f74650000018bcfe56800",
    "0003000000000000002a0000000300046e6f74650000018bcfe56800",
    "0004000000000000002a00000003056e6f74650000018bcfe5680001001047784628bbf24366aa3aee3eba06befe",
]

GROUP_VERSIONS = [
    (
        "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e310000"
        "27100000000201020000000103"
    ),
    (
        "00010008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e310000"
        "ea60000027100000000201020000000103"
    ),
    (
        "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d31000163000a2f313237"
        "2e302e302e310000ea60000027100000000201020000000103"
    ),
    (
        "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d3100036f6e6500016300"
        "0a2f3132372e302e302e310000ea60000027100000000201020000000103"
    ),
    (
        "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680002046d2d31046f6e6502630b2f3132372e302e302e"
        "310000ea600000271003010202030000"
    ),
]

OFFSET_KEY = encode_offset_commit_key(OffsetCommitKey("g", "t", 0))
GROUP_KEY = encode_group_metadata_key(GroupMetadataKey("g"))


def encode(record):
    if isinstance(record, OffsetCommitRecord):
        value = None if record.value is None else encode_offset_commit_value(record.value)
        return encode_offset_commit_key(record.key), value
    value = None if record.value is None else encode_group_metadata_value(record.value)
    return encode_group_metadata_key(record.key), value


@pytest.mark.parametrize(("key", "value", "record"), KAFKAS)
def test_records_are_those_of_kafka_byte_for_byte(key, value, record):
    raw = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert decode_group_record(*raw) == record
    assert encode(record) == raw


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version):
    record = decode_group_record(OFFSET_KEY, bytes.fromhex(OFFSET_VERSIONS[version]))
    assert record.value == OffsetCommitValue(
        offset=42,
        leader_epoch=3 if version >= 3 else -1,
        metadata="note",
        commit_timestamp_ms=1_700_000_000_000,
        expire_timestamp_ms=1_700_003_600_000 if version == 1 else -1,
        topic_id=uuid.UUID("47784628-bbf2-4366-aa3a-ee3eba06befe") if version == 4 else None,
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version):
    record = decode_group_record(GROUP_KEY, bytes.fromhex(GROUP_VERSIONS[version]))
    member = GroupMember(
        member_id="m-1",
        group_instance_id="one" if version >= 3 else None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000 if version >= 1 else -1,
        session_timeout_ms=10_000,
        subscription=b"\1\2",
        assignment=b"\3",
    )
    since_ms = 1_700_000_000_000 if version >= 2 else -1
    assert record.value == GroupMetadataValue("consumer", 5, "range", "m-1", since_ms, (member,))


def test_key_of_the_oldest_type_is_an_offset_too():
    record = decode_group_record(b"\0\0" + OFFSET_KEY[2:], None)
    assert record == OffsetCommitRecord(OffsetCommitKey("g", "t", 0), None)


@pytest.mark.parametrize("type_", [3, 5, 8, 16, 23, 99, -1])
def test_records_of_other_protocols_are_none_of_ours(type_):
    assert decode_group_record(type_.to_bytes(2, "big", signed=True) + b"\1x", b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", None),
        (b"\0\1\0\1g", None),
        (OFFSET_KEY + b"\0", None),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, b"\0\5" + bytes.fromhex(OFFSET_VERSIONS[4])[2:]),
        (OFFSET_KEY, bytes.fromhex(OFFSET_VERSIONS[3])[:-1]),
        (OFFSET_KEY, bytes.fromhex(OFFSET_VERSIONS[3]) + b"\0"),
        (GROUP_KEY, b"\xff\xff"),
        (GROUP_KEY, bytes.fromhex("0003000000000000ffffffff000001a1ff706c677fffffff")),
        (b"\0\2\0\1\xff", None),
    ],
)
def test_bytes_that_are_no_record_are_refused(key, value):
    with pytest.raises(CorruptionError):
        decode_group_record(key, value)


texts = st.text(st.characters(codec="utf-8"), max_size=20)
i32s = st.integers(-(2**31), 2**31 - 1)
i64s = st.integers(-(2**63), 2**63 - 1)
offsets = st.builds(
    OffsetCommitValue,
    offset=i64s,
    leader_epoch=i32s,
    metadata=st.one_of(texts, st.text("x", min_size=100, max_size=300)),
    commit_timestamp_ms=i64s,
    expire_timestamp_ms=st.just(-1),
    topic_id=st.one_of(st.none(), st.uuids().filter(lambda value: value.int)),
)
members = st.builds(
    GroupMember,
    member_id=texts,
    group_instance_id=st.one_of(st.none(), texts),
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=i32s,
    session_timeout_ms=i32s,
    subscription=st.binary(max_size=50),
    assignment=st.binary(max_size=50),
)
groups = st.builds(
    GroupMetadataValue,
    protocol_type=texts,
    generation=i32s,
    protocol=st.one_of(st.none(), texts),
    leader=st.one_of(st.none(), texts),
    current_state_timestamp_ms=i64s,
    members=st.lists(members, max_size=4).map(tuple),
)


@given(st.builds(OffsetCommitRecord, st.builds(OffsetCommitKey, texts, texts, i32s), offsets))
def test_offset_is_read_as_it_was_written(record):
    assert decode_group_record(*encode(record)) == record


@given(st.builds(GroupMetadataRecord, st.builds(GroupMetadataKey, texts), groups))
def test_group_is_read_as_it_was_written(record):
    assert decode_group_record(*encode(record)) == record


@given(st.sampled_from([OFFSET_KEY, GROUP_KEY]), st.binary(max_size=80), st.integers(0, 4))
def test_any_bytes_are_read_or_refused(key, data, version):
    for raw_key, value in ((key, b"\0" + bytes((version,)) + data), (data, None)):
        with suppress(CorruptionError):
            decode_group_record(raw_key, value)


def outcome(key, value):
    """What a record is read as; None if it is refused."""
    try:
        return decode_group_record(key, value)
    except CorruptionError:
        return None


plain_offsets = st.builds(
    OffsetCommitRecord,
    st.builds(OffsetCommitKey, texts, texts, i32s),
    offsets.map(lambda value: value._replace(metadata="")),
)


@given(plain_offsets, st.data())
def test_offset_without_metadata_is_read_as_one_of_the_oldest_key_type_which_is_read_field_by_field(record, data):
    key, value = encode(record)
    if data.draw(st.booleans()):
        place, byte = data.draw(st.integers(2, len(key) - 1)), data.draw(st.binary(max_size=2))
        key = key[:place] + byte + key[place + data.draw(st.integers(0, 2)) :]
    if data.draw(st.booleans()):
        place, byte = data.draw(st.integers(0, len(value) - 1)), data.draw(st.binary(max_size=2))
        value = value[:place] + byte + value[place + data.draw(st.integers(0, 2)) :]
    assert outcome(key, value) == outcome(b"\0\0" + key[2:], value)
