"""The consequences of a broker's heartbeat, or of its absence: unfencing, fencing, controlled shutdown, offline directories.

States and transitions are those of Kafka's ``BrokerHeartbeatManager`` (BRK-4 to BRK-8).
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from esp.controller.broker_sessions import NO_SHUTDOWN, BrokerSessions
from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import Decision
from esp.controller.image import BrokerImage, ClusterImage
from esp.controller.leadership import plan_broker_gone, plan_directories_gone, plan_leaderless
from esp.controller.offset_floors import FinalEnd
from esp.model.ids import BrokerEpoch, DirectoryId, NodeId
from esp.schemas.metadata_records import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
)


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


def decide_heartbeat(image: ClusterImage, heartbeat: Heartbeat, sessions: BrokerSessions) -> Decision[HeartbeatReply]:
    """Let a broker serve, fence it, or advance its controlled shutdown.

    Args:
        image: the newest state, committed or not.
        heartbeat: the broker's heartbeat.
        sessions: how far the others are (BRK-7); not changed.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = require_broker_epoch(image, heartbeat.node_id, heartbeat.broker_epoch)
    state, next_state = _next_state(image, broker, heartbeat, sessions)
    assert next_state in _TRANSITIONS[state], f"{state} is not followed by {next_state}"
    node_id = broker.node_id
    records: tuple[MetadataRecord, ...] = ()
    if next_state is not state:
        match next_state:
            case _BrokerState.UNFENCED:
                assert not broker.in_controlled_shutdown, "it takes a new registration to come back (ISR-11)"
                assert heartbeat.metadata_offset >= broker.registration_offset, "it knows its registration (BRK-5)"
                records = (
                    _change(broker, fenced=UNFENCE),
                    *plan_leaderless(image, node_id),
                )
            case _BrokerState.CONTROLLED_SHUTDOWN:
                changes = plan_broker_gone(image, node_id, unclean=False)
                if broker.in_controlled_shutdown:
                    records = tuple(changes)
                else:
                    records = (_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN), *changes)
            case _BrokerState.FENCED | _BrokerState.SHUTDOWN_NOW if not broker.fenced:
                records = _fence(image, broker)
    reply = HeartbeatReply(
        caught_up=heartbeat.metadata_offset >= broker.registration_offset,
        fenced=next_state in (_BrokerState.FENCED, _BrokerState.SHUTDOWN_NOW),
        in_controlled_shutdown=next_state is _BrokerState.CONTROLLED_SHUTDOWN,
        should_shut_down=next_state is _BrokerState.SHUTDOWN_NOW,
    )
    assert not (reply.fenced and reply.in_controlled_shutdown), "one state at a time"
    assert reply.fenced or not reply.should_shut_down, "a broker that may stop serves no more (BRK-7)"
    return Decision(records, reply)


def decide_fence(image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> Decision[bool]:
    """Fence a broker whose session is over, and elect others where it led, all in one (BRK-6); the reply is true if it served till now.

    Nothing happens if it has registered anew or is fenced already.
    """
    broker = image.brokers.get(node_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Decision((), False)
    return Decision(_fence(image, broker), True)


def decide_offline_directories(
    image: ClusterImage,
    node_id: NodeId,
    broker_epoch: BrokerEpoch,
    offline: Collection[DirectoryId],
) -> Decision[None]:
    """Move leadership away from directories that a broker has lost (KIP-858); directories that were known as lost change nothing.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = require_broker_epoch(image, node_id, broker_epoch)
    lost = [directory for directory in broker.log_dirs if directory in offline]
    if not lost:
        return Decision((), None)
    left = tuple(directory for directory in broker.log_dirs if directory not in offline)
    assert len(left) + len(lost) == len(broker.log_dirs), "a directory is lost or left"
    changes = plan_directories_gone(image, node_id, lost)
    return Decision((*changes, _change(broker, log_dirs=left)), None)


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


def _fence(image: ClusterImage, broker: BrokerImage) -> tuple[MetadataRecord, ...]:
    assert not broker.fenced, "no broker is fenced twice"
    changes = plan_broker_gone(image, broker.node_id, unclean=False)
    return (*changes, _change(broker, fenced=FENCE))


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
