"""Holds each registration that replaces another one against the life of the process that had the place (decision 36).

It looks at the controllers' decisions as they are made, because the facts may be others when a decision is committed: which heartbeats a
controller took, by which connection, and whether that connection has ended since.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from esp.broker.controller import driver as controller_driver
from esp.broker.controller.driver import ControllerDriver
from esp.broker.request import ClientContext
from esp.controller.brokers import BrokerRegistration
from esp.controller.decision import Decision
from esp.controller.heartbeats import Heartbeat, HeartbeatReply
from esp.controller.image import ClusterImage
from esp.model.ids import BrokerEpoch, NodeId
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.machine.loop import Process, current_process
from esp.simulation.nodes_tier.node import SimulatedNode

DECISION: Final = "decide_broker_registration"
"""The function that the controller's driver calls, by its name there."""

REMOVAL: Final = "decide_unregister_broker"
"""Likewise, to unregister a broker."""

SESSION_S: Final = 7.0
"""The time after a heartbeat within which every controller takes the broker for alive: 9 s, less for a fast clock and for stalls."""


@dataclass(slots=True)
class _Heard:
    """The last sign of life of a broker that one controller took."""

    epoch: BrokerEpoch
    client: ClientContext
    at_s: float
    has_ended: bool = False
    """True if its connection has ended."""


class OneLifeChecker:
    """INV-ONE-LIFE: a registration is not replaced while its process lives and the connection lasts by which the controller heard it.

    Args:
        claimants: the nodes that may claim an id: the one whose id it is, and others whose processes were started with it.
        now_s: the simulation's clock.
        report: takes a violation that is found in the midst of a node's step.
        on_unclean: called with the broker and the epoch of a registration that another one begins to replace after an unclean end.
        on_removal: called with the broker and the epoch of a registration that begins to end in slices: it is to be unregistered.
    """

    def __init__(
        self,
        claimants: Callable[[NodeId], Iterable[SimulatedNode]],
        now_s: Callable[[], float],
        report: Callable[[ViolationError], None],
        on_unclean: Callable[[NodeId, BrokerEpoch], None] = lambda _node_id, _epoch: None,
        on_removal: Callable[[NodeId, BrokerEpoch], None] = lambda _node_id, _epoch: None,
    ) -> None:
        self._claimants = claimants
        self._now_s = now_s
        self._report = report
        self._heard: dict[tuple[Process | None, NodeId], _Heard] = {}
        self._on_unclean = on_unclean
        self._on_removal = on_removal

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the registrations, removals and heartbeats that controllers take, until the block ends."""
        heartbeat, names = ControllerDriver.heartbeat, vars(controller_driver)
        decide, remove = names[DECISION], names[REMOVAL]

        async def watch_heartbeat(
            driver: ControllerDriver, request: Heartbeat, client: ClientContext | None = None
        ) -> HeartbeatReply:
            at_s = self._now_s()
            reply = await heartbeat(driver, request, client)
            if client is not None:
                self.on_heard(request.node_id, request.broker_epoch, client, at_s)
            return reply

        def watch_decision(
            image: ClusterImage, registration: BrokerRegistration, next_offset: int, **facts: Any
        ) -> Decision[BrokerEpoch]:
            decision: Decision[BrokerEpoch] = decide(image, registration, next_offset, **facts)
            self.on_registration(image, registration)
            return decision

        def watch_removal(image: ClusterImage, node_id: NodeId, changes_max: int) -> Decision[None]:
            decision: Decision[None] = remove(image, node_id, changes_max)
            if decision.rest is not None:
                self._on_removal(node_id, image.brokers[node_id].epoch)
            return decision

        ControllerDriver.heartbeat = watch_heartbeat  # type: ignore[method-assign, assignment]  # of the class
        names[DECISION], names[REMOVAL] = watch_decision, watch_removal
        try:
            yield
        finally:
            ControllerDriver.heartbeat = heartbeat  # type: ignore[method-assign]
            names[DECISION], names[REMOVAL] = decide, remove

    def on_heard(self, node_id: NodeId, epoch: BrokerEpoch, client: ClientContext, at_s: float) -> None:
        """The controller in the running process took a heartbeat that came at ``at_s``."""
        key = current_process(), node_id
        known = self._heard.get(key)
        if known is not None and known.client is client:
            known.epoch, known.at_s = epoch, at_s
            return
        heard = self._heard[key] = _Heard(epoch, client, at_s)

        def on_end() -> None:
            heard.has_ended = True

        client.at_end.append(on_end)

    def on_registration(self, image: ClusterImage, registration: BrokerRegistration) -> None:
        """The controller in the running process has decided on the state ``image`` that this registration counts."""
        node_id = registration.node_id
        existing = image.brokers.get(node_id)
        heard = self._heard.get((current_process(), node_id))
        if existing is None or existing.incarnation_id == registration.incarnation_id:
            return
        if registration.previous_broker_epoch != existing.epoch:
            self._on_unclean(node_id, existing.epoch)
        holder = next((node for node in self._claimants(node_id) if _goes_on(node, existing.epoch)), None)
        if holder is None:
            return
        if heard is None or heard.epoch != existing.epoch:
            note(Excuse.UNHEARD_REGISTRATIONS)
            return
        silent_s = self._now_s() - heard.at_s
        if silent_s >= SESSION_S:
            return
        if heard.has_ended:
            note(Excuse.ENDED_CONNECTIONS)
            return
        self._report(
            ViolationError(
                "INV-ONE-LIFE",
                holder.name,
                f"epoch {existing.epoch} is replaced, though it was heard {silent_s:.3f} s ago by a connection that lasts",
            )
        )


def _goes_on(node: SimulatedNode, epoch: BrokerEpoch) -> bool:
    """True if the node's process lives under this broker epoch, and was not told to stop."""
    return node.is_alive and not node.is_stopping and probe.broker_epoch(node) == epoch
