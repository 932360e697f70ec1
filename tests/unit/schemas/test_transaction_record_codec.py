"""Records of transactional ids: the bytes of a real Kafka 4.3.1, and what bytes that are none do."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.schemas.transaction_record_codec import (
    FLEXIBLE_VERSION,
    PLAIN_VERSION,
    decode_transaction_record,
    encode_transaction_key,
    encode_transaction_value,
)
from esp.schemas.transaction_records import PartitionsOfTopic, TransactionRecord, TransactionStatus, TransactionValue

I16, I32, I64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
VALUES = st.builds(
    TransactionValue,
    producer_id=I64,
    producer_epoch=I16,
    timeout_ms=I32,
    status=st.sampled_from([TransactionStatus(number) for number in range(6)]),
    partitions=st.none()
    | st.lists(
        st.builds(PartitionsOfTopic, st.text(max_size=20), st.lists(I32, max_size=4).map(tuple)), max_size=3
    ).map(tuple),
    last_update_ms=I64,
    start_ms=I64,
    previous_producer_id=I64,
    next_producer_id=I64,
    client_version=I16,
)
VALUE = TransactionValue(5, 3, 60_000, TransactionStatus.ONGOING, (PartitionsOfTopic("t", (0, 2)),), 11, 10, 5, -1, 2)

KAFKAS = [
    (
        "0001000000000000000000000000ea600000000001a20b911503ffffffffffffffff0100080000000000000000",
        TransactionValue(0, 0, 60_000, TransactionStatus.EMPTY, None, 1795490387203, -1, 0),
    ),
    (
        "0001000000000000000000000000ea600102027403000000020000000000000001a20b9115e7000001a20b9115e70100080000000000000000",
        TransactionValue(
            0,
            0,
            60_000,
            TransactionStatus.ONGOING,
            (PartitionsOfTopic("t", (2, 0)),),
            1795490387431,
            1795490387431,
            0,
        ),
    ),
    (
        "0001000000000000000100010000ea6002020274020000000100000001a20b91344b000001a20b91341e020008000000000000000102020002",
        TransactionValue(
            1,
            1,
            60_000,
            TransactionStatus.PREPARE_COMMIT,
            (PartitionsOfTopic("t", (1,)),),
            1795490395211,
            1795490395166,
            1,
            client_version=2,
        ),
    ),
    (
        "0001000000000000000100010000ea600401000001a20b913450000001a20b91341e020008000000000000000102020002",
        TransactionValue(
            1,
            1,
            60_000,
            TransactionStatus.COMPLETE_COMMIT,
            (),
            1795490395216,
            1795490395166,
            1,
            client_version=2,
        ),
    ),
]
"""Values of a real Kafka 4.3.1: the first two of a client that adds partitions itself, the others of one that does not."""


@pytest.mark.parametrize(("data", "value"), KAFKAS)
def test_bytes_are_those_of_kafka(data, value):
    record = decode_transaction_record(bytes.fromhex("00000003747632"), bytes.fromhex(data))
    assert record == TransactionRecord("tv2", value)
    assert encode_transaction_value(value, FLEXIBLE_VERSION).hex() == data
    assert encode_transaction_key("tv2").hex() == "00000003747632"


@given(transactional_id=st.text(max_size=40), value=VALUES)
def test_what_is_written_is_read(transactional_id, value):
    record = decode_transaction_record(
        encode_transaction_key(transactional_id), encode_transaction_value(value, FLEXIBLE_VERSION)
    )
    assert record == TransactionRecord(transactional_id, value)


@given(value=VALUES)
def test_version_0_loses_only_its_missing_fields(value):
    record = decode_transaction_record(encode_transaction_key("x"), encode_transaction_value(value, PLAIN_VERSION))
    assert record.value == value._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)


def test_tombstone_has_no_value():
    assert decode_transaction_record(encode_transaction_key("x"), None) == TransactionRecord("x", None)


def test_key_of_an_unknown_type_is_skipped():
    assert decode_transaction_record(b"\x00\x01\x00\x01x", b"") is None


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x00\x00\x05x", b"\x00\x00\x00\x01xy", b"\x00\x00\xff\xff"])
def test_malformed_key_is_corruption(key):
    with pytest.raises(CorruptionError):
        decode_transaction_record(key, None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"\x00",
        lambda data: b"\x00\x02" + data[2:],
        lambda data: b"\xff\xff" + data[2:],
        lambda data: data[:16] + bytes((TransactionStatus.DEAD,)) + data[17:],
        lambda data: data[:16] + b"\xff" + data[17:],
    ],
    ids=["cut", "longer", "version-2", "version-minus-1", "dead", "no-state"],
)
def test_malformed_value_is_corruption(damage):
    with pytest.raises(CorruptionError):
        decode_transaction_record(
            encode_transaction_key("x"), damage(encode_transaction_value(VALUE, FLEXIBLE_VERSION))
        )


@given(st.binary(max_size=80))
def test_any_bytes_are_a_value_or_corruption(data):
    with suppress(CorruptionError):
        decode_transaction_record(encode_transaction_key("x"), data)


def test_names_of_states_are_those_of_kafka():
    assert [status.kafka_name for status in TransactionStatus] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
