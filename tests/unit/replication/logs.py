"""Partitions, logs and batches that the tests of replication share."""

from esp.model.ids import ZERO_UUID, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.records.batch_header import read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.replication.partition_follower import PartitionFollower
from esp.replication.partition_leader import PartitionLeader
from esp.settings.topic import TopicSettings
from esp.simulation.partition_tier.memory_log import MemoryLog

ME, B, C = NodeId(1), NodeId(2), NodeId(3)
LAG_US = 30_000_000


def state(*, leader=ME, epoch=5, isr=(ME, B, C), replicas=(ME, B, C), partition_epoch=10, **fields) -> PartitionState:
    return PartitionState(TopicId(ZERO_UUID), 0, replicas, isr, leader, LeaderEpoch(epoch), partition_epoch, **fields)


def stamped(offset: int, epoch: int, value: bytes = b"v", *, records: int = 1) -> memoryview:
    batch = memoryview(bytearray(build_batch([NewRecord(value=value)] * records, timestamp_ms=1)))
    stamp(batch, read_header(batch), offset, epoch)
    return batch


def filled(epochs: list[int], **settings) -> MemoryLog:
    """A log with one batch of one record for each epoch named, the offset being its place."""
    log = MemoryLog(TopicSettings(**settings))
    for offset, epoch in enumerate(epochs):
        batch = stamped(offset, epoch)
        log.append(batch, read_header(batch), 0)
    return log


class Metadata:
    """Brokers as the metadata knows them: node id to broker epoch; left out are fenced ones."""

    def __init__(self) -> None:
        self.active = {B: 20, C: 30}

    def is_eligible(self, node: NodeId, broker_epoch: int) -> bool:
        return self.active.get(node) == broker_epoch


def leading(
    epochs: list[int],
    partition: PartitionState | None = None,
    *,
    metadata: Metadata | None = None,
    now_us=0,
    **settings,
) -> PartitionLeader:
    """A leader at the beginning of its epoch, with a log as :func:`filled` makes it."""
    partition = partition or state()
    log = filled(epochs, **settings)
    log.begin_epoch(partition.leader_epoch)
    return PartitionLeader(
        log,
        partition,
        ME,
        now_us=now_us,
        lag_time_max_us=LAG_US,
        is_eligible=(metadata or Metadata()).is_eligible,
    )


def fetch(leader: PartitionLeader, node: NodeId, offset: int, *, now_us=0, last_epoch=-1, epoch=5, broker_epoch=None):
    """A follower's fetch, of the incarnation that the metadata knows if none is named."""
    known = Metadata().active[node] if broker_epoch is None else broker_epoch
    return leader.on_follower_fetch(now_us, node, known, epoch, offset, last_epoch, 0)


def following(epochs: list[int], *, epoch=5, firm=False, isr=(B, ME), **settings) -> PartitionFollower:
    return PartitionFollower(
        filled(epochs, **settings), state(leader=B, epoch=epoch, isr=isr), ME, high_watermark_is_firm=firm
    )
