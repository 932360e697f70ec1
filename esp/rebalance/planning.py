"""Makes a plan from a cluster's present state, and gives it a name."""

import secrets
from collections.abc import Iterator
from typing import Final

from esp.model.errors import OperatorError
from esp.placement.intents import Drain, PlannedIntent
from esp.placement.limits import Limits
from esp.placement.planner import Refusal, make_plan
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.intent_words import intent_words
from esp.rebalance.looking import look_for_planner
from esp.rebalance.plan_file import PlanFile

_NAMED_MAX: Final = 3
"""So many partitions are named beside a reason that holds for all of them."""
_LINES_MAX: Final = 5
"""So many reasons are told: figures of partitions differ where the reason is the same."""


def plan_for(admin: ReassignmentAdmin, intent: PlannedIntent, limits: Limits, seed: int, now_ms: int) -> PlanFile:
    """Look at the cluster and make a plan, which may be empty. Nothing is changed.

    Raises:
        OperatorError: the cluster does not answer, or there is no such plan; the constraints that stand in the way are named.
    """
    view = look_for_planner(admin, intent.brokers if isinstance(intent, Drain) else ())
    made = make_plan(view, intent, limits, seed)
    if isinstance(made, Refusal):
        reasons = "\n".join(f"  {reason}" for reason in _reason_lines(made))
        raise OperatorError(f"there is no plan to {intent_words(intent)}:\n{reasons}", "Nothing was changed.")
    return PlanFile(secrets.token_hex(8), now_ms, made)


def _reason_lines(refusal: Refusal) -> Iterator[str]:
    """A line for each reason, however many partitions it stands in the way of; of many reasons the first."""
    entries: dict[tuple[str, str], list[str]] = {}
    for violation in refusal.reasons:
        where = "" if violation.step is None else f" in step {violation.step}"
        entries.setdefault((violation.constraint.value, violation.reason), []).append(violation.entry + where)
    for (constraint, reason), some in list(entries.items())[:_LINES_MAX]:
        others = f" and {len(some) - _NAMED_MAX} others" if len(some) > _NAMED_MAX else ""
        yield f"{constraint}: {', '.join(some[:_NAMED_MAX])}{others}: {reason}"
    left = sum(map(len, list(entries.values())[_LINES_MAX:]))
    if left:
        yield f"and so on for {left} more"
