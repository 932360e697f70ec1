"""Replicas that the metadata places on this broker, but whose logs are missing: a directory was lost, or files in it were (BRK-11).

A clean shutdown, or the end of the process alone, leaves a broker eligible to lead its partitions. The markers of the directories cannot
show a later loss: neither of a directory that was lost with its marker, nor of a log whose files are gone without a trace. So before a
broker asks to serve, and before it makes any missing log, it reports to the controller the replicas that could make it a leader and that
it has nowhere. They are begun anew, empty, only when the report is recorded. Partitions whose logs exist are not affected.

A log may also be missing because it was never made: the process ended before. A replica may be in the in-sync set of a new partition
without a log for that reason. That looks the same, and is treated the same; if every replica turns out to be empty, one of them leads
nevertheless.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.replication.directory_assignments import PARTITIONS_MAX, assign
from esp.broker.tasks import Tasks
from esp.controller.directories import NOWHERE
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.partition_change import has_others
from esp.model.ids import NO_NODE, RESERVED_DIRECTORIES, BrokerEpoch, NodeId, TopicId, TopicPartition, uuid_to_base64
from esp.model.partition import PartitionState
from esp.ports.env import Env
from esp.storage.log_directory import LogDirectory
from esp.storage.trashed_replicas import TrashedReplica

log = logging.getLogger(__name__)

RETRY_US: Final = 200_000
TOLD_ONE_BY_ONE: Final = 20
"""So many logs that are gone have a line each in the node's own log; of the others there is a number."""


class GoneLog(NamedTuple):
    """A replica whose log is not there, or not the one that counts."""

    topic: TopicImage
    state: PartitionState
    reason: str

    @property
    def name(self) -> TopicPartition:
        """The name of its partition."""
        return TopicPartition(self.topic.name, self.state.partition)

    @property
    def key(self) -> tuple[TopicId, int]:
        """The id of its topic, and the number of its partition."""
        return self.topic.topic_id, self.state.partition


class GoneLogs:
    """The logs of this node that are gone, and the reports of them to the controller.

    A replica whose log is gone may still be elected by what it is believed to have. So no log is made in its place before the controller
    has recorded the loss.

    Args:
        env: the outside.
        node_id: this node.
        tasks: keeps the reports that no start waits for.
        find_trashed: finds the log of a partition in this node's trash, and its data directory.
        on_reported: called when the controller has recorded such a report: the logs of these replicas may be made, empty.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        tasks: Tasks,
        find_trashed: Callable[[TopicId, int], tuple[LogDirectory, TrashedReplica] | None],
        on_reported: Callable[[], Awaitable[None]],
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._tasks = tasks
        self._find_trashed = find_trashed
        self._on_reported = on_reported
        self.found: list[GoneLog] = []
        """The logs that were missing when the data directories were opened, until :meth:`report_found` has reported them."""
        self._reported: set[tuple[TopicId, int]] = set()
        """The logs that the controller has recorded as gone, as long as the metadata here does not say so."""
        self._reporting: set[tuple[TopicId, int]] = set()
        """The logs of restored topics that are being reported."""

    async def report_found(self, channel: ControllerCalls, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        """Report :attr:`found`; return when the controller has recorded it (BRK-11)."""
        await tell_gone(self._env, self._node_id, self.found, channel, broker_epoch)
        self._reported = {lost.key for lost in self.found}
        self.found = []

    def is_reported(self, key: tuple[TopicId, int]) -> bool:
        """True if the controller has recorded that this replica's log is gone, and the metadata here does not say so yet."""
        return key in self._reported

    def forget(self, key: tuple[TopicId, int]) -> None:
        """Forget the report of a replica: the metadata here says so by now, or its partition has a leader."""
        self._reported.discard(key)

    def report_unrestored(
        self,
        missing: Iterable[tuple[TopicImage, PartitionState]],
        channel: tuple[ControllerCalls, Callable[[], BrokerEpoch]] | None,
    ) -> tuple[list[tuple[TopicImage, PartitionState]], list[tuple[TopicId, int]]]:
        """Report, in the background, the replicas of restored topics that should be in the trash here and are not (TRASH-3).

        Args:
            missing: replicas that this node should have, and does not.
            channel: the channel to the controller, and this node's epoch as registered last; None while there is none.

        Returns:
            The missing replicas that may be made now, and the keys of the others, which wait until the controller has recorded the loss.
        """
        ready, withheld, lost = [], [], []
        for topic, state in missing:
            key = topic.topic_id, state.partition
            is_candidate = self._node_id in (*state.isr, *state.elr, *state.last_known_elr)
            if state.restored_epoch < 0 or not is_candidate or key in self._reported:
                ready.append((topic, state))
                continue
            found = self._find_trashed(*key)
            is_last = found is not None and found[1].is_of_last_deletion(state.restored_epoch)
            if found is not None and found[1].is_complete and is_last:
                ready.append((topic, state))
                continue
            withheld.append(key)
            if key in self._reporting:
                continue
            self._reporting.add(key)
            why = "it is not in the trash" if found is None else f"{found[1].path} may have lost its end"
            lost.append(GoneLog(topic, state, why))
        if lost and channel is not None:
            self._tasks.start(self._report(lost, *channel), name="logs that were not restored")
        return ready, withheld

    async def _report(
        self, lost: Sequence[GoneLog], channel: ControllerCalls, broker_epoch: Callable[[], BrokerEpoch]
    ) -> None:
        try:
            await tell_gone(self._env, self._node_id, lost, channel, broker_epoch)
        finally:
            self._reporting.difference_update(each.key for each in lost)
        self._reported.update(each.key for each in lost)
        await self._on_reported()


def find_gone(
    image: ClusterImage, node_id: NodeId, reason_for: Callable[[TopicImage, PartitionState], str | None]
) -> Iterator[GoneLog]:
    """The replicas that count in elections of leaders, and whose logs are gone.

    Args:
        image: the metadata, as new as the registration of this process: it is in no in-sync set since, and comes into none.
        node_id: this node.
        reason_for: why a replica's log does not count; None if it does.
    """
    for topic, state in image.partitions():
        is_candidate = node_id in (*state.isr, *state.elr, *state.last_known_elr) or state.leader == NO_NODE
        if is_candidate and node_id in state.replicas and (reason := reason_for(topic, state)) is not None:
            yield GoneLog(topic, state, reason)


def where_it_was(state: PartitionState, node_id: NodeId) -> str:
    """Name, for a message, the data directory in which the metadata has a node's replica; empty if it names none."""
    directory = state.directories[state.replicas.index(node_id)] if state.directories else None
    return (
        ""
        if directory is None or directory.int < RESERVED_DIRECTORIES
        else f" (it was in the directory {uuid_to_base64(directory)})"
    )


async def tell_gone(
    env: Env,
    node_id: NodeId,
    gone: Sequence[GoneLog],
    channel: ControllerCalls,
    broker_epoch: Callable[[], BrokerEpoch],
) -> None:
    """Tell the operator and the controller, and return when the controller has written it down.

    Args:
        env: the outside.
        node_id: this node.
        gone: the logs.
        channel: the channel to the controller.
        broker_epoch: this node's, as registered last.
    """
    for lost in gone[:TOLD_ONE_BY_ONE]:
        log.error("the log of %s is gone: %s. %s", lost.name, lost.reason, _what_follows(lost.state, node_id))
    if len(gone) > TOLD_ONE_BY_ONE:
        log.error("so are the logs of %d more partitions", len(gone) - TOLD_ONE_BY_ONE)
    untold = dict.fromkeys(lost.key for lost in gone)
    while untold:
        places = dict.fromkeys(islice(untold, PARTITIONS_MAX), NOWHERE)
        for key in await assign(channel, node_id, broker_epoch(), places):
            untold.pop(key, None)
        if untold:
            await env.clock.sleep_us(RETRY_US)


def _what_follows(state: PartitionState, node_id: NodeId) -> str:
    if not has_others(state, node_id):
        return "No other replica has records either: the log starts again, empty"
    others = [node for node in (state.isr or state.elr or state.last_known_elr) if node != node_id]
    if state.leader != NO_NODE:
        return f"It is fetched again from broker {state.leader}"
    if others:
        return f"The partition waits for broker {' or '.join(map(str, others))}, and is then fetched again"
    return (
        "No other replica is known to be complete: the partition stays offline until this log is restored and the node restarted, or "
        "until an unclean election, which may lose records"
    )
