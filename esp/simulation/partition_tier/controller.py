"""A controller of one partition that never fails: what a quorum of controllers decides, without the quorum.

It is written from the rules (sections 4, 6 and 7), not from :mod:`esp.controller`, so that each checks the other's reading of them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, LeaderEpoch, NodeId
from esp.model.partition import PartitionState
from esp.replication.isr_changes import IsrAnswer, IsrChange
from esp.replication.partition_leader import effective_min_isr


class Broker(NamedTuple):
    """A registered broker."""

    epoch: int
    fenced: bool
    shutting_down: bool = False

    @property
    def is_active(self) -> bool:
        """True if it may be in an ISR, and lead."""
        return not (self.fenced or self.shutting_down)


class Image(NamedTuple):
    """The metadata up to one offset."""

    offset: int
    partition: PartitionState
    brokers: dict[NodeId, Broker]
    min_insync_replicas: int

    @property
    def min_isr(self) -> int:
        """The number of replicas that must be in sync (HW-1)."""
        return effective_min_isr(self.min_insync_replicas, len(self.partition.replicas))


@dataclass(frozen=True, slots=True)
class Election:
    """The manner in which the leader of an epoch was elected."""

    leader: NodeId
    leader_epoch: int
    kind: str
    """``isr``, ``elr``, ``last-known`` or ``unclean``."""


class PartitionController:
    """Decides on the partition and its brokers.

    Args:
        partition: as created, on brokers that are registered and serve.
        min_insync_replicas: at the beginning.
        has_own_minimum: whether it is the topic's; else that of all topics, which comes to the same here.
        unclean_allowed: ``unclean.leader.election.enable``.
        session_us: a broker that sent no heartbeat for so long is fenced.
        on_change: told of every new image, and of the election that came with it.
    """

    def __init__(
        self,
        partition: PartitionState,
        min_insync_replicas: int,
        session_us: int,
        on_change: Callable[[Image, Election | None], None],
        *,
        has_own_minimum: bool = True,  # noqa: ARG002 -- of the other controller
        unclean_allowed: bool,
    ) -> None:
        brokers = {node: Broker(number, fenced=False) for number, node in enumerate(partition.replicas, 1)}
        self.images = [Image(len(brokers), partition, brokers, min_insync_replicas)]
        self._unclean_allowed = unclean_allowed
        self._session_us = session_us
        self._on_change = on_change
        self._last_seen_us = dict.fromkeys(brokers, 0)
        self._incarnations = dict.fromkeys(brokers, 0)

    @property
    def image(self) -> Image:
        """The newest."""
        return self.images[-1]

    def register(self, node: NodeId, incarnation: int, previous_epoch: int, now_us: int) -> int | None:
        """A broker started (BRK-1, BRK-2): one that did not stop in order leaves ISR and ELR with its registration.

        Returns:
            Its epoch, the same for the same incarnation; None for an incarnation that is over.
        """
        old = self.image.brokers[node]
        known = self._incarnations[node]
        if incarnation <= known:
            return old.epoch if incarnation == known else None
        self._incarnations[node] = incarnation
        unclean = old.epoch != previous_epoch
        epoch = self.image.offset + 1
        self._last_seen_us[node] = now_us
        self._commit({node: Broker(epoch, fenced=True)}, leaving=(node,), lossy=(node,) if unclean else ())
        return epoch

    def heartbeat(self, node: NodeId, epoch: int, applied_offset: int, now_us: int, *, wants_shutdown: bool) -> bool:
        """A sign of life (BRK-4, 5, 7). False if the broker's epoch is stale."""
        broker = self.image.brokers[node]
        if broker.epoch != epoch:
            return False
        self._last_seen_us[node] = now_us
        if wants_shutdown:
            if broker.is_active:
                self._commit({node: Broker(epoch, fenced=False, shutting_down=True)}, leaving=(node,))
        elif broker.fenced and applied_offset >= epoch:
            self._commit({node: Broker(epoch, fenced=False)})
        return True

    def expire_sessions(self, now_us: int) -> None:
        """Fence the brokers that were silent for too long (BRK-6)."""
        for node, broker in self.image.brokers.items():
            if not broker.fenced and now_us - self._last_seen_us[node] > self._session_us:
                self._commit({node: broker._replace(fenced=True)}, leaving=(node,))

    def alter_partition(self, sender: NodeId, sender_epoch: int, change: IsrChange) -> IsrAnswer:
        """ISR-7, in its order; every accepted change gets a partition epoch of its own."""
        state = self.image.partition
        brokers = self.image.brokers
        if brokers[sender].epoch != sender_epoch:
            return IsrAnswer(ErrorCode.stale_broker_epoch)
        if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
            return IsrAnswer(ErrorCode.not_controller)
        if change.leader_epoch < state.leader_epoch:
            return IsrAnswer(ErrorCode.fenced_leader_epoch)
        if sender != state.leader:
            return IsrAnswer(ErrorCode.invalid_request)
        if change.partition_epoch < state.partition_epoch:
            return IsrAnswer(ErrorCode.invalid_update_version)
        isr = change.isr
        if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas) or sender not in isr:
            return IsrAnswer(ErrorCode.invalid_request)
        if change.recovering and (len(isr) > 1 or not state.recovering):
            return IsrAnswer(ErrorCode.invalid_request)
        if not all(self._is_member(node, epoch) for node, epoch in change.members):
            return IsrAnswer(ErrorCode.ineligible_replica)
        self._commit({}, isr=isr, recovering=change.recovering)
        state = self.image.partition
        return IsrAnswer(
            ErrorCode.none, state.isr, state.leader, state.leader_epoch, state.partition_epoch, state.recovering
        )

    def set_minimum(self, min_insync_replicas: int) -> None:
        """ELR-3: beside a leader no replica is eligible by the minimum of before, and a greater one gives the partition another epoch."""
        old = self.image
        state = old.partition
        new = Image(old.offset + 1, state, old.brokers, min_insync_replicas)
        if state.isr and (state.elr or new.min_isr > old.min_isr):
            state = replace(state, elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1)
        self.images.append(new._replace(partition=state))
        self._on_change(self.image, None)

    def _is_member(self, node: NodeId, epoch: int) -> bool:
        broker = self.image.brokers[node]
        return broker.is_active and epoch in (-1, broker.epoch)

    def _commit(
        self,
        brokers: dict[NodeId, Broker],
        *,
        isr: tuple[NodeId, ...] | None = None,
        recovering: bool | None = None,
        leaving: Collection[NodeId] = (),
        lossy: Collection[NodeId] = (),
    ) -> None:
        """One change of metadata: brokers, then what follows for the partition."""
        old = self.image
        all_brokers = {**old.brokers, **brokers}
        state = old.partition
        new_isr = tuple(node for node in (state.isr if isr is None else isr) if node not in leaving)
        election = None
        partition = replace(
            state,
            isr=new_isr,
            elr=self._eligible_leaders(state, new_isr, lossy),
            recovering=state.recovering if recovering is None else recovering,
        )
        if not new_isr and state.isr:
            partition = replace(partition, last_known_elr=(state.leader,))
        partition, election = self._elect(partition, all_brokers)
        if partition != state or isr is not None:
            partition = replace(partition, partition_epoch=state.partition_epoch + 1)
        self.images.append(Image(old.offset + 1, partition, all_brokers, old.min_insync_replicas))
        self._on_change(self.image, election)

    def _eligible_leaders(
        self, state: PartitionState, isr: tuple[NodeId, ...], lossy: Collection[NodeId]
    ) -> tuple[NodeId, ...]:
        """ELR-1."""
        if len(isr) >= self.image.min_isr:
            return ()
        known = (*state.elr, *(node for node in state.isr if node not in state.elr))
        return tuple(node for node in known if node not in isr and node not in lossy)

    def _elect(self, state: PartitionState, brokers: dict[NodeId, Broker]) -> tuple[PartitionState, Election | None]:
        """ELECT-1, in its order."""

        def ok(node: NodeId) -> bool:
            return node in brokers and brokers[node].is_active

        isr, elr = state.isr, state.elr
        if state.leader in (isr or elr) and ok(state.leader):
            if not isr:
                return replace(state, isr=(state.leader,), elr=_without(elr, state.leader)), None
            return state, None
        leader, kind = next((node for node in state.replicas if node in isr and ok(node)), NO_NODE), "isr"
        if leader < 0 and not isr:
            leader, kind = next((node for node in state.replicas if node in elr and ok(node)), NO_NODE), "elr"
            if leader < 0 and not elr and len(state.last_known_elr) == 1 and ok(state.last_known_elr[0]):
                leader, kind = state.last_known_elr[0], "last-known"
        if leader < 0 and self._unclean_allowed:
            leader, kind = next((node for node in state.replicas if ok(node)), NO_NODE), "unclean"
        if leader == state.leader:
            return state, None
        state = replace(state, leader=leader, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
        if leader < 0:
            return state, None
        if kind != "isr":
            state = replace(state, isr=(leader,), elr=_without(elr, leader))
        if kind in ("last-known", "unclean"):
            state = replace(state, recovering=True, elr=() if kind == "unclean" else state.elr)
        if len(state.isr) >= self.image.min_isr:
            state = replace(state, elr=())
        return replace(state, last_known_elr=()), Election(leader, state.leader_epoch, kind)


def _without(nodes: tuple[NodeId, ...], left_out: NodeId) -> tuple[NodeId, ...]:
    return tuple(node for node in nodes if node != left_out)
