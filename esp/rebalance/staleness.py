"""Checks that a plan still fits the cluster: the same cluster, with everything that the plan names where the plan expects it."""

from esp.model.errors import OperatorError
from esp.placement.constraints import Constraint
from esp.placement.plan import Plan
from esp.placement.proof import find_violations
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.looking import look_for_planner
from esp.rebalance.stages import Seen, see

_SHOWN_MAX = 10
_REMEDY = "Make a new plan with `esp rebalance plan`. Nothing was changed."


def check_cluster(plan: Plan, admin: ReassignmentAdmin) -> None:
    """See that a plan was made for this cluster.

    Raises:
        OperatorError: it was made for another one.
    """
    cluster_id = admin.cluster_id()
    if plan.cluster_id != cluster_id:
        raise OperatorError(f"the plan was made for cluster {plan.cluster_id}, and this is {cluster_id}", _REMEDY)


def check_before_begin(plan: Plan, admin: ReassignmentAdmin) -> None:
    """Check that a plan that was not begun can be carried out now: brokers alive, partitions where they were, room on disks.

    Raises:
        OperatorError: it was made for another cluster, or has grown stale; the entries are named.
    """
    check_cluster(plan, admin)
    violations = [
        each for each in find_violations(look_for_planner(admin), plan) if each.constraint is not Constraint.FIGURES
    ]
    if violations:
        _refuse([f"{each.entry}: {each.reason}" for each in violations])


def check_before_resume(plan: Plan, admin: ReassignmentAdmin) -> None:
    """See that what is left of a plan can be carried out: every partition is where the plan found it, on its way, or there.

    Raises:
        OperatorError: it was made for another cluster, or has grown stale; the entries are named.
    """
    check_cluster(plan, admin)
    moving = admin.reassignments()
    topics = admin.topics({move.topic for move in plan.moves})
    wrong = []
    for move in plan.moves:
        partition = topics.get(move.topic, {}).get(move.partition)
        seen = see(move, partition, moving.get(move.name))
        if seen in (Seen.ELSEWHERE, Seen.GONE):
            where = "gone" if partition is None else f"on {list(partition.replicas)}"
            wrong.append(f"{move.name}: it is {where}, not on {list(move.before)} or {list(move.after)}")
    if wrong and len(wrong) == len(plan.moves):
        _refuse(wrong)


def _refuse(wrong: list[str]) -> None:
    shown = "\n".join(f"  {each}" for each in wrong[:_SHOWN_MAX])
    more = f"\n  and {len(wrong) - _SHOWN_MAX} more" if len(wrong) > _SHOWN_MAX else ""
    raise OperatorError(f"the plan no longer fits the cluster:\n{shown}{more}", _REMEDY)
