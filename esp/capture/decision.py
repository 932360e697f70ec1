"""The decisions of a capture: where a runner begins, and what becomes of a file of which it is not known whether it was committed. Pure.

A file goes through these states, which a directory and the committed offset show together:

===========  =========  =====================  ============================================================
work file    file       committed offset       a start
===========  =========  =====================  ============================================================
there        not there  at the file's first    removes the work file, and reads the records again
there        not there  at the file's end      gives the file its name
not there    there      at the file's end      goes on behind it
there        there      at the file's end      removes the work file: a file system that copies was stopped
not there    not there  at the file's end      goes on behind it, and says that the file was removed
===========  =========  =====================  ============================================================
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from esp.capture.position import Position, group_of, read_position
from esp.consumer.errors import UNKNOWN_TOPIC_OR_PARTITION, ConsumerError, MissingPartitionError, describe
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Partition


class RefusedError(ConsumerError):
    """A capture may not go on: records would be missing, or come twice."""


class OvertakenError(ConsumerError):
    """Another runner has taken the capture over."""


class Log(NamedTuple):
    """A partition as its leader and the directory show it.

    Attributes:
        topic_id: the topic's id, in hexadecimal digits.
        earliest: the first offset that is there.
        end: the end of what is decided.
        last_file_end: the end of the last captured file; None: there is none.
        last_file_topic_id: the topic's id that this file has.
    """

    topic_id: str
    earliest: int
    end: int
    last_file_end: int | None = None
    last_file_topic_id: str = ""


class Publication(Enum):
    """The work that is left with the last file that was committed."""

    NAME = "give it its name"
    REMOVE_WORK = "remove the work file"
    NONE = "it has its name"
    GONE = "it was removed"


class Doubt(Enum):
    """The fate of a commit whose answer did not come."""

    COMMITTED = "it was committed"
    AGAIN = "it was not committed"


def check_directory(name: str, owner: str | None, *, has_offsets: bool, has_files: bool) -> None:
    """Return if a directory is the one that a capture writes to, or is new, as the capture is.

    Args:
        name: of the capture.
        owner: the capture whose name stands in the directory; None: none does.
        has_offsets: whether the capture has committed offsets.
        has_files: whether the directory has captured files.

    Raises:
        RefusedError: it is not.
    """
    if owner is not None and owner != name:
        raise RefusedError(f"the directory belongs to capture {owner}: name another one, or go on with that capture")
    if owner is None and has_offsets:
        raise RefusedError(
            f"capture {name} has offsets, and the directory is not the one that it writes to: name that one, or choose another name for "
            "the capture"
        )
    if owner is None and has_files:
        raise RefusedError(
            "the directory has captured files, and says of no capture that it wrote them: name an empty one"
        )


def check_topics(name: str, given: Collection[str], captured: Collection[str]) -> None:
    """Return if a runner captures all topics that its capture has. Two runners that captured different ones would fence one another at each
    commit, and neither would see that the other one goes on.

    Args:
        name: of the capture.
        given: the topics of the runner.
        captured: the topics of which the capture has offsets.

    Raises:
        RefusedError: it does not.
    """
    left = sorted({*captured} - {*given})
    if left:
        topic = left[0]
        raise RefusedError(
            f"--topic {', '.join(sorted(given))}: capture {name} has topic {topic} too: name all topics of the capture, or choose another "
            f"NAME and directory for these, or take {topic} out of the capture by esp groups --delete-offsets --group {group_of(name)} "
            f"--topic {topic}"
        )


def find_new(known: Mapping[Partition, str], found: Mapping[Partition, str]) -> list[Partition]:
    """Return the partitions that were added to topics, in order.

    Args:
        known: the partitions that are captured, with their topics' ids.
        found: the partitions by a broker, likewise.

    Raises:
        RefusedError: a topic was created again.
        MissingPartitionError: the broker does not know a partition: it is behind, since a topic keeps its partitions.
    """
    for partition, topic_id in known.items():
        if found.get(partition, topic_id) != topic_id:
            raise RefusedError(
                f"{partition} is another one now: the topic was created again: choose another name and another directory for the "
                "capture of the new one"
            )
    for partition in known:
        if partition not in found:
            raise MissingPartitionError(f"{partition}: {describe(UNKNOWN_TOPIC_OR_PARTITION)}")
    return [partition for partition in found if partition not in known]


def plan_start(
    name: str,
    partition: Partition,
    committed: Committed | None,
    log: Log,
    runner: str,
    *,
    skips_lost: bool,
    has_topic: bool,
) -> Position:
    """Return the position with which a runner takes a partition over.

    Args:
        name: of the capture.
        partition: the partition.
        committed: what the capture has committed for it; None: nothing.
        log: the partition as it is.
        runner: the runner.
        skips_lost: whether records that are gone are passed over.
        has_topic: whether the capture has other partitions of the topic, so that this one was added since and begins at offset 0.

    Raises:
        RefusedError: the offsets belong to another program or topic, or records are gone.
    """
    if committed is None and log.last_file_end is None:
        begin = 0 if has_topic else log.earliest
        before = Position(begin, begin, "", "", runner, log.topic_id)
    elif committed is None:
        assert log.last_file_end is not None, "there is a file"
        # the offsets have expired, or were deleted: files get their names after the commit only, so that none is behind them
        before = Position(log.last_file_end, log.last_file_end, "", "", runner, log.last_file_topic_id)
    else:
        found = read_position(committed)
        if found is None:
            raise RefusedError(
                f"group {group_of(name)} has offset {committed.offset} of {partition}, which no capture committed: choose another name "
                "for the capture"
            )
        before = found
    if before.topic_id != log.topic_id or before.offset > log.end:
        raise RefusedError(
            f"{partition} is captured up to offset {before.offset}, and the topic was created again since: choose another name and another "
            "directory for the capture of the new one"
        )
    if before.offset < log.earliest and not skips_lost:
        raise RefusedError(
            f"{partition}: offsets {before.offset} to {log.earliest - 1} were deleted before they were captured: give --skip-lost to go on "
            "without them"
        )
    return before._replace(offset=max(before.offset, log.earliest), runner=runner)


def plan_publication(*, has_file: bool, has_work: bool) -> Publication:
    """Return what is left to do with the last file that was committed.

    Args:
        has_file: whether it has its name.
        has_work: whether its work file is there.
    """
    if has_file:
        return Publication.REMOVE_WORK if has_work else Publication.NONE
    return Publication.NAME if has_work else Publication.GONE


def decide_doubt(
    before: Mapping[Partition, Position], wanted: Mapping[Partition, Position], found: Mapping[Partition, Committed]
) -> Doubt:
    """Return what became of a commit.

    Args:
        before: the positions before it, of all partitions of the claim: a newer runner may know only some of them.
        wanted: the positions behind it.
        found: what the capture has committed now, looked at in an epoch that fences all others.

    Raises:
        OvertakenError: another runner has committed meanwhile.
        RefusedError: so has another program.
    """
    now = {partition: read_position(each) for partition, each in found.items() if partition in wanted}
    for partition, position in wanted.items():
        there = now.get(partition)
        if there is None:
            raise RefusedError(f"the offset of {partition} was deleted while the capture ran: start it again")
        if there.runner != position.runner:
            raise OvertakenError("another runner has taken the capture over: this one ends")
    if now == wanted:
        return Doubt.COMMITTED
    if now == before:
        return Doubt.AGAIN
    raise RefusedError("the offsets of the capture were changed by another program while it ran: start it again")
