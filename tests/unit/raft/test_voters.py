"""The voters as a control record."""

from esp.raft.voters import VoterSet
from esp.schemas.control_records import encode_control_record
from tests.unit.raft.samples import VOTERS


def test_voters_have_the_bytes_that_kafka_gives_them():
    record = encode_control_record(VOTERS.to_record())
    assert record.key.hex() == "00000006"
    assert record.value.hex() == (
        "000002000000050d0c7833c1b34e008f95e014ad562d02020b434f4e54524f4c4c45520a3132372e302e302e31532c0000000001000000"
    )


def test_voters_are_read_back_as_they_were_written():
    assert VoterSet.from_record(VOTERS.to_record()) == VOTERS
