"""Control records, compared with those of a real Kafka 4.3.1 with dynamic voters."""

import pytest

from esp.model.errors import CorruptionError
from esp.model.ids import NodeId
from esp.schemas.control_records import (
    decode_control_record,
    encode_control_record,
    kraft_version,
    leader_change,
    snapshot_footer,
    snapshot_header,
)

_FROM_KAFKA = [
    ("00000002", "00000000000502000000050002000000050000", leader_change(NodeId(5), [NodeId(5)], [NodeId(5)])),
    ("00000003", "0000000001a1fe2b01b500", snapshot_header(0x01A1FE2B01B5)),
    ("00000004", "000000", snapshot_footer()),
    ("00000005", "0000000100", kraft_version(1)),
]


@pytest.mark.parametrize(("key", "value", "entity"), _FROM_KAFKA, ids=lambda value: type(value).__name__)
def test_a_control_record_has_the_bytes_that_kafka_gives_it(key, value, entity):
    encoded = encode_control_record(entity)
    assert (encoded.key.hex(), encoded.value.hex()) == (key, value)
    assert decode_control_record(encoded.key, encoded.value) == entity


def test_a_control_record_of_another_kind_of_log_has_no_meaning():
    assert decode_control_record(bytes.fromhex("00000001"), bytes(6)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (bytes(4), None),
        (b"\0", b""),
        (bytes.fromhex("00000005"), b"\0"),
        (bytes.fromhex("00000005"), b"\0\1\0\1\0"),
    ],
)
def test_a_control_record_that_is_cut_or_of_another_version_is_corrupt(key, value):
    with pytest.raises(CorruptionError):
        decode_control_record(key, value)
