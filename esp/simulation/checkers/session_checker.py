"""Holds the end of each broker's session against the last time that the active controller heard the broker (BRK-6).

A session may be given its time anew once between two heartbeats, for the controller's own absence. So a silent broker's session is over
after two times the session time-out and twice the longest time for which the controller itself stood still meanwhile: a timer that is late
by that much may come at the end of either.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from esp.controller.broker_sessions import BrokerSessions
from esp.controller.image import BrokerImage
from esp.model.ids import BrokerEpoch, NodeId
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import Process, current_process
from esp.simulation.nodes_tier.node import SimulatedNode

SLACK_S: Final = 1.0

STALL_S: Final = 0.3
"""The time without a turn from which a controller has stood still: it writes something or is asked for something more often."""


@dataclass(slots=True)
class _Term:
    """A controller's knowledge of the brokers' lives, in simulated seconds."""

    heard: dict[NodeId, tuple[BrokerEpoch, float]] = field(default_factory=dict)
    """The epoch of each broker that has a session, and its last heartbeat or registration, or the time at which the term began."""
    stalls: list[tuple[float, float]] = field(default_factory=list)
    """The end of each time for which the controller stood still, and its length."""
    turn_s: float = 0.0


class SessionChecker:
    """INV-SESSION: no session outlasts the silence of its broker by more than the rule allows.

    Args:
        now_s: the simulation's clock.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._terms: dict[Process | None, _Term] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the sessions of all controllers, until the block ends."""
        restart, begin = BrokerSessions.restart, BrokerSessions.begin
        touch, end = BrokerSessions.touch, BrokerSessions.end

        def watch_restart(
            sessions: BrokerSessions, brokers: Iterable[BrokerImage], now_us: int, heard_us: Mapping[NodeId, int]
        ) -> None:
            known = list(brokers)
            restart(sessions, known, now_us, heard_us)
            self.on_term({broker.node_id: broker.epoch for broker in known if not broker.fenced})

        def watch_begin(sessions: BrokerSessions, node_id: NodeId, epoch: BrokerEpoch, now_us: int) -> None:
            begin(sessions, node_id, epoch, now_us)
            self.on_heard(node_id, epoch)

        def watch_touch(
            sessions: BrokerSessions, node_id: NodeId, epoch: BrokerEpoch, now_us: int, metadata_offset: int
        ) -> None:
            touch(sessions, node_id, epoch, now_us, metadata_offset)
            self.on_heard(node_id, epoch)

        def watch_end(sessions: BrokerSessions, node_id: NodeId, epoch: BrokerEpoch) -> None:
            end(sessions, node_id, epoch)
            self.on_end(node_id, epoch)

        BrokerSessions.restart = watch_restart  # type: ignore[method-assign, assignment]  # of the class
        BrokerSessions.begin = watch_begin  # type: ignore[method-assign, assignment]
        BrokerSessions.touch = watch_touch  # type: ignore[method-assign, assignment]
        BrokerSessions.end = watch_end  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            BrokerSessions.restart = restart  # type: ignore[method-assign]
            BrokerSessions.begin = begin  # type: ignore[method-assign]
            BrokerSessions.touch = touch  # type: ignore[method-assign]
            BrokerSessions.end = end  # type: ignore[method-assign]

    def on_term(self, brokers: Mapping[NodeId, BrokerEpoch]) -> None:
        """The controller in the running process is active from now on, and knows of these brokers that serve."""
        now_s = self._now_s()
        self._terms[current_process()] = _Term({node_id: (epoch, now_s) for node_id, epoch in brokers.items()})

    def on_heard(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        """The controller in the running process heard a broker."""
        self._terms.setdefault(current_process(), _Term()).heard[node_id] = epoch, self._now_s()

    def on_end(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        """The controller in the running process has ended the session of a broker."""
        heard = self._terms.setdefault(current_process(), _Term()).heard
        if node_id in heard and heard[node_id][0] == epoch:
            del heard[node_id]

    def look(self, node: SimulatedNode) -> None:
        """To be called after each turn of a node. Raises ViolationError."""
        term = self._terms.get(node.process)
        if term is None:
            return
        if node.is_stopping or not probe.leads_quorum(node):
            del self._terms[node.process]
            return
        now_s = self._now_s()
        if term.turn_s and now_s - term.turn_s > STALL_S:
            term.stalls.append((now_s, now_s - term.turn_s))
        term.turn_s = now_s
        session_s = node.settings.broker_session_timeout_ms / 1000 / node.clock.rate
        for node_id, (epoch, heard_s) in term.heard.items():
            if now_s - heard_s <= 2 * session_s + SLACK_S:
                continue
            longest_s = max((length_s for end_s, length_s in term.stalls if end_s > heard_s), default=0.0)
            if now_s - heard_s > 2 * (session_s + longest_s) + SLACK_S:
                raise ViolationError(
                    "INV-SESSION",
                    node.name,
                    f"broker {node_id} of epoch {epoch} is not fenced {now_s - heard_s:.1f} s after it was heard last; the controller "
                    f"stood still for {longest_s:.1f} s at most",
                )
