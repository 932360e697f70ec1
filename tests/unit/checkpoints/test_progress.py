from esp.checkpoints.batch_files import BatchOffsets, Place
from esp.checkpoints.checkpoint import Checkpoint
from esp.checkpoints.progress import Progress, report
from esp.model.unread_records import HeldRecords, Retention

A, B, C = Place("t", 0), Place("t", 1), Place("u", 0)
DONE = BatchOffsets("{}", ('{"t":{"0":100,"1":50}}',))
NOW_MS = 1_000_000


def checkpoint_at(done: BatchOffsets | None, under_way: BatchOffsets | None = None) -> Checkpoint:
    return Checkpoint("here", "id", 4, 3, done, under_way, False, None)


def test_lag_age_and_the_time_that_is_left() -> None:
    held = {A: HeldRecords(0, 130, Retention(60_000)), B: HeldRecords(0, 50, Retention(60_000))}
    [a, b] = report(checkpoint_at(DONE), held, {A: NOW_MS - 5_000}, NOW_MS)
    assert a == Progress(A, 100, None, 130, 30, 5_000, 55_000, "")
    assert b == Progress(B, 50, None, 50, 0, None, None, "")


def test_a_partition_that_is_not_there_is_told() -> None:
    [a, b] = report(checkpoint_at(DONE), {B: HeldRecords(0, 50)}, {}, NOW_MS)
    assert a == Progress(A, 100, None, None, None, None, None, "the partition is not there any more")
    assert b.note == ""


def test_a_partition_that_the_query_does_not_know_yet_is_told_with_the_batch_that_brings_it() -> None:
    under_way = BatchOffsets("{}", ('{"t":{"0":110,"1":50},"u":{"0":3}}',))
    held = {A: HeldRecords(0, 130), B: HeldRecords(0, 50), C: HeldRecords(0, 9)}
    rows = report(checkpoint_at(DONE, under_way), held, {}, NOW_MS)
    assert [(row.place, row.batch_end, row.note) for row in rows] == [
        (A, 110, ""),
        (B, 50, ""),
        (C, 3, "not known to the query yet"),
    ]
