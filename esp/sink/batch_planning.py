"""The driver's part in a batch of the sink: the number of partitions among which rows are divided, on which all drivers agree.

Which partition a row goes to depends on the number of partitions. If a topic grows while two drivers write the same batch, one of them may
divide by the old number and the other by the new one: a row would go to two partitions, whose writers know nothing of each other. So no
task writes before each partition's offset says the number by which the batch is divided:

* The driver writes the number beside the offset of each partition, in an epoch that fences all other writers of that partition, and looks
  at all of them once more. Tasks of another driver have committed before, and are seen then; or they are fenced, look again, and are
  refused, as the number there is not theirs.
* The number only grows. It is smaller again only if a share of the batch stands committed that was divided so: then no driver can have
  seen all partitions with the larger number.

In a batch like the one before it nothing is written by the driver, and it looks once.
"""

from collections.abc import Mapping
from typing import Final

from esp.consumer.cluster import Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConsumerError
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.sink.decision import BatchPlan, SmallerTopicError, has_written, is_divided, plan_batch
from esp.sink.order import SinkTarget
from esp.sink.partition_writer import PartitionWriter
from esp.sink.share import group_of
from esp.sink.topic_partitions import count_partitions

_METADATA_S: Final = 10.0
"""The time for which a broker may not know yet that a topic has grown."""

_PAUSE_S: Final = 0.1


class BatchPlanner:
    """Plans the batches of a run of a query.

    Args:
        target: the sink.
        may_begin: whether a sink that has written nothing may begin with another batch than the first.
    """

    def __init__(self, target: SinkTarget, *, may_begin: bool) -> None:
        self._target = target
        self._may_begin = may_begin
        self._has_begun = False
        self._has_written = False

    def plan(self, batch: int) -> BatchPlan:
        """Return how a batch is divided, once all partitions say so. The first look of a run ends the transactions that older runs left,
        and renews the offsets.

        Raises:
            RefusedError: rows would be missing, or come twice.
            ConsumerError: the topic or the group cannot be used.
        """
        place = self._target.place
        deadline = Deadline(self._target.write_terms.timeout_s)
        lagging = Deadline(_METADATA_S)
        with self._target.connect() as cluster:
            while True:
                count = count_partitions(cluster, place.topic)
                committed = self._look(cluster, count)
                try:
                    plan = plan_batch(place, committed, count, batch, may_begin=self._may_begin)
                except SmallerTopicError:
                    if lagging.is_over:
                        raise
                    lagging.pause(_PAUSE_S)
                    continue
                self._has_written = has_written(committed)
                if is_divided(committed, plan, batch):
                    return plan
                if deadline.is_over:
                    raise ConsumerError(
                        f"batch {batch} was not divided among the partitions of topic {place.topic} within {deadline.timeout_s:g} s: "
                        f"another driver writes by sink {place.sink}: end one of them"
                    )
                for number in range(plan.partitions):
                    self.writer(cluster, number).divide(batch, plan.partitions, is_proven=bool(plan.done))

    def note_done(self, *, has_rows: bool) -> None:
        """Take into account that a batch is done: as long as no batch had rows, the sink may begin with the next one."""
        self._may_begin = not (has_rows or self._has_written)

    def renew(self) -> None:
        """Commit all offsets again, so that they do not expire.

        Raises:
            ConsumerError: that is not possible, or not in time.
        """
        with self._target.connect() as cluster:
            for number in range(count_partitions(cluster, self._target.place.topic)):
                self.writer(cluster, number).renew()

    def writer(self, cluster: Cluster, number: int) -> PartitionWriter:
        """Return a writer of a partition."""
        return PartitionWriter(cluster, self._target.place, number, self._target.write_terms)

    def _look(self, cluster: Cluster, count: int) -> Mapping[int, Committed]:
        """The committed offsets, by partition."""
        place = self._target.place
        if self._has_begun:
            wanted = [Partition(place.topic, number) for number in range(count)]
            found = GroupOffsets(cluster, group_of(place.sink)).fetch(wanted, self._target.write_terms.timeout_s)
            return {partition.number: each for partition, each in found.items()}
        taken = {number: self.writer(cluster, number).take_over() for number in range(count)}
        self._has_begun = True
        return {number: each for number, each in taken.items() if each is not None}
