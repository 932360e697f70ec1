"""Watches the controller empty a broker by itself (self-repair), until that is done or does not go on."""

from collections.abc import Callable
from typing import Final

from esp.model.errors import OperatorError
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.driver import TROUBLE_MS, Timer
from esp.rebalance.holding import Holding, look_for_holding

LOOK_EVERY_S: Final = 1.0
STALLED_MS: Final = 120_000
"""How long nothing may be on its way while something is left: the controller plans anew every 30 seconds, and moves at once what it can."""


def watch_drain(admin: ReassignmentAdmin, broker: int, timer: Timer, watch: Callable[[Holding], None]) -> None:
    """Return when a broker holds nothing any more. What is on its way is waited for, however long it takes.

    Args:
        admin: the cluster.
        broker: its id.
        timer: what time it is.
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
                "The log of the active controller says why it leaves them alone. For a plan by hand: "
                f"esp rebalance plan drain {broker}",
            )
        timer.sleep(LOOK_EVERY_S)
