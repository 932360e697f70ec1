"""The consequences of a broker's heartbeat, or of its absence: unfencing, fencing, controlled shutdown, offline directories.

States and transitions are those of Kafka's ``BrokerHeartbeatManager`` (BRK-4 to BRK-8).

A broker that has very many partitions leaves them in slices (decision 69). It is fenced in the last one, whose changes are all that one
state calls for: no fenced broker is in an in-sync set. A broker that is back is unfenced in the first slice, and one that shuts down is
marked there, also if it leads nothing: so no other decision brings it in again, or lets it lead. A decision whose broker has registered
anew meanwhile ends where it is.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from esp.controller.broker_sessions import NO_SHUTDOWN, BrokerSessions
from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import SLICE_CHANGES_MAX, Decision
from esp.controller.image import BrokerImage, ClusterImage
from esp.controller.leadership import plan_broker_gone, plan_directories_gone, plan_leaderless
from esp.controller.offset_floors import FinalEnd
from esp.controller.sliced_changes import Partitions, SlicedChanges
from esp.model.ids import BrokerEpoch, DirectoryId, NodeId
from esp.schemas.metadata_records import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A broker's heartbeat, sent every ``broker.heartbeat.interval.ms``."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    metadata_offset: int
    """The last offset of the metadata log that it has applied."""
    want_fence: bool
    """It cannot serve (yet)."""
    want_shut_down: bool
    """It wants to shut down cleanly."""
    offline_log_dirs: tuple[DirectoryId, ...] = ()
    final_ends: tuple[FinalEnd, ...] = ()
    """The ends of logs of topics that are gone, which it led last (FLOOR-3)."""


class HeartbeatReply(NamedTuple):
    """The answer to a broker's heartbeat."""

    caught_up: bool
    """It has read its own registration."""
    fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool
    """It may stop now."""


class _BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


_TRANSITIONS: Final = {
    _BrokerState.FENCED: frozenset((_BrokerState.FENCED, _BrokerState.UNFENCED, _BrokerState.SHUTDOWN_NOW)),
    _BrokerState.UNFENCED: frozenset(_BrokerState),
    _BrokerState.CONTROLLED_SHUTDOWN: frozenset((_BrokerState.CONTROLLED_SHUTDOWN, _BrokerState.SHUTDOWN_NOW)),
}
"""Every legal transition: a broker that is shutting down does not serve again under this registration (ISR-11)."""


def decide_heartbeat(
    image: ClusterImage, heartbeat: Heartbeat, sessions: BrokerSessions, changes_max: int = SLICE_CHANGES_MAX
) -> Decision[HeartbeatReply]:
    """Let a broker serve, fence it, or advance its controlled shutdown.

    Args:
        image: the newest state, committed or not.
        heartbeat: the broker's heartbeat.
        sessions: how far the others are (BRK-7); not changed.
        changes_max: the most partitions that a slice changes.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = require_broker_epoch(image, heartbeat.node_id, heartbeat.broker_epoch)
    state, next_state = _next_state(image, broker, heartbeat, sessions)
    assert next_state in _TRANSITIONS[state], f"{state} is not followed by {next_state}"
    reply = HeartbeatReply(
        caught_up=heartbeat.metadata_offset >= broker.registration_offset,
        fenced=next_state in (_BrokerState.FENCED, _BrokerState.SHUTDOWN_NOW),
        in_controlled_shutdown=next_state is _BrokerState.CONTROLLED_SHUTDOWN,
        should_shut_down=next_state is _BrokerState.SHUTDOWN_NOW,
    )
    assert not (reply.fenced and reply.in_controlled_shutdown), "one state at a time"
    assert reply.fenced or not reply.should_shut_down, "a broker that may stop serves no more (BRK-7)"
    if next_state is not state:
        match next_state:
            case _BrokerState.UNFENCED:
                assert not broker.in_controlled_shutdown, "it takes a new registration to come back (ISR-11)"
                assert heartbeat.metadata_offset >= broker.registration_offset, "it knows its registration (BRK-5)"
                unfenced = replace(image, brokers={**image.brokers, broker.node_id: replace(broker, fenced=False)})
                elections = decide_leaderless(unfenced, reply, changes_max)
                return replace(elections, records=(_change(broker, fenced=UNFENCE), *elections.records))
            case _BrokerState.CONTROLLED_SHUTDOWN:
                return _shut_down(image, broker, reply, changes_max)
            case _BrokerState.FENCED | _BrokerState.SHUTDOWN_NOW if not broker.fenced:
                stops = next_state is _BrokerState.SHUTDOWN_NOW
                return _fence(image, broker, reply, reply, changes_max, stops=stops)
    return Decision((), reply)


def decide_fence(
    image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch, changes_max: int = SLICE_CHANGES_MAX
) -> Decision[bool]:
    """Fence a broker whose session is over, and elect others where it led (BRK-6); the reply is true if it served till now.

    Nothing happens if it has registered anew or is fenced already.

    Args:
        image: the newest state, committed or not.
        node_id: the broker.
        broker_epoch: of its registration.
        changes_max: the most partitions that a slice changes.
    """
    broker = _find(image, node_id, broker_epoch)
    if broker is None or broker.fenced:
        return Decision((), False)
    return _fence(image, broker, True, False, changes_max)


def decide_leaderless(image: ClusterImage, reply: Reply, changes_max: int = SLICE_CHANGES_MAX) -> Decision[Reply]:
    """Elect leaders for the partitions without one, where that is possible.

    Args:
        image: the newest state, committed or not.
        reply: of the decision.
        changes_max: the most partitions that a slice changes.
    """
    elections = SlicedChanges(plan_leaderless, changes_max)

    def elect(image: ClusterImage) -> Decision[Reply]:
        changes, is_complete = elections.next(image)
        return Decision(tuple(changes), reply, None if is_complete else elect)

    return elect(image)


def decide_offline_directories(
    image: ClusterImage,
    node_id: NodeId,
    broker_epoch: BrokerEpoch,
    offline: Collection[DirectoryId],
    changes_max: int = SLICE_CHANGES_MAX,
) -> Decision[None]:
    """Move leadership away from directories that a broker has lost (KIP-858); directories that were known as lost change nothing.

    Args:
        image: the newest state, committed or not.
        node_id: the broker.
        broker_epoch: of its registration.
        offline: the directories that are lost.
        changes_max: the most partitions that a slice changes.

    Raises:
        ApiError: STALE_BROKER_EPOCH; by a later slice too.
    """

    def plan(image: ClusterImage, partitions: Partitions) -> Iterator[PartitionChangeRecord]:
        lost = [directory for directory in image.brokers[node_id].log_dirs if directory in offline]
        return plan_directories_gone(image, node_id, lost, partitions)

    departures = SlicedChanges(plan, changes_max)

    def leave(image: ClusterImage) -> Decision[None]:
        broker = require_broker_epoch(image, node_id, broker_epoch)
        left = tuple(directory for directory in broker.log_dirs if directory not in offline)
        if left == broker.log_dirs:
            return Decision((), None)
        changes, is_complete = departures.next(image)
        if not is_complete:
            return Decision(tuple(changes), None, leave)
        return Decision((*changes, _change(broker, log_dirs=left)), None)

    return leave(image)


def _next_state(
    image: ClusterImage, broker: BrokerImage, heartbeat: Heartbeat, sessions: BrokerSessions
) -> tuple[_BrokerState, _BrokerState]:
    """The state of a broker, and the one that follows."""
    if broker.fenced:
        state = _BrokerState.FENCED
        if heartbeat.want_shut_down:
            return state, _BrokerState.SHUTDOWN_NOW
        if heartbeat.want_fence or heartbeat.metadata_offset < broker.registration_offset:  # BRK-5
            return state, state
        if broker.in_controlled_shutdown:  # beyond Kafka: it takes a new registration to come back (ISR-11)
            return state, state
        return state, _BrokerState.UNFENCED
    shutdown_offset = sessions.shutdown_offset(broker.node_id)
    if shutdown_offset != NO_SHUTDOWN:
        state = _BrokerState.CONTROLLED_SHUTDOWN
        if _leads(image, broker.node_id) or not sessions.all_have_read(image.brokers.values(), shutdown_offset):
            return state, state
        return state, _BrokerState.SHUTDOWN_NOW
    state = _BrokerState.UNFENCED
    if heartbeat.want_fence:
        return state, _BrokerState.SHUTDOWN_NOW if heartbeat.want_shut_down else _BrokerState.FENCED
    if heartbeat.want_shut_down:
        leads = _leads(image, broker.node_id)
        return state, _BrokerState.CONTROLLED_SHUTDOWN if leads else _BrokerState.SHUTDOWN_NOW
    return state, state


def _leads(image: ClusterImage, node_id: NodeId) -> bool:
    return any(partition.leader == node_id for topic in image.topics_by_id.values() for partition in topic.partitions)


def _find(image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> BrokerImage | None:
    broker = image.brokers.get(node_id)
    return None if broker is None or broker.epoch != broker_epoch else broker


def _departures(node_id: NodeId, changes_max: int) -> SlicedChanges:
    return SlicedChanges(
        lambda image, partitions: plan_broker_gone(image, node_id, unclean=False, partitions=partitions), changes_max
    )


def _fence(
    image: ClusterImage, broker: BrokerImage, reply: Reply, overtaken: Reply, changes_max: int, *, stops: bool = False
) -> Decision[Reply]:
    """Take a broker out of all in-sync sets, then fence it.

    Args:
        image: the newest state.
        broker: is not fenced.
        reply: if it is fenced by this.
        overtaken: the reply if it was fenced or registered anew between two slices.
        changes_max: the most partitions that a slice changes.
        stops: whether it may stop with the last slice, though others have not read that: it is marked first then, and cannot lead (BRK-7).
    """
    node_id, epoch = broker.node_id, broker.epoch
    departures = _departures(node_id, changes_max)

    def leave(image: ClusterImage) -> Decision[Reply]:
        broker = _find(image, node_id, epoch)
        if broker is None or broker.fenced:
            return Decision((), overtaken)
        changes, is_complete = departures.next(image)
        if not is_complete:
            return Decision((*(_shutdown_mark(broker) if stops else ()), *changes), reply, leave)
        return Decision((*changes, _change(broker, fenced=FENCE)), reply)

    return leave(image)


def _shut_down(image: ClusterImage, broker: BrokerImage, reply: Reply, changes_max: int) -> Decision[Reply]:
    """Mark a broker that shuts down, then take it out of all in-sync sets. Arguments as of :func:`_fence`."""
    node_id, epoch = broker.node_id, broker.epoch
    departures = _departures(node_id, changes_max)

    def leave(image: ClusterImage) -> Decision[Reply]:
        broker = _find(image, node_id, epoch)
        if broker is None or broker.fenced:
            return Decision((), reply)
        changes, is_complete = departures.next(image)
        if not is_complete:
            return Decision((*_shutdown_mark(broker), *changes), reply, leave)
        # Once more, if there were other slices: with the record others say at once how far they have read, and that is awaited.
        return Decision((_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN), *changes), reply)

    return leave(image)


def _shutdown_mark(broker: BrokerImage) -> tuple[BrokerRegistrationChangeRecord, ...]:
    """The record from which on a broker leads nothing, and comes into no in-sync set; none if it is marked."""
    if broker.in_controlled_shutdown:
        return ()
    return (_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN),)


def _change(
    broker: BrokerImage,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: tuple[DirectoryId, ...] = (),
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=log_dirs,
    )
