"""A plan is made of what a cluster shows, and given a name."""

import secrets

from esp.model.errors import OperatorError
from esp.placement.intents import Drain, PlannedIntent
from esp.placement.limits import Limits
from esp.placement.planner import Refusal, make_plan
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.intent_words import intent_words
from esp.rebalance.looking import look_for_planner
from esp.rebalance.plan_file import PlanFile


def plan_for(admin: ReassignmentAdmin, intent: PlannedIntent, limits: Limits, seed: int, now_ms: int) -> PlanFile:
    """Look at the cluster and make a plan, which may be empty. Nothing is changed.

    Raises:
        OperatorError: the cluster does not answer, or there is no such plan; the constraints that stand in the way are named.
    """
    view = look_for_planner(admin, intent.brokers if isinstance(intent, Drain) else ())
    made = make_plan(view, intent, limits, seed)
    if isinstance(made, Refusal):
        raise OperatorError(
            f"there is no plan to {intent_words(intent)}:\n" + "\n".join(f"  {reason}" for reason in made.reasons),
            "Nothing was changed.",
        )
    return PlanFile(secrets.token_hex(8), now_ms, made)
