"""Replicas with rotten logs: they leave the in-sync set, and are made anew from their leaders (REC-4).

A replica whose log differs from what was written must neither lead nor count as in sync, but its files must not be removed before others
count in its place. So the controller is first notified that the replica has lost its directory (KIP-858): the replica leaves the in-sync
set, another one leads, and no leader lets it in again. Its files are put aside, and it begins anew, empty, only when three conditions hold:
it is in no set from which leaders are elected, enough other replicas are in sync, and its leader has answered in the epoch that began with
the notification, so that it no longer counts on the replica. A replica that is alone in its in-sync set stays, logs that it is rotten, and
serves its sound records, unless another one is eligible and may lead: that one has all that is committed (ELR-2), and could never come into
sync by reading what has rotted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.model.ids import LOST_DIRECTORY, NO_NODE, NodeId
from esp.model.partition import PartitionState

log = logging.getLogger(__name__)


class RottenReplicas:
    """The replicas of a node whose logs have rotted, until they have begun anew.

    Args:
        node_id: this node.
        tasks: where background work lives.
        lock: held while replicas change.
        tell_directory: tells the controller in which directory a replica is, see :meth:`has_lost_directory`.
        renew: puts a replica's files aside and begins it anew.
        may_lead: tells which replicas of a partition may lead it if they are eligible.
    """

    def __init__(
        self,
        node_id: NodeId,
        tasks: Tasks,
        lock: asyncio.Lock,
        tell_directory: Callable[[HostedPartition], None],
        renew: Callable[[HostedPartition], Awaitable[None]],
        may_lead: Callable[[PartitionState], Callable[[NodeId], bool]],
    ) -> None:
        self._node_id = node_id
        self._tasks = tasks
        self._lock = lock
        self._tell_directory = tell_directory
        self._renew = renew
        self._may_lead = may_lead
        self._replicas: dict[HostedPartition, None] = {}
        self._told_alone: dict[HostedPartition, None] = {}

    def add(self, hosted: HostedPartition) -> None:
        """Something was found in its log."""
        self._replicas[hosted] = None
        self._tasks.start(self._care_alone(), name=f"care for {hosted.name}")

    def forget(self, hosted: HostedPartition) -> None:
        """The replica is gone."""
        self._replicas.pop(hosted, None)
        self._told_alone.pop(hosted, None)

    def has_lost_directory(self, hosted: HostedPartition) -> bool:
        """True if the controller is to take the replica for lost: it has rotted, and others are in sync, or an eligible one may lead."""
        state = hosted.state
        if hosted not in self._replicas or state is None:
            return False
        may_lead = self._may_lead(state)
        return any(node != self._node_id for node in state.isr) or any(
            node != self._node_id and may_lead(node) for node in state.elr
        )

    async def _care_alone(self) -> None:
        async with self._lock:
            await self.care()

    async def care(self) -> None:
        """Do for each of them what can be done now; called with the lock held when the metadata changed, and from time to time."""
        for hosted in tuple(self._replicas):
            if hosted.is_offline or hosted.state is None:
                continue
            is_lost = self.has_lost_directory(hosted)
            if is_lost and self._is_out(hosted):
                log.warning("%s is set aside and fetched again from its leader: %s", hosted.log.path, hosted.log.rot)
                await self._renew(hosted)
                continue
            self._tell_directory(hosted)  # that it is here after all, too: the others may have gone
            if not is_lost:
                self._say_alone(hosted)

    def _is_out(self, hosted: HostedPartition) -> bool:
        """True if enough others are in sync, and no leader counts on the replica, nor will before it reports a directory again."""
        state = hosted.state
        assert state is not None
        enough = min(hosted.log.settings.min_insync_replicas, len(state.replicas) - 1)
        return (
            len(state.isr) >= enough
            and state.leader not in (NO_NODE, self._node_id)
            and hosted.follower is not None
            and hosted.follower.leader_has_answered
            and self._node_id not in (*state.isr, *state.elr, *state.last_known_elr)
            and bool(state.directories)
            and state.directories[state.replicas.index(self._node_id)] == LOST_DIRECTORY
        )

    def _say_alone(self, hosted: HostedPartition) -> None:
        if hosted not in self._told_alone:
            self._told_alone[hosted] = None
            log.critical(
                "%s is the only in-sync replica, and it is corrupt; its intact records are served: %s."
                " Restore the file from a copy, or move the records that can be read to another topic",
                hosted.log.path,
                hosted.log.rot,
            )
