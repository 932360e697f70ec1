"""A plan that came to a stop gives way to a new one for the same intent, made of what is there by now."""

import os
import re
from typing import Final

from esp.model.errors import OperatorError
from esp.placement.intents import Rollback
from esp.placement.plan import Plan
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.driver import TURN_S, Timer
from esp.rebalance.intent_words import intent_words
from esp.rebalance.plan_file import PlanFile
from esp.rebalance.planning import plan_for
from esp.rebalance.stages import BELIEVED_AFTER_MS, Seen, see

REPLANS_MAX: Final = 3
"""The number of new plans that a command makes by itself: one for each broker that may die, and an end where more than that is wrong."""

_NAME: Final = re.compile(r"(?P<first>.*)\.replan-(?P<number>\d+)")


def replan(admin: ReassignmentAdmin, stopped: Plan, timer: Timer) -> PlanFile:
    """The new plan, with the limits and the seed of the one that stopped; empty if nothing is left to do.

    Raises:
        OperatorError: there is no such plan, or the one that stopped was a way back, which leads to one place only.
    """
    if isinstance(stopped.intent, Rollback):
        raise OperatorError(
            "a stopped rollback cannot be planned again",
            "Fix the cause, then make a plan to move the remaining partitions.",
        )
    _settle(admin, stopped, timer)
    return plan_for(admin, stopped.intent, stopped.limits, stopped.seed, timer.now_ms())


def _settle(admin: ReassignmentAdmin, stopped: Plan, timer: Timer) -> None:
    """Wait until brokers have learned of the end of the cancelled moves, at most for as long as their metadata may lag."""
    deadline_ms = timer.now_ms() + BELIEVED_AFTER_MS
    while timer.now_ms() < deadline_ms:
        moving = admin.reassignments()
        topics = admin.topics({move.topic for move in stopped.moves})
        if all(
            see(move, topics.get(move.topic, {}).get(move.partition), moving.get(move.name))
            in (Seen.BEFORE, Seen.AFTER, Seen.GONE)
            for move in stopped.moves
        ):
            return
        timer.sleep(TURN_S)


def next_path(path: str) -> str:
    """The path for the plan that follows the one at ``path``: a file that does not exist."""
    found = _NAME.fullmatch(path)
    first, number = (found["first"], int(found["number"])) if found else (path, 0)
    while True:
        number += 1
        following = f"{first}.replan-{number}"
        if not os.path.exists(following):
            return following


def by_hand(stopped: Plan, path: str) -> str:
    """The commands that make the new plan and carry it out."""
    following = next_path(path)
    budget = stopped.limits.broker_bytes_per_second
    return (
        f"esp rebalance plan {intent_words(stopped.intent)} --budget {budget} --out {following} "
        f"&& esp rebalance apply {following}"
    )
