"""The role of each replica on this node, as the metadata says it: leader, follower, or none.

Every change of a role goes through :meth:`ReplicaRoles.take_over` or :meth:`ReplicaRoles.give_up`. Requests that wait at a leader are
notified at once that it leads no more (PRODUCE-3), and fetches that are under way for a follower are dropped (LOG-5).
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.replication.fetcher import FollowerHost
from esp.broker.replication.fetchers import ReplicaFetchers
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.isr_updates import IsrUpdates
from esp.broker.tasks import Tasks
from esp.controller.image import EMPTY_IMAGE
from esp.controller.partition_change import is_online
from esp.model.errors import ApiError
from esp.model.ids import NO_NODE, BrokerEpoch, NodeId
from esp.model.partition import PartitionState
from esp.ports.env import Env
from esp.replication.partition_follower import PartitionFollower, is_still_firm
from esp.replication.partition_leader import PartitionLeader, must_flush_to_lead
from esp.settings.broker import BrokerSettings

_logger = logging.getLogger(__name__)


class RoleHost(FollowerHost, Protocol):
    """The part of :class:`esp.broker.replication.host.ReplicaHost` that roles need."""

    def led(self) -> Iterable[HostedPartition]:
        """The partitions that are led here."""

    def followed(self) -> Iterable[HostedPartition]:
        """The partitions that are followed here."""

    def began_to_lead(self, hosted: HostedPartition) -> None:
        """A partition is led here in an epoch that is new."""


class ReplicaRoles:
    """Makes leaders and followers, and ends them.

    Args:
        env: the outside.
        node_id: this node.
        settings: the node's own.
        tasks: where background work lives.
        host: the host of the replicas.
    """

    def __init__(self, env: Env, node_id: NodeId, settings: BrokerSettings, tasks: Tasks, host: RoleHost) -> None:
        self.image = EMPTY_IMAGE
        """The metadata that is being applied, or was applied last."""
        self._env = env
        self._node_id = node_id
        self._settings = settings
        self._tasks = tasks
        self._host = host
        self._fetchers: ReplicaFetchers | None = None
        self._isr_updates: IsrUpdates | None = None

    def connect(self, channel: ControllerCalls, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        """Fetch from other brokers, and propose changes of in-sync sets, from now on."""
        assert self._fetchers is None
        self._fetchers = ReplicaFetchers(self._env, self._settings, broker_epoch, self._tasks, self._host)
        lag_time_max_ms = self._settings.replica_lag_time_max_ms
        self._isr_updates = IsrUpdates(
            self._env, self._node_id, lag_time_max_ms, channel, broker_epoch, self._tasks, self._host.led
        )
        for hosted in self._host.followed():
            self._fetchers.follow(hosted, self.image)
        for hosted in self._host.led():
            self._isr_updates.wanted(hosted)

    def disconnect(self) -> None:
        """Ask other nodes nothing more."""
        if self._fetchers is not None and self._isr_updates is not None:
            self._fetchers.close()
            self._isr_updates.close()
            self._fetchers = self._isr_updates = None

    # Changes.

    async def take_over(self, hosted: HostedPartition, state: PartitionState) -> None:
        """Put a replica into the role that a newer state gives it; an older one changes nothing (ISR-10).

        Raises:
            OSError: the log could not be cut.
        """
        old = hosted.state
        if old is not None and state.partition_epoch <= old.partition_epoch:
            return
        if hosted.is_offline:  # it takes no role, and what the controller knows of it is compared with this
            hosted.state = state
            return
        if state.leader == self._node_id:
            await self._lead(hosted, state)
        elif state.leader == NO_NODE:
            self._end_role(hosted, state)
            hosted.state = state
        else:
            await self._follow(hosted, state)
        hosted.role_changed()

    def give_up(self, hosted: HostedPartition) -> None:
        """The replica is gone, or its disk has failed."""
        if self._fetchers is not None:
            self._fetchers.forget(hosted)
        hosted.leader = None
        hosted.follower = None
        hosted.role_changed()

    def update_settings(self, hosted: HostedPartition) -> None:
        """The topic has other settings now, and the replica the role that came with them; some say what is committed."""
        leader = hosted.leader
        if leader is not None:
            if leader.update(leader.state, self._env.clock.monotonic_us()):
                hosted.committed()
            hosted.role_changed()

    def update_brokers(self, changed: Iterable[NodeId]) -> None:
        """Brokers have come, gone, moved, or may not be in sync any more: followers and leaders look at them anew."""
        nodes = frozenset(changed)
        if self._fetchers is not None:
            self._fetchers.update(self.image, nodes)
        now_us = self._env.clock.monotonic_us()
        for hosted in self._host.led():
            leader = hosted.leader
            if leader is not None and not nodes.isdisjoint(leader.state.replicas):
                if leader.update(leader.state, now_us):
                    hosted.committed()
                self.may_join(hosted)

    def may_join(self, hosted: HostedPartition) -> None:
        """A follower of a partition that is led here may join its in-sync set."""
        if self._isr_updates is not None:
            self._isr_updates.wanted(hosted)

    # Roles.

    async def _lead(self, hosted: HostedPartition, state: PartitionState) -> None:
        leader = hosted.leader
        now_us = self._env.clock.monotonic_us()
        if leader is not None and leader.leader_epoch == state.leader_epoch:
            hosted.state = state
            if leader.update(state, now_us):
                hosted.committed()
        else:
            if hosted.follower is not None:
                hosted.took_over_us = now_us
            self._end_role(hosted, state)
            hosted.state = state
            if must_flush_to_lead(hosted.log):
                await self._host.flush(hosted)
            if hosted.is_offline:
                return
            async with hosted.busy:
                hosted.log.begin_epoch(state.leader_epoch)
            leader = PartitionLeader(
                hosted.log,
                state,
                self._node_id,
                now_us=now_us,
                lag_time_max_us=self._settings.replica_lag_time_max_ms * 1000,
                is_eligible=partial(self._is_eligible, hosted),
            )
            if state.restored_epoch >= 0:
                self._abort_restored(hosted, leader)
            hosted.leader = leader
            if state.recovering:
                # Said by the leader, whose log this is about: the controller knows of no offsets (ELECT-4, ELECT-5).
                _logger.warning(
                    "%s is led here from epoch %d on, elected outside of the in-sync and eligible replicas:"
                    " acknowledged records from offset %d on may be lost",
                    hosted.name,
                    state.leader_epoch,
                    hosted.leader.epoch_start_offset,
                )
            self._host.began_to_lead(hosted)
        self.may_join(hosted)

    def _abort_restored(self, hosted: HostedPartition, leader: PartitionLeader) -> None:
        """Raises OSError if the log cannot be written: the replica does not lead then."""
        try:
            count = leader.abort_restored(self._env.clock.wall_ms())
        except ApiError as error:
            raise OSError(f"open transactions of {hosted.name} cannot be aborted: {error}") from error
        if count:
            _logger.info("%s was restored, and %d transactions that were open in it are aborted", hosted.name, count)

    async def _follow(self, hosted: HostedPartition, state: PartitionState) -> None:
        follower = hosted.follower
        if follower is not None and follower.leader_epoch == state.leader_epoch:
            hosted.state = state
            follower.update(state)
            return
        self._end_role(hosted, state)
        hosted.state = state
        async with hosted.busy:
            hosted.follower = PartitionFollower(
                hosted.log, state, self._node_id, high_watermark_is_firm=hosted.high_watermark_is_firm
            )
        if self._fetchers is not None:
            self._fetchers.follow(hosted, self.image)

    def _end_role(self, hosted: HostedPartition, state: PartitionState) -> None:
        """End what the replica was before ``state``, and remember whether it may still rely on its high watermark (TRUNC-8)."""
        if self._fetchers is not None:
            self._fetchers.forget(hosted)
        hosted.high_watermark_is_firm = is_still_firm(
            hosted.state,
            state,
            was_leader=hosted.leader is not None,
            follower=hosted.follower,
            kept=hosted.high_watermark_is_firm,
        )
        hosted.leader = None
        hosted.follower = None

    def _is_eligible(self, hosted: HostedPartition, node_id: NodeId, broker_epoch: int) -> bool:
        """ISR-4; nor may a replica join whose log directory has failed, though its last fetch was fine (KIP-858)."""
        broker = self.image.brokers.get(node_id)
        return (
            broker is not None
            and broker.epoch == broker_epoch
            and broker.is_active
            and hosted.state is not None
            and is_online(hosted.state, broker)
        )
