"""The batches that a reader of committed records delivers."""

from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.keyed import empty_batch
from esp.records.transaction_marker import build_marker
from esp.simulation.workload.committed_reader import find_delivered


def data(offset: int) -> bytes:
    return build_batch(
        [NewRecord(b"value")],
        base_offset=offset,
        timestamp_ms=7,
        producer_id=3,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(offset: int, *, is_commit: bool) -> bytes:
    found = build_marker(3, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=7)
    return offset.to_bytes(8, "big") + found[8:]


def delivered(*batches: bytes, aborted: tuple[tuple[int, int], ...]) -> list[bool]:
    return [
        is_delivered
        for _, is_delivered in find_delivered([(read_header(one), memoryview(one)) for one in batches], aborted)
    ]


def test_an_aborted_transaction_is_left_out_up_to_its_marker() -> None:
    batches = data(0), marker(1, is_commit=False), data(2), marker(3, is_commit=True)
    assert delivered(*batches, aborted=((3, 0),)) == [False, False, True, False]


def test_what_compaction_leaves_of_a_marker_ends_nothing() -> None:
    left = empty_batch(read_header(marker(1, is_commit=False)))
    assert delivered(left, data(2), marker(3, is_commit=True), aborted=()) == [False, True, False]
