"""The plan of a stream: at each trigger the end of the next micro-batch, and the tasks of each batch.

The order of Spark's calls depends on its version and its checkpoint. On a first start Spark 4.0 asks for the latest offsets before it
asks for the initial ones: so the call that comes first resolves the position, and both answers begin from it. On a restart Spark hands
over an empty batch at the offsets that it planned last, which is the position.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from esp.consumer.cluster import Cluster
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.spark.bounds import Bounds
from esp.spark.edges import ask, resolve_start
from esp.spark.errors import OptionError
from esp.spark.limits import Samples, limit_ranges, must_wait
from esp.spark.options import OnRecreated, ReadOptions
from esp.spark.planning import TaskPlan, plan_tasks
from esp.spark.position import Offsets, Position, ends_of, find_backlog, find_recreated, ranges_between
from esp.spark.ranges import OffsetRange
from esp.spark.sampling import take_samples
from esp.spark.subscription import Subscription, find_subscription

_LEFT: Final = (
    "format esp: {left} offsets are left behind {batch}: a query with trigger availableNow ends after it (Spark before 4.2): run it by "
    "esp.spark.drain(writer), or start it again"
)


class StreamPlanner:
    """Plans the micro-batches of one run of a query. :meth:`close` ends its connections.

    Args:
        options: of the stream.
        warn: called with the text of a loss that is no error.
        clock_ms: a clock that never goes back.
    """

    def __init__(
        self,
        options: ReadOptions,
        warn: Callable[[str], None],
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._options = options
        self._warn = warn
        self._clock_ms = clock_ms
        self._cluster = Cluster(options.servers, options.terms, options.api_timeout_s, options.fetch_terms.backoff_s)
        self._bounds = None if options.end is None else Bounds(options, options.end)
        self._initial: Offsets | None = None
        self._position: Offsets | None = None
        self._ids: dict[str, bytes] = {}
        self._restarts: set[tuple[Partition, int]] = set()
        self._advanced_ms: int | None = None
        self._has_planned = False

    def close(self) -> None:
        """End the connections."""
        self._cluster.close()

    def find_initial(self) -> Offsets:
        """Return where a new query begins.

        Raises:
            OptionError: an option does not fit the topics and offsets that are there.
            ConsumerError: the cluster does not answer, or does not allow it.
        """
        if self._initial is None:
            self._begin(find_subscription(self._options, self._cluster))
        assert self._initial is not None, "it was just resolved"
        return self._initial

    def advance(self) -> Offsets:
        """Return the end of the next batch, which is the position if there is none yet.

        Raises:
            OptionError: an option does not fit the topics and offsets that are there.
            ConsumerError: records were lost, a topic was created again or is gone, and that is an error; or the cluster does not
                answer.
        """
        subscription = find_subscription(self._options, self._cluster)
        if self._position is None:
            self._begin(subscription)
        assert self._position is not None, "a query begins somewhere"
        position = dict(self._position)
        latest = ask(self._cluster, self._options, dict.fromkeys(subscription.partitions, LATEST))
        self._restart_recreated(position, latest, subscription)
        self._drop_gone(position, subscription)
        self._restart_lost(position, latest)
        bounds = None if self._bounds is None else self._bounds.find(self._cluster, latest)
        backlog = find_backlog(position, latest, bounds)
        if bounds is not None:  # what is added behind the ends of a stream is none of its partitions
            backlog = [one for one in backlog if one.partition in position or one.size]
        ends = position if self._waits(backlog, latest) else self._limit(backlog)
        if ends != self._position:
            self._advanced_ms = self._clock_ms()
            self._tell_left(backlog, ends, "the first batch of this run")
        self._position = ends
        return ends

    def plan(self, start: Position, end: Position) -> list[TaskPlan]:
        """Return the tasks of a batch; an empty one tells the position after a restart.

        Raises:
            ConsumerError: a partition has no leader until the time is over.
        """
        if self._position is None:
            self._position = dict(end)
        ranges = [one for one in ranges_between(start, end) if (one.partition, one.end) not in self._restarts]
        if start != end and not self._has_planned:
            latest = ask(self._cluster, self._options, dict.fromkeys(end, LATEST))
            self._tell_left(find_backlog(end, latest, None), end, "the batch that was planned before and is repeated")
        return plan_tasks(self._options, self._cluster, ranges)

    def _begin(self, subscription: Subscription) -> None:
        """Resolve the position of a new query."""
        options, partitions = self._options, subscription.partitions
        if self._bounds is not None:
            self._bounds.check(partitions)
        earliest = ask(self._cluster, options, dict.fromkeys(partitions, EARLIEST))
        latest = ask(self._cluster, options, dict.fromkeys(partitions, LATEST))
        starts = resolve_start(options, self._cluster, partitions, earliest, latest)
        bounds = {} if self._bounds is None else self._bounds.find(self._cluster, latest)
        for partition, first in starts.items():
            end = min(latest[partition], bounds.get(partition, latest[partition]))
            if first > end:
                raise OptionError(
                    options.start.option,
                    options.start.value,
                    f"{partition} would begin at offset {first}, behind its end {end}: begin earlier, or end later",
                )
        self._initial = starts
        self._position = dict(starts)
        self._ids = dict(subscription.ids)

    def _drop_gone(self, position: Offsets, subscription: Subscription) -> None:
        """Take partitions that are not read any more out of the position."""
        for partition in sorted(position.keys() - set(subscription.partitions)):
            lost = (
                f"{partition} is not among those to read any more, the stream was at its offset {position[partition]}"
            )
            if self._options.fetch_terms.fails_on_loss:
                raise ConsumerError(
                    f"{lost}: it was deleted, or the options name others now: set failOnDataLoss=false to go on without it"
                )
            self._warn(f"{lost}, and goes on without it")
            del position[partition]

    def _restart_recreated(self, position: Offsets, latest: Offsets, subscription: Subscription) -> None:
        """Set the position in topics that were created again to an end of them. The batch that does so reads none of their records: the
        checkpoint has the new position before any is read."""
        choice = self._options.on_recreated
        for topic in find_recreated(self._ids, subscription.ids):
            if choice is OnRecreated.FAIL:
                raise ConsumerError(
                    f"{topic}: set onTopicRecreated=earliest or latest to read the new one, or begin with a new checkpoint"
                )
            self._warn(f"{topic}, and is read from its {choice.value} offset on")
            for partition in [partition for partition in position if partition.topic == topic.topic]:
                del position[partition]
            for partition in [partition for partition in latest if partition.topic == topic.topic]:
                if choice is OnRecreated.EARLIEST:
                    latest[partition] = 0
                position[partition] = latest[partition]
                self._restarts.add((partition, latest[partition]))
        self._ids |= subscription.ids

    def _restart_lost(self, position: Offsets, latest: Position) -> None:
        """Set the position to the ends of partitions that end before it."""
        for partition, end in latest.items():
            if position.get(partition, 0) <= end:
                continue
            lost = f"{partition}: the stream is at offset {position[partition]}, and the partition ends at {end}"
            if self._options.fetch_terms.fails_on_loss:
                raise ConsumerError(
                    f"{lost}: records were lost, or the topic was created again: set failOnDataLoss=false to go on at its end, or "
                    "begin with a new checkpoint"
                )
            self._warn(f"{lost}: it goes on there")
            position[partition] = end

    def _tell_left(self, backlog: Sequence[OffsetRange], ends: Position, batch: str) -> None:
        """Tell once in a run how many offsets its first batch leaves. Spark does not tell a source its trigger, and ends the planner's
        process without a call of :meth:`close` and with its stderr closed: so it is told before the batch is read."""
        left = sum(one.end - max(one.first, ends.get(one.partition, one.first)) for one in backlog)
        if left > 0 and not self._has_planned and self._options.limits.are_set:
            self._warn(_LEFT.format(left=left, batch=batch))
        self._has_planned = True

    def _waits(self, backlog: Sequence[OffsetRange], latest: Position) -> bool:
        if self._bounds is not None and self._bounds.are_reached(latest):
            return False
        waited_ms = None if self._advanced_ms is None else self._clock_ms() - self._advanced_ms
        return must_wait(self._options.limits, sum(one.size for one in backlog), waited_ms)

    def _limit(self, backlog: Sequence[OffsetRange]) -> Offsets:
        limits = self._options.limits
        if not any(one.size for one in backlog):
            return ends_of(backlog)
        samples: Samples = {}
        if limits.need_samples:
            samples = take_samples(self._options, self._cluster, backlog)
        return ends_of(limit_ranges(backlog, limits, samples, self._find_time))

    def _find_time(self, time_ms: int, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        return ask(self._cluster, self._options, dict.fromkeys(partitions, time_ms))
