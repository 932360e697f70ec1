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
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.replication.directory_assignments import PARTITIONS_MAX, assign
from esp.controller.directories import NOWHERE
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.partition_change import has_others
from esp.model.ids import NO_NODE, RESERVED_DIRECTORIES, BrokerEpoch, NodeId, TopicId, TopicPartition, uuid_to_base64
from esp.model.partition import PartitionState
from esp.ports.env import Env

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
        """Of the partition."""
        return TopicPartition(self.topic.name, self.state.partition)

    @property
    def key(self) -> tuple[TopicId, int]:
        """Of the partition, whatever its topic is called."""
        return self.topic.topic_id, self.state.partition


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
    """In which directory the metadata has a node's replica, in words."""
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
        gone: of which logs.
        channel: to the controller.
        broker_epoch: as registered last.
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
