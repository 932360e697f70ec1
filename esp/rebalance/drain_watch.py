"""Watches a broker that the controller drains by itself (self-repair): checks that a plan exists, and follows the progress.

Meanwhile the cluster changes between requests: several answers may show several moments, and a broker learns of the end of a move a little
later than the controller. So one look alone never proves that the drain is blocked.
"""

from collections.abc import Callable
from typing import Final

from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.placement.intents import Drain
from esp.placement.limits import Limits
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.driver import TROUBLE_MS, TURN_S, Timer
from esp.rebalance.holding import Holding, look_for_holding
from esp.rebalance.planning import plan_for

LOOK_EVERY_S: Final = 1.0
STALLED_MS: Final = 120_000
"""The longest time without a move while replicas are left: the controller plans anew every 30 seconds, and moves at once what it can."""

REFUSED_MS: Final = 3_000
"""The time without a plan before the drain is refused: many times the lag of a broker's metadata behind the controller."""


def check_drain(admin: ReassignmentAdmin, broker: int, limits: Limits, timer: Timer) -> None:
    """Return if the other brokers can take the broker's replicas, or if partitions are moving: no plan is certain then, and the controller
    makes its own.
    Raises:
        OperatorError: there is no plan, with the constraints that stand in the way, or the cluster does not answer.
    """
    began_ms = timer.now_ms()
    while not admin.reassignments():
        try:
            plan_for(admin, Drain((NodeId(broker),)), limits, 0, timer.now_ms())
        except OperatorError:
            if timer.now_ms() - began_ms >= REFUSED_MS:
                raise
        else:
            return
        timer.sleep(TURN_S)


def watch_drain(admin: ReassignmentAdmin, broker: int, timer: Timer, watch: Callable[[Holding], None]) -> None:
    """Return when a broker holds nothing any more. Moves in progress are waited for, however long they take.

    Args:
        admin: the cluster.
        broker: its id.
        timer: tells the time, and waits.
        watch: is shown every look.

    Raises:
        OperatorError: something is left and does not move, or the cluster does not answer.
    """
    idle_since_ms = answered_ms = timer.now_ms()
    before: Holding | None = None
    while True:
        try:
            holding = look_for_holding(admin, broker)
        except OperatorError:
            if timer.now_ms() - answered_ms >= TROUBLE_MS:
                raise
            timer.sleep(LOOK_EVERY_S)
            continue
        answered_ms = timer.now_ms()
        watch(holding)
        if not holding.everything:
            return
        if holding.leaving or holding != before:
            idle_since_ms = answered_ms
        before = holding
        idle_ms = answered_ms - idle_since_ms
        if idle_ms >= STALLED_MS:
            raise OperatorError(
                f"nothing has moved for {idle_ms // 1000} s, and broker {broker} still holds {holding.describe()}",
                "The log of the active controller gives the reason. To plan the moves by hand: "
                f"esp rebalance plan drain {broker}",
            )
        timer.sleep(LOOK_EVERY_S)
