"""The way back from a plan of which some moves have been done."""

from collections.abc import Collection
from dataclasses import replace

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.placement.intents import Rollback, targets_of
from esp.placement.measures import LoadCount
from esp.placement.plan import Plan
from esp.placement.steps import OrderedMoves, with_figures


def plan_rollback(plan: Plan, done: Collection[TopicPartition]) -> Plan:
    """The plan that takes back those moves of a plan that have been done, the last first.

    Raises:
        OperatorError: the plan is itself a way back.
    """
    if isinstance(plan.intent, Rollback):
        raise OperatorError(
            "the plan is itself a rollback, and cannot be rolled back", "Make a new plan with `esp rebalance plan`."
        )
    return _done_part(plan, done).inverse()


def _done_part(plan: Plan, done: Collection[TopicPartition]) -> Plan:
    """The plan that has been carried out to its end, if only those moves were in it."""
    ordered = [
        OrderedMoves(tuple(move for move in step.moves if move.name in done), step.waits_for) for step in plan.steps
    ]
    loads = LoadCount(plan.brokers, targets_of(plan.brokers, plan.intent), plan.loads_before)
    disk_used = {broker.broker_id: broker.disk_used_bytes for broker in plan.brokers}
    steps = tuple(with_figures(ordered, disk_used, plan.limits, loads))
    return replace(plan, steps=steps, loads_after=loads.loads())
