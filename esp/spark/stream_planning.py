"""The plan of a stream: at each trigger the end of the next micro-batch, and the tasks of each batch.

The order of Spark's calls depends on its version and its checkpoint. On a first start Spark 4.0 asks for the latest offsets before it
asks for the initial ones: so the call that comes first resolves the position, and both answers begin from it. On a restart Spark hands
over an empty batch at the offsets that it planned last, which is the position; from 4.2 on it tells the position when it asks for the
latest offsets.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from esp.consumer.cluster import Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.model.position_note import NO_ID
from esp.options.errors import OptionError
from esp.spark.bounds import Bounds
from esp.spark.edges import ask, find_start
from esp.spark.limits import Samples, limit_ranges, must_wait
from esp.spark.options import OnRecreated, ReadOptions
from esp.spark.planning import TaskPlan, plan_tasks
from esp.spark.position import (
    Offsets,
    Position,
    Recreated,
    ends_of,
    find_added,
    find_backlog,
    find_recreated,
    ranges_between,
)
from esp.spark.ranges import OffsetRange
from esp.spark.sampling import take_samples
from esp.spark.stream_group import StreamGroup
from esp.spark.subscription import Subscription, find_subscription, is_named

_LEFT: Final = (
    "format esp: {left} offsets are left behind {batch}: a query with trigger availableNow ends after it (Spark before 4.2): run it by "
    "esp.spark.drain(writer), or start it again"
)


_METADATA_S: Final = 10.0
"""For so long a broker may know fewer partitions than the position has: it may lag."""


class StreamPlanner:
    """Plans the micro-batches of one run of a query. :meth:`close` ends its connections.

    Args:
        options: of the stream.
        warn: called with the text of a loss that is no error.
        learns_ends: whether Spark says when a run is to end where the topics end, as it does from 4.2 on.
        clock_ms: a clock that never goes back.
    """

    def __init__(
        self,
        options: ReadOptions,
        warn: Callable[[str], None],
        *,
        learns_ends: bool = False,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._options = options
        self._warn = warn
        self._learns_ends = learns_ends
        self._clock_ms = clock_ms
        self._cluster = Cluster(options.servers, options.terms, options.api_timeout_s, options.fetch_terms.backoff_s)
        self._bounds = None if options.end is None else Bounds(options, options.end)
        self._group = (
            None if options.group_id is None else StreamGroup(self._cluster, options.group_id, options.api_timeout_s)
        )
        self._run_ends: Offsets | None = None
        self._is_saved = False
        self._initial: Offsets | None = None
        self._position: Offsets | None = None
        self._ids: dict[str, bytes] | None = None
        self._jumps: Offsets = {}
        """The offsets to which the last batch sets partitions without reading up to them."""
        self._dropped: dict[Partition, tuple[int, bytes]] = {}
        """The offset and the id of the topic, for each partition that was gone."""
        self._advanced_ms: int | None = None
        self._has_planned = False
        self._has_advanced = False

    def close(self) -> None:
        """End the connections."""
        self._cluster.close()

    def end_here(self) -> None:
        """Read no further than the topics reach now: for a run that is told so, by the trigger ``availableNow`` of Spark 4.2 and later.

        Raises:
            OptionError: an option does not fit the topics that are there.
            ConsumerError: the cluster does not answer, or does not allow it.
        """
        partitions = find_subscription(self._options, self._cluster).partitions
        self._run_ends = ask(self._cluster, self._options, dict.fromkeys(partitions, LATEST))

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

    def go_on_from(self, position: Position) -> None:
        """Take a position for that of the query if this run has planned no batch yet, as after a restart.

        If the batch that comes again is the first one, Spark asks where the query begins before: that is not the position then.
        """
        if self._position is None or not (self._has_advanced or self._position == position):
            self._position = dict(position)
            self._ids = None
            self._jumps = {}

    def advance(self, *, is_limited: bool = True) -> Offsets:
        """Return the end of the next batch, which is the position if there is none yet.

        Args:
            is_limited: whether the limits of the options count.

        Raises:
            OptionError: an option does not fit the topics and offsets that are there.
            ConsumerError: records were lost, a topic was created again or is gone, and that is an error; or the cluster does not
                answer.
        """
        subscription = self._find_subscription()
        if self._position is None:
            self._begin(subscription)
        self._has_advanced = True
        assert self._position is not None, "a query begins somewhere"
        ids = self._known_ids(self._position)
        position = dict(self._position)
        latest = ask(self._cluster, self._options, dict.fromkeys(subscription.partitions, LATEST))
        self._ids = {**ids, **subscription.ids}
        recreated = find_recreated(ids, subscription.ids)
        jumps = self._restart_recreated(position, latest, recreated)
        if recreated:
            self._is_saved = False
        if not jumps:
            self._save(self._position, self._ids)
        self._drop_gone(position, subscription, ids)
        jumps |= self._bring_back(position, latest, subscription)
        self._restart_lost(position, latest)
        bounds = self._find_bounds(latest)
        backlog = find_backlog(position, latest, bounds)
        if bounds is not None:  # what is added behind the ends of a stream is none of its partitions
            backlog = [one for one in backlog if one.partition in position or one.size]
        ends = ends_of(backlog)
        if is_limited:
            ends = position if self._waits(backlog, latest) else self._limit(backlog)
        self._announce(find_added(self._position, ends), jumps, ids)
        self._jumps = {partition: end for partition, end in self._jumps.items() if ends.get(partition) == end} | jumps
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
        self.go_on_from(end)
        if start != end and not self._has_advanced:
            self._ids = dict(self._known_ids(end))
        ranges = [one for one in ranges_between(start, end) if self._jumps.get(one.partition) != one.end]
        if start != end and not self._has_advanced:
            ranges = self._leave_out_recreated(ranges)
        if start != end and not self._has_planned:
            latest = ask(self._cluster, self._options, dict.fromkeys(end, LATEST))
            self._tell_left(find_backlog(end, latest, None), end, "the batch that was planned before and is repeated")
        return plan_tasks(self._options, self._cluster, ranges, self._ids or {})

    def _leave_out_recreated(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges of a repeated batch without those of topics that were created again since it was planned: their records are
        gone, and the offsets are not those of the new topic.

        Raises:
            ConsumerError: that is an error.
        """
        ids = self._ids or {}
        names = sorted({one.partition.topic for one in ranges if one.size} & ids.keys())
        now = self._cluster.describe(names) if names else {}
        gone = set()
        for topic in find_recreated({name: ids[name] for name in names}, {name: now[name].topic_id for name in names}):
            self._choose_end(topic)
            self._warn(f"{topic}: what is left of the old one in a batch that is repeated is passed over")
            gone.add(topic.topic)
        return [one for one in ranges if one.partition.topic not in gone]

    def _choose_end(self, topic: Recreated) -> OnRecreated:
        """Return the end of a topic that was created again from which it is read on.

        Raises:
            ConsumerError: that is an error.
        """
        choice = self._options.on_recreated
        if choice is None or choice is OnRecreated.FAIL:
            raise ConsumerError(
                f"{topic}: set onTopicRecreated=earliest or latest to read the new one, or begin with a new checkpoint"
            )
        return choice

    def _begin(self, subscription: Subscription) -> None:
        """Resolve the position of a new query."""
        options, partitions = self._options, subscription.partitions
        if self._bounds is not None:
            self._bounds.check(partitions)
        starts, _, latest = find_start(options, self._cluster, partitions)
        bounds = {} if self._bounds is None else self._bounds.find(self._cluster, latest)
        for partition, first in sorted(starts.items()):
            end = min(latest[partition], bounds.get(partition, latest[partition]))
            if first > end:
                raise OptionError(
                    options.start.option,
                    options.start.value,
                    f"{partition} would begin at offset {first}, behind its end {end}: begin earlier, or end later",
                )
        self._initial = dict(starts)
        self._position = dict(starts)
        self._ids = dict(subscription.ids)

    def _find_bounds(self, latest: Position) -> Offsets | None:
        """The ends of the stream or of this run, as far as they are known; None if there are none."""
        bounds = None if self._bounds is None else self._bounds.find(self._cluster, latest)
        run_ends = self._run_ends
        if run_ends is None:
            return bounds
        return {
            partition: min(run_ends.get(partition, 0), end if bounds is None else bounds.get(partition, end))
            for partition, end in latest.items()
        }

    def _find_subscription(self) -> Subscription:
        """Return what is to be read, once it has all that is read already, or after some seconds: the broker that is asked may lag.

        Raises:
            OptionError: a topic or partition that is named does not exist, or may not be read.
            ConsumerError: the cluster does not answer.
        """
        known = [partition for partition in self._position or () if is_named(self._options, partition)]
        lagging = Deadline(min(_METADATA_S, self._options.api_timeout_s))
        while True:
            try:
                found = find_subscription(self._options, self._cluster)
            except OptionError:
                if not known or lagging.is_over:
                    raise
            else:
                if lagging.is_over or set(known) <= set(found.partitions):
                    return found
            lagging.pause(self._options.fetch_terms.backoff_s)

    def _drop_gone(self, position: Offsets, subscription: Subscription, ids: Mapping[str, bytes]) -> None:
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
            self._dropped[partition] = (position.pop(partition), ids.get(partition.topic, NO_ID))

    def _bring_back(self, position: Offsets, latest: Offsets, subscription: Subscription) -> Offsets:
        """Return the offsets of partitions that were gone and are there again, of the same topics, and set the position to them."""
        jumps: Offsets = {}
        for partition in sorted(self._dropped.keys() & latest.keys()):
            offset, topic_id = self._dropped.pop(partition)
            if partition in position or subscription.ids[partition.topic] != topic_id:
                continue
            jumps[partition] = min(offset, latest[partition])
            self._warn(f"{partition} is there again, and is read from offset {jumps[partition]} on")
        position |= jumps
        latest |= jumps
        return jumps

    def _known_ids(self, position: Position) -> Mapping[str, bytes]:
        """The ids of the topics as this run, or the group, knew them last.

        Raises:
            ConsumerError: the group has no offsets, and the options say what is to be done with topics that were created again.
        """
        if self._ids is not None:
            return self._ids
        if self._group is None or not position:
            return {}
        ids, jumps = self._group.remember(position)
        self._jumps |= jumps
        if not ids:
            missing = (
                f"group {self._options.group_id} has no offsets of the topics of the checkpoint, so that it is not known whether they were "
                "created again since (brokers delete offsets with their topics)"
            )
            if self._options.on_recreated is not None:
                raise ConsumerError(
                    f"{missing}: if they are the same, run the query once without onTopicRecreated; otherwise begin with a new checkpoint"
                )
            self._warn(f"{missing}: they are taken for the same")
        return ids

    def _save(self, position: Position, ids: Mapping[str, bytes]) -> None:
        """Commit the position, which is that of a batch that is done: Spark plans the next only then.

        Raises:
            ConsumerError: the group does not take it, and it is the first of the run, or the first in a topic that was created again:
                that would be taken for created again after a restart too, and its records read twice.
        """
        if self._group is None:
            return
        try:
            self._group.save(position, ids, is_needed=not self._is_saved)
        except ConsumerError as error:
            if not self._is_saved:
                raise
            self._warn(f"the position is not committed, so that lag is shown too large: {error}")
        else:
            self._is_saved = True

    def _announce(self, added: Sequence[Partition], jumps: Position, ids_before: Mapping[str, bytes]) -> None:
        """Commit what the next batch changes besides reading on. After it the run may end without another trigger: what the group does
        not know then would be taken for created again by the next run.

        Raises:
            ConsumerError: the group does not take it.
        """
        if self._group is not None and (added or jumps):
            assert self._ids is not None, "the topics are known"
            starts = {partition: 0 for partition in added if partition not in jumps}
            self._group.announce(starts, jumps, self._ids, ids_before)

    def _restart_recreated(self, position: Offsets, latest: Offsets, recreated: Sequence[Recreated]) -> Offsets:
        """Set the position in topics that were created again to an end of them. The batch that does so reads none of their records: the
        checkpoint has the new position before any is read. Return that position; none if no partition has another one by it.

        Raises:
            ConsumerError: that is an error.
        """
        jumps: Offsets = {}
        is_changed = False
        for topic in recreated:
            choice = self._choose_end(topic)
            old = {partition: offset for partition, offset in position.items() if partition.topic == topic.topic}
            new = {partition: end for partition, end in latest.items() if partition.topic == topic.topic}
            if choice is OnRecreated.EARLIEST:  # not 0 where offsets go on behind the old topic's
                new = ask(self._cluster, self._options, dict.fromkeys(new, EARLIEST))
            jumps |= new
            if new == old:
                continue
            self._warn(f"{topic}, and is read from its {choice.value} offset on")
            for partition in old:
                del position[partition]
            position |= new
            latest |= new
            is_changed = True
        return jumps if is_changed else {}

    def _restart_lost(self, position: Offsets, latest: Position) -> None:
        """Set the position to the ends of partitions that end before it."""
        for partition, end in sorted(latest.items()):
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
        """Tell once in a run how many offsets its first batch leaves. Spark before 4.2 does not tell a source its trigger, and ends the
        planner's process without a call of :meth:`close` and with its stderr closed: so it is told before the batch is read."""
        left = sum(one.end - max(one.first, ends.get(one.partition, one.first)) for one in backlog)
        if left > 0 and not self._has_planned and self._options.limits.are_set and not self._learns_ends:
            self._warn(_LEFT.format(left=left, batch=batch))
        self._has_planned = True

    def _waits(self, backlog: Sequence[OffsetRange], latest: Position) -> bool:
        if self._run_ends is not None or (self._bounds is not None and self._bounds.are_reached(latest)):
            return False
        waited_ms = None if self._advanced_ms is None else self._clock_ms() - self._advanced_ms
        return must_wait(self._options.limits, sum(one.size for one in backlog), waited_ms)

    def _limit(self, backlog: Sequence[OffsetRange]) -> Offsets:
        limits = self._options.limits
        if not any(one.size for one in backlog):
            return ends_of(backlog)
        samples: Samples = {}
        if limits.need_samples:
            samples = take_samples(self._options.fetch_terms, self._cluster, backlog)
        return ends_of(limit_ranges(backlog, limits, samples, self._find_time))

    def _find_time(self, time_ms: int, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        return ask(self._cluster, self._options, dict.fromkeys(partitions, time_ms))
