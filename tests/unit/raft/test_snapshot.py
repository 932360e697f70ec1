"""Snapshot files, compared byte by byte with what ``kafka-storage format --standalone`` of Kafka 4.3.1 wrote."""

import pytest

from esp.model.errors import CorruptionError
from esp.raft.snapshot import FIRST, build_first_snapshot, build_snapshot, read_voters
from esp.records.batch_header import read_header
from tests.unit.raft.samples import NOW_MS, VOTERS

_KAFKA_RECORDS = bytes.fromhex(
    # SNAPSHOT_HEADER, KRAFT_VERSION, KRAFT_VOTERS: the records of the control batch, with the timestamp of the header record cut out
    "2a0000000800000003160000000001a1fe2b01b500001e0000020800000005"
)
_KAFKA_VOTERS_VALUE = bytes.fromhex(
    "000002000000050d0c7833c1b34e008f95e014ad562d02020b434f4e54524f4c4c45520a3132372e302e302e31532c0000000001000000"
)


def test_the_first_snapshot_is_the_one_that_kafka_formats():
    snapshot = build_first_snapshot(VOTERS, 0x01A1FE2B01B5)
    header = read_header(snapshot)
    assert len(snapshot) == 241
    assert (header.record_count, header.leader_epoch, header.base_offset, header.base_sequence) == (3, 0, 0, -1)
    assert header.is_control
    assert snapshot[61 : 61 + len(_KAFKA_RECORDS)] == _KAFKA_RECORDS
    assert _KAFKA_VOTERS_VALUE in snapshot
    footer = read_header(snapshot, header.size)
    assert (footer.base_offset, footer.record_count, footer.next_offset) == (3, 1, 4)
    assert FIRST.file_name == "00000000000000000000-0000000000.checkpoint"


def test_a_snapshot_names_its_voters():
    assert read_voters(build_first_snapshot(VOTERS, NOW_MS)) == VOTERS


def test_records_of_a_snapshot_stand_between_header_and_footer():
    snapshot = build_snapshot(FIRST, (), [b"one", b"two"], last_contained_timestamp_ms=0, now_ms=NOW_MS)
    header = read_header(snapshot)
    records = read_header(snapshot, header.size)
    assert (records.base_offset, records.record_count, records.is_control) == (1, 2, False)


def test_a_snapshot_without_voters_is_refused():
    with pytest.raises(CorruptionError, match="voters"):
        read_voters(build_snapshot(FIRST, (), (), last_contained_timestamp_ms=0, now_ms=NOW_MS))


def test_a_snapshot_that_is_cut_anywhere_is_refused():
    snapshot = build_first_snapshot(VOTERS, NOW_MS)
    for length in range(len(snapshot)):
        with pytest.raises(CorruptionError):
            read_voters(snapshot[:length])


def test_a_snapshot_with_a_flipped_bit_is_refused():
    snapshot = bytearray(build_first_snapshot(VOTERS, NOW_MS))
    snapshot[100] ^= 1
    with pytest.raises(CorruptionError):
        read_voters(bytes(snapshot))
