"""The leader of one partition during one leader epoch.

Invariants: appends carry the epoch of this object (LOG-5); the high watermark of the log never falls while it leads (HW-5); what
:meth:`PartitionLeader.append` refused left no byte behind (PRODUCE-5). Everything is called from the node's loop.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.model.partition import PartitionState
from esp.records.batch_header import ATTRIBUTES_OFFSET, CRC_OFFSET, MAX_TIMESTAMP_OFFSET, TIMESTAMP_TYPE_BIT, stamp
from esp.replication.high_watermark import effective_min_isr, next_high_watermark
from esp.replication.produced_batch import validate_produced
from esp.replication.replica_log import ReplicaLog

ALL_REPLICAS = -1
"""``acks`` of a producer that wants its records committed."""

_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")


class Appended(NamedTuple):
    """Where a produced batch stands: its first offset, the offset after it, the broker's time in ms if it stamped one (else -1)."""

    base_offset: int
    next_offset: int
    log_append_time_ms: int


class PartitionLeader:
    """Takes produced batches into the log and says what of it is committed.

    Args:
        log: the replica's log; its latest epoch is that of ``state`` already (LOG-8).
        state: the partition as the controller decided it, this node leading.
        node_id: this node.
    """

    __slots__ = ("_min_isr", "_node_id", "leader_epoch", "log", "state")

    def __init__(self, log: ReplicaLog, state: PartitionState, node_id: NodeId) -> None:
        assert state.leader == node_id
        self.log = log
        self._node_id = node_id
        self.leader_epoch: int = state.leader_epoch
        self.state = state
        self.update(state)

    def update(self, state: PartitionState) -> None:
        """Take over a newer state of the same leader epoch, or the topic's new settings."""
        assert state.leader_epoch == self.leader_epoch
        assert state.leader == self._node_id
        assert state.partition_epoch >= self.state.partition_epoch
        self.state = state
        self._min_isr = effective_min_isr(self.log.settings.min_insync_replicas, len(state.replicas))
        self.maybe_advance_high_watermark()

    def append(self, batch: memoryview, acks: int, now_ms: int, *, zstd_allowed: bool = True) -> Appended:
        """Check and append one batch of a producer; ``batch`` is stamped in place.

        Args:
            batch: the bytes that the producer sent, writable.
            acks: 0, 1 or -1 (all in-sync replicas).
            now_ms: wall time.
            zstd_allowed: whether the request's version knows zstd.

        Raises:
            ApiError: the batch is refused, and nothing of it was appended.
        """
        log = self.log
        if acks == ALL_REPLICAS and not self.has_enough_replicas():
            raise ApiError(
                ErrorCode.not_enough_replicas,
                f"{len(self.state.isr)} in-sync replicas are fewer than the minimum of {self._min_isr}",
            )
        header = validate_produced(batch, log.settings, now_ms, zstd_allowed=zstd_allowed)
        if header.producer_id >= 0:
            duplicate_of = log.producers.check(header)
            if duplicate_of is not None:
                return Appended(duplicate_of, duplicate_of + header.record_count, -1)
        base_offset = log.log_end_offset
        append_time_ms = -1
        if log.settings.message_timestamp_type != "CreateTime":
            append_time_ms = now_ms
            header = header._replace(max_timestamp=now_ms, attributes=header.attributes | TIMESTAMP_TYPE_BIT)
            _INT16.pack_into(batch, ATTRIBUTES_OFFSET, header.attributes)
            _INT64.pack_into(batch, MAX_TIMESTAMP_OFFSET, now_ms)
            header = header._replace(crc=crc32c(batch[ATTRIBUTES_OFFSET:]))
            _UINT32.pack_into(batch, CRC_OFFSET, header.crc)
        log.append(batch, stamp(batch, header, base_offset, self.leader_epoch), now_ms)
        self.maybe_advance_high_watermark()
        # Without the constructor's call: this is done for every produced batch.
        return tuple.__new__(Appended, (base_offset, base_offset + header.record_count, append_time_ms))

    def has_enough_replicas(self) -> bool:
        """Whether the committed ISR reaches the minimum (PRODUCE-1, PRODUCE-2)."""
        return len(self.state.isr) >= self._min_isr

    def maybe_advance_high_watermark(self) -> bool:
        """Commit what all in-sync replicas have; True if the high watermark moved (HW-6).

        Where ``flush.messages`` is 1 a record counts only when it is flushed here too (SYNC-4).
        """
        log = self.log
        own_end = log.recovery_point if log.settings.flush_messages == 1 else log.log_end_offset
        # The controller puts no other replica into the ISR yet, so the maximal ISR is this node.
        committed = next_high_watermark(log.high_watermark, (own_end,), len(self.state.isr), self._min_isr)
        if committed == log.high_watermark:
            return False
        log.high_watermark = committed
        return True
