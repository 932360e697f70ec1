"""The table of decisions at a start, and after a commit whose answer was lost."""

import re

import pytest

from esp.capture.decision import (
    Doubt,
    Log,
    OvertakenError,
    Publication,
    RefusedError,
    check_directory,
    decide_doubt,
    find_new,
    plan_publication,
    plan_start,
)
from esp.capture.position import Position
from esp.consumer.errors import MissingPartitionError
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Partition

HERE = Partition("t", 0)
LOG = Log("id", 2, 100)
BEFORE = Position(40, 5, "t/dt=2026-11-26/0-5-40.parquet", "_work/w", "old", "id")


@pytest.mark.parametrize(
    ("committed", "log", "skips", "wanted"),
    [
        (None, LOG, False, Position(2, 2, "", "", "new", "id")),
        (None, LOG._replace(last_file_end=30, last_file_topic_id="id"), False, Position(30, 30, "", "", "new", "id")),
        (BEFORE, LOG, False, BEFORE._replace(runner="new")),
        (BEFORE, LOG._replace(last_file_end=30), False, BEFORE._replace(runner="new")),  # the commit counts
        (BEFORE, LOG._replace(earliest=40), False, BEFORE._replace(runner="new")),
        (BEFORE, LOG._replace(earliest=41), True, BEFORE._replace(runner="new", offset=41)),
        (BEFORE, LOG._replace(end=40), False, BEFORE._replace(runner="new")),
    ],
)
def test_a_runner_begins(committed: Position | None, log: Log, skips: bool, wanted: Position) -> None:
    offset = None if committed is None else committed.to_committed()
    assert plan_start("c", HERE, offset, log, "new", skips_lost=skips, has_topic=False) == wanted


def test_a_partition_that_was_added_begins_at_its_first_record() -> None:
    def start(earliest: int, *, skips: bool) -> Position:
        log = LOG._replace(earliest=earliest)
        return plan_start("c", HERE, None, log, "new", skips_lost=skips, has_topic=True)

    assert start(0, skips=False) == Position(0, 0, "", "", "new", "id")
    with pytest.raises(RefusedError, match="offsets 0 to 1 were deleted before they were captured: give --skip-lost"):
        start(2, skips=False)
    assert start(2, skips=True) == Position(2, 0, "", "", "new", "id"), "its begin stays, so that the gap is seen"


@pytest.mark.parametrize(
    ("committed", "log", "words"),
    [
        (BEFORE.to_committed(), LOG._replace(earliest=41), "offsets 40 to 40 were deleted .* give --skip-lost"),
        (BEFORE.to_committed(), LOG._replace(topic_id="other"), "up to offset 40, and the topic was created again"),
        (BEFORE.to_committed(), LOG._replace(end=39), "up to offset 40, and the topic was created again"),
        (None, LOG._replace(last_file_end=30, last_file_topic_id="other"), "up to offset 30, and the topic was"),
        (Committed(3, "mine"), LOG, "group esp-capture.c has offset 3 of partition 0 of topic t, which no capture"),
    ],
)
def test_a_runner_refuses(committed: Committed | None, log: Log, words: str) -> None:
    with pytest.raises(RefusedError, match=words) as caught:
        plan_start("c", HERE, committed, log, "new", skips_lost=False, has_topic=False)
    assert "\n" not in str(caught.value)


def test_partitions_that_were_added_are_found() -> None:
    other, added = Partition("t", 1), Partition("t", 2)
    known = {HERE: "id", other: "id"}
    assert find_new(known, {HERE: "id", other: "id", added: "id"}) == [added]
    assert find_new(known, known) == []
    with pytest.raises(RefusedError, match="partition 0 of topic t is another one now: the topic was created again"):
        find_new(known, {HERE: "next"})
    with pytest.raises(MissingPartitionError, match="partition 1 of topic t: it does not exist"):
        find_new(known, {HERE: "id", added: "id"})  # a broker that is behind


@pytest.mark.parametrize(
    ("owner", "has_offsets", "has_files", "words"),
    [
        (None, False, False, None),
        ("c", False, False, None),
        ("c", False, True, None),
        ("c", True, True, None),
        ("other", False, False, "belongs to capture other"),
        (None, True, False, "capture c has offsets, and the directory is not the one"),
        (None, False, True, "has captured files, and says of no capture"),
    ],
)
def test_directory_and_capture_belong_together(
    owner: str | None, has_offsets: bool, has_files: bool, words: str | None
) -> None:
    if words is None:
        check_directory("c", owner, has_offsets=has_offsets, has_files=has_files)
        return
    with pytest.raises(RefusedError, match=re.escape(words)):
        check_directory("c", owner, has_offsets=has_offsets, has_files=has_files)


@pytest.mark.parametrize(
    ("has_file", "has_work", "left"),
    [
        (False, True, Publication.NAME),
        (True, False, Publication.NONE),
        (True, True, Publication.REMOVE_WORK),
        (False, False, Publication.GONE),
    ],
)
def test_last_file_is_finished(has_file: bool, has_work: bool, left: Publication) -> None:
    assert plan_publication(has_file=has_file, has_work=has_work) is left


def test_a_commit_in_doubt_is_looked_at() -> None:
    before = {HERE: BEFORE._replace(runner="new")}
    wanted = {HERE: before[HERE]._replace(offset=50)}
    assert decide_doubt(before, wanted, {HERE: wanted[HERE].to_committed()}) is Doubt.COMMITTED
    assert decide_doubt(before, wanted, {HERE: before[HERE].to_committed()}) is Doubt.AGAIN
    with pytest.raises(OvertakenError):
        decide_doubt(before, wanted, {HERE: wanted[HERE]._replace(runner="other").to_committed()})
    with pytest.raises(RefusedError, match="changed by another program"):
        decide_doubt(before, wanted, {HERE: wanted[HERE]._replace(offset=60).to_committed()})
    for found in ({}, {HERE: Committed(7, "")}):
        with pytest.raises(RefusedError, match="was deleted while the capture ran"):
            decide_doubt(before, wanted, found)
