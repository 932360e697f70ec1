"""The sessions of brokers: the last heartbeat of each, and its place in the metadata. Only the active controller knows them (BRK-6).

Nothing of this is in the metadata log. A controller that becomes active gives every broker that serves its full time, since it cannot know
the time of the broker's last heartbeat; but it does know of the node that led the quorum before. Times are of the controller's monotonic
clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from esp.controller.image import BrokerImage
from esp.model.ids import BrokerEpoch, NodeId
from esp.settings.setting import LONG_MAX

NOTHING_READ = -1
"""The metadata offset of a broker that has not said one."""

NO_SHUTDOWN = -1
"""The shutdown offset of a broker that is not shutting down."""

UNDECIDED_SHUTDOWN: Final = LONG_MAX
"""The shutdown offset of a broker whose controlled shutdown is decided in part."""

LEFT_DIVISOR = 4
"""A new controller leaves at least this part of the session's time to every broker."""


@dataclass(slots=True)
class _Session:
    epoch: BrokerEpoch
    deadline_us: int
    is_renewed: bool = False
    """True if its time was given anew for the controller's own absence, since the last heartbeat."""
    metadata_offset: int = NOTHING_READ
    shutdown_offset: int = NO_SHUTDOWN


class BrokerSessions:
    """The sessions of all brokers, at most one for each id, in the order in which the ids first appeared.

    Args:
        timeout_us: ``broker.session.timeout.ms`` in microseconds: how long a session lasts after a heartbeat.
    """

    def __init__(self, timeout_us: int) -> None:
        self._timeout_us = timeout_us
        self._sessions: dict[NodeId, _Session] = {}

    def restart(self, brokers: Iterable[BrokerImage], now_us: int, heard_us: Mapping[NodeId, int]) -> None:
        """Forget everything; each of these brokers that is not fenced begins a session.

        Args:
            brokers: that are registered.
            now_us: when sessions begin, in full.
            heard_us: the last sign of life of some of them: their sessions have begun then, but a part of the time is left to each, in
                which it finds the new controller.
        """
        full_us = self._timeout_us
        least_us = full_us // LEFT_DIVISOR
        self._sessions = {
            broker.node_id: _Session(
                broker.epoch, max(heard_us.get(broker.node_id, now_us) + full_us, now_us + least_us)
            )
            for broker in brokers
            if not broker.fenced
        }

    def begin(self, node_id: NodeId, epoch: BrokerEpoch, now_us: int) -> None:
        """A broker has registered; a session of an earlier incarnation ends."""
        known = self._sessions.get(node_id)
        assert known is None or epoch >= known.epoch, "each registration has a greater epoch (BRK-1)"
        self._sessions[node_id] = _Session(epoch, now_us + self._timeout_us)

    def touch(self, node_id: NodeId, epoch: BrokerEpoch, now_us: int, metadata_offset: int) -> None:
        """A heartbeat has come: the session lasts its full time again.

        Args:
            node_id: of the broker.
            epoch: under which it is registered.
            now_us: the time.
            metadata_offset: the last offset of the metadata that the broker has applied.
        """
        session = self._sessions.get(node_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[node_id] = _Session(epoch, 0)
        session.deadline_us = now_us + self._timeout_us
        session.is_renewed = False
        session.metadata_offset = metadata_offset

    def renew(self, now_us: int) -> None:
        """The controller was away itself: all sessions last their full time again, once between two heartbeats.

        So a controller that is always late fences a silent broker all the same, after two sessions and its own delay at the latest.
        """
        for session in self._sessions.values():
            if not session.is_renewed:
                session.is_renewed = True
                session.deadline_us = now_us + self._timeout_us

    def end(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        """This incarnation is known to be dead, or its absence was dealt with; the session of a later one goes on."""
        session = self._sessions.get(node_id)
        if session is not None and session.epoch == epoch:
            del self._sessions[node_id]

    def is_live(self, node_id: NodeId, epoch: BrokerEpoch, now_us: int) -> bool:
        """True if this incarnation has a session whose time has not passed."""
        session = self._sessions.get(node_id)
        return session is not None and session.epoch == epoch and now_us < session.deadline_us

    def is_unheard(self, node_id: NodeId, epoch: BrokerEpoch) -> bool:
        """True if this incarnation has a session, and has sent no heartbeat in it yet."""
        session = self._sessions.get(node_id)
        return session is not None and session.epoch == epoch and session.metadata_offset == NOTHING_READ

    def expired(self, now_us: int) -> list[tuple[NodeId, BrokerEpoch]]:
        """The brokers whose time has passed, with their epochs."""
        return [
            (node_id, session.epoch) for node_id, session in self._sessions.items() if session.deadline_us <= now_us
        ]

    def next_deadline_us(self) -> int | None:
        """The time at which the next session will have expired, if no heartbeat comes; None if there is no session."""
        return min((session.deadline_us for session in self._sessions.values()), default=None)

    def begin_shutdown(self, node_id: NodeId, offset: int) -> None:
        """A broker's controlled shutdown is committed at ``offset``, or is ``UNDECIDED_SHUTDOWN``; the first call counts."""
        assert offset > NO_SHUTDOWN, "a shutdown stands in the metadata log (BRK-7)"
        session = self._sessions.get(node_id)
        if session is not None and session.shutdown_offset == NO_SHUTDOWN:
            session.shutdown_offset = offset

    def decide_shutdown(self, node_id: NodeId, epoch: BrokerEpoch, offset: int) -> None:
        """The last slice of a controlled shutdown that was undecided is committed at ``offset``."""
        session = self._sessions.get(node_id)
        if session is not None and session.epoch == epoch and session.shutdown_offset == UNDECIDED_SHUTDOWN:
            session.shutdown_offset = offset

    def shutdown_offset(self, node_id: NodeId) -> int:
        """The offset that the others must have read before the broker may stop (BRK-7); ``NO_SHUTDOWN`` if it is not shutting down."""
        session = self._sessions.get(node_id)
        return NO_SHUTDOWN if session is None else session.shutdown_offset

    def all_have_read(self, brokers: Iterable[BrokerImage], offset: int) -> bool:
        """True if each active one of these brokers has said that it has applied the metadata up to ``offset``."""
        for broker in brokers:
            if broker.is_active:
                session = self._sessions.get(broker.node_id)
                if session is None or session.metadata_offset < offset:
                    return False
        return True
