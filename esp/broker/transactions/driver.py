"""The coordinator of one partition of ``__transaction_state`` while this node leads it in one leader epoch.

That epoch is the coordinator epoch in its markers, by which partitions refuse those of a coordinator before it (TXN-7).
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from esp.broker.coordination.driver import DriverConfig, KeyedCoordinatorDriver, give_answer
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.transactions.config import TransactionConfig
from esp.broker.transactions.marker_sender import MarkerSender, MarkerWork
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.ports.env import Env
from esp.records.compression import Codec
from esp.transactions.coordinator import TransactionCoordinator
from esp.transactions.effects import Answer, Append, Effect, WriteMarkers
from esp.transactions.markers import MarkerOutcome

log = logging.getLogger(__name__)


class TransactionCoordinatorDriver(KeyedCoordinatorDriver[TransactionCoordinator]):
    """The coordinator of the transactional ids of one partition, in one leader epoch.

    Args:
        env: the outside.
        hosted: the partition, led by this node.
        config: the node's.
        sender: sends the markers.
    """

    subject: ClassVar = "transactions"

    def __init__(self, env: Env, hosted: HostedPartition, config: TransactionConfig, sender: MarkerSender) -> None:
        super().__init__(env, hosted, partial(_new_core, config), DriverConfig(Codec.NONE, config.on_disk_error))
        self._sender = sender

    def end(self) -> None:
        """This node coordinates here no more: its markers are the next coordinator's to send."""
        super().end()
        self._sender.forget(self)

    @property
    def oldest_start_us(self) -> int | None:
        """The monotonic time at which the oldest transaction that is not completed began; None if there is none."""
        return self._core.oldest_start_us

    @property
    def pending_markers(self) -> int:
        """The number of markers of ended transactions that are not written yet."""
        return self._core.pending_markers

    @property
    def refused_markers(self) -> int:
        """The number of markers that partitions have refused for good, and that hold up a transaction."""
        return self._core.refused_markers

    def abort_trashed(self) -> None:
        """Abort the transactions that are open in topics that were put in the trash (TRASH-4)."""
        if self._leads() and self._is_loaded:
            self._work(self._core.abort_trashed(self.now()))

    def on_markers(
        self,
        transactional_id: str,
        decision: int,
        outcomes: Mapping[TopicPartition, tuple[MarkerOutcome, ErrorCode]],
    ) -> None:
        """Partitions have answered for good; called by the sender of markers."""
        if not self._leads():
            return
        core, now = self._core, self.now()
        effects: list[Effect] = []
        for partition, (outcome, error) in outcomes.items():
            if outcome is MarkerOutcome.WRITTEN:
                effects += core.on_marker_written(transactional_id, decision, partition, now)
            else:
                effects += core.on_marker_refused(transactional_id, decision, partition, error, now)
        self._work(effects)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self._append(effect)
        elif isinstance(effect, Answer):
            give_answer(effect)
        elif isinstance(effect, WriteMarkers):
            self._sender.send(self._marker_work(effect))
        else:
            log.error(
                "%s refuses the marker that ends the transaction of %r (producer %d, epoch %d) with %s; consumers that read committed "
                "records stop before it. The marker is sent again every 10 s; if this lasts, let another broker lead %s",
                effect.partition,
                effect.transactional_id,
                effect.producer.producer_id,
                effect.producer.epoch,
                effect.error.name.upper(),
                self._hosted.name,
            )

    def _do_at_end(self, effect: Effect) -> None:
        if isinstance(effect, Answer):
            give_answer(effect)

    def _marker_work(self, effect: WriteMarkers) -> MarkerWork:
        return MarkerWork(
            owner=self,
            transactional_id=effect.transactional_id,
            decision=effect.decision,
            producer=effect.producer,
            is_commit=effect.is_commit,
            transaction_version=effect.transaction_version,
            coordinator=self._hosted.name,
            coordinator_epoch=self._leader.leader_epoch,
            left=dict(effect.partitions),
        )


def _new_core(config: TransactionConfig) -> TransactionCoordinator:
    return TransactionCoordinator(config.settings, config.feature_level, config.take_producer_id, config.is_trashed)
