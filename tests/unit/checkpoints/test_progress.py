import pytest

from esp.checkpoints.batch_files import BatchOffsets, Place
from esp.checkpoints.checkpoint import Checkpoint
from esp.checkpoints.progress import Held, Progress, report, unread

A, B, C = Place("t", 0), Place("t", 1), Place("u", 0)
DONE = BatchOffsets("{}", ('{"t":{"0":100,"1":50}}',))
NOW_MS = 1_000_000


def checkpoint_at(done: BatchOffsets | None, under_way: BatchOffsets | None = None) -> Checkpoint:
    return Checkpoint("here", "id", 4, 3, done, under_way, False, None)


def test_lag_age_and_the_time_that_is_left() -> None:
    held = {A: Held(0, 130), B: Held(0, 50)}
    [a, b] = report(checkpoint_at(DONE), held, {A: NOW_MS - 5_000}, {"t": 60_000}, NOW_MS)
    assert a == Progress(A, 100, None, 130, 30, 5_000, 55_000, "")
    assert b == Progress(B, 50, None, 50, 0, None, None, "")


def test_records_that_are_kept_for_ever_are_not_lost() -> None:
    [a] = report(
        checkpoint_at(BatchOffsets("{}", ('{"t":{"0":100}}',))),
        {A: Held(0, 130)},
        {A: 0},
        {"t": None},
        NOW_MS,
    )
    assert (a.behind_ms, a.loss_ms) == (NOW_MS, None)


@pytest.mark.parametrize(
    ("held", "note"),
    [
        (Held(0, 130), ""),
        (Held(0, 99), "beyond the end: the topic was deleted and created again, or lost records"),
        (Held(110, 130), "10 unread records are gone"),
        (None, "the partition is not there any more"),
    ],
)
def test_what_is_wrong_is_told(held: Held | None, note: str) -> None:
    checkpoint = checkpoint_at(BatchOffsets("{}", ('{"t":{"0":100}}',)))
    [row] = report(checkpoint, {} if held is None else {A: held}, {}, {}, NOW_MS)
    assert row.note == note
    assert row.lag == (None if held is None else max(0, held.end - 100))


def test_a_partition_that_the_query_does_not_know_yet_is_told_with_the_batch_that_brings_it() -> None:
    under_way = BatchOffsets("{}", ('{"t":{"0":110,"1":50},"u":{"0":3}}',))
    rows = report(checkpoint_at(DONE, under_way), {A: Held(0, 130), B: Held(0, 50), C: Held(0, 9)}, {}, {}, NOW_MS)
    assert [(row.place, row.batch_end, row.note) for row in rows] == [
        (A, 110, ""),
        (B, 50, ""),
        (C, 3, "not known to the query yet"),
    ]


def test_the_first_unread_record_is_one_that_is_there() -> None:
    assert unread({A: 100, B: 50, C: 7}, {A: Held(110, 130), B: Held(0, 50)}) == {A: 110}
