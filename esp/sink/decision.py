"""The decisions of the sink: what becomes of a batch, and of a partition's share in it, by what was committed before. Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from esp.consumer.errors import ConsumerError
from esp.consumer.group_messages import Committed
from esp.sink.share import NO_BATCH, Share, group_of, read_share


class RefusedError(ConsumerError):
    """A batch may not be written: rows would be missing, or come twice."""


class SmallerTopicError(RefusedError):
    """A topic has fewer partitions than rows were divided among. A broker that answers from old metadata says so for a moment."""


class Action(Enum):
    """The fate of a share."""

    WRITE = "written"
    SKIP = "skipped"


class Place(NamedTuple):
    """A sink, and a topic that it writes to."""

    sink: str
    topic: str


class BatchPlan(NamedTuple):
    """The division of a batch, and its part that is written already.

    Attributes:
        partitions: the number of partitions among which its rows are divided.
        done: the shares that are committed already, by partition; they must come again.
    """

    partitions: int
    done: Mapping[int, Share]


def decide_share(place: Place, partition: int, committed: Committed | None, coming: Share) -> Action:
    """Return what is done with the rows of a partition.

    Args:
        place: the sink and its topic.
        partition: the partition.
        committed: what the sink has committed for it; None: nothing.
        coming: the rows.

    Raises:
        RefusedError: the sink is further than the batch, has written the batch with other rows, or divides it among other partitions.
    """
    if committed is None:
        return Action.WRITE
    before = _read(place, partition, committed)
    if before.batch < coming.batch:
        if before.division_next != coming.partitions:
            raise RefusedError(
                f"batch {coming.batch} is divided among {before.division_next:,} partitions of topic {place.topic} by another driver, and "
                f"among {coming.partitions:,} here: two queries use sink {place.sink}: end one of them, and start the other again"
            )
        return Action.WRITE
    if before.batch > coming.batch:
        raise RefusedError(_further(place, partition, before, coming.batch))
    problem = _find_difference(partition, before, coming)
    if problem:
        raise RefusedError(
            f"batch {coming.batch} is not repeatable: {problem}: what decides the keys, and which rows there are, must be the same when a "
            "batch comes again (no rand(), uuid(), current_timestamp())"
        )
    return Action.SKIP


def plan_batch(
    place: Place, committed: Mapping[int, Committed], partitions: int, batch: int, *, may_begin: bool
) -> BatchPlan:
    """Return how a batch is written.

    Args:
        place: the sink and its topic.
        committed: what the sink has committed, by partition.
        partitions: the partitions of the topic.
        batch: the number of the batch.
        may_begin: whether a sink without offsets may begin with this batch. One whose offsets prove that it has written nothing may.

    Raises:
        RefusedError: the sink is further than the batch, or has no offsets although it is not the first.
    """
    before = {partition: _read(place, partition, each) for partition, each in sorted(committed.items())}
    if batch > 0 and not may_begin and not has_written(committed) and not _is_untouched(before):
        raise RefusedError(
            f"sink {place.sink} has no offsets of topic {place.topic}, and the query is at batch {batch}: they expired, the topic was "
            "created again, the sink was reset, or is new here: pass begin=True if none of the rows from here on are in the topic"
        )
    for partition, share in before.items():
        if share.batch > batch:
            raise RefusedError(_further(place, partition, share, batch))
    done = {partition: share for partition, share in before.items() if share.batch == batch}
    counts = {share.partitions for share in done.values()}
    if not counts:
        counts = {max([partitions, *(share.division_next for share in before.values())])}
    if len(counts) > 1 or max(counts) > partitions:
        refused = RefusedError if len(counts) > 1 else SmallerTopicError
        raise refused(
            f"batch {batch} {'was' if done else 'is'} divided among {' and '.join(map(str, sorted(counts)))} partitions of topic "
            f"{place.topic}, which has {partitions}: the topic was created again, or two queries use sink {place.sink}: choose another "
            "name for the sink"
        )
    return BatchPlan(counts.pop(), done)


def has_written(committed: Mapping[int, Committed]) -> bool:
    """Return True if a batch of the sink is in one of its partitions."""
    return any(each.offset > NO_BATCH + 1 for each in committed.values())


def _is_untouched(before: Mapping[int, Share]) -> bool:
    """Return True if the shares prove that no batch had rows.

    Before a task writes, each partition of its batch says the number of them. So a share that is missing, as its offset has expired, is one
    of those that the others count.
    """
    shares = before.values()
    counted = max((share.division_next for share in shares), default=0)
    return bool(before) and before.keys() >= set(range(counted)) and all(share.batch == NO_BATCH for share in shares)


def is_divided(committed: Mapping[int, Committed], plan: BatchPlan, batch: int) -> bool:
    """Return True if all partitions of a batch say that it is divided as it is planned.

    Args:
        committed: what the sink has committed, by partition; :func:`plan_batch` has read it.
        plan: of the batch.
        batch: the number of the batch.
    """
    shares = [read_share(committed[number]) for number in range(plan.partitions) if number in committed]
    return len(shares) == plan.partitions and all(
        share is not None and (share.batch == batch or share.division_next == plan.partitions) for share in shares
    )


def decide_division(
    place: Place, partition: int, committed: Committed | None, batch: int, partitions: int, *, is_proven: bool
) -> Share | None:
    """Return what is committed for a partition so that the rows of a batch are divided; None if nothing needs to be.

    Args:
        place: the sink and its topic.
        partition: the partition.
        committed: what the sink has committed for it; None: nothing.
        batch: the number of the batch.
        partitions: the number of partitions among which its rows are divided.
        is_proven: whether a share of the batch is committed that was divided so. Otherwise the number does not become smaller.

    Raises:
        RefusedError: another program committed.
    """
    if committed is None:
        return Share(NO_BATCH, 0, 0, partitions)
    before = _read(place, partition, committed)
    if before.batch >= batch or before.division_next == partitions:
        return None
    if before.division_next > partitions and not is_proven:
        return None
    return before._replace(partitions_next=partitions)


def check_repeated(place: Place, plan: BatchPlan, batch: int, coming: Mapping[int, Share]) -> None:
    """Hold a batch that comes again against the shares that are committed, before anything is written.

    Args:
        place: the sink and its topic.
        plan: of the batch.
        batch: the number of the batch.
        coming: the shares of all partitions that have rows.

    Raises:
        RefusedError: a share is another one.
    """
    for partition, share in plan.done.items():
        again = coming.get(partition, Share(batch, 0, 0, plan.partitions))
        decide_share(place, partition, share.to_committed(), again)


def _read(place: Place, partition: int, committed: Committed) -> Share:
    share = read_share(committed)
    if share is None:
        raise RefusedError(
            f"group {group_of(place.sink)} has offset {committed.offset} of partition {partition} of topic {place.topic}, which no sink "
            "committed: choose another name for the sink, or remove it: esp spark sinks reset"
        )
    return share


def _further(place: Place, partition: int, before: Share, batch: int) -> str:
    return (
        f"sink {place.sink} has written batch {before.batch} to partition {partition} of topic {place.topic}, and the query is at batch "
        f"{batch}: its checkpoint was deleted or set back: choose another name for the sink, or make it forget: esp spark sinks reset "
        f"{place.sink}"
    )


def _find_difference(partition: int, before: Share, coming: Share) -> str:
    if before.rows != coming.rows:
        return f"partition {partition} had {before.rows:,} rows, now {coming.rows:,}"
    if before.partitions != coming.partitions:
        return f"partition {partition} was one of {before.partitions:,}, now of {coming.partitions:,}"
    if before.keys != coming.keys:
        return f"partition {partition} had {before.rows:,} rows with other keys"
    return ""
