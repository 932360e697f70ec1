"""A plan: ordered steps of moves, each with its cost, and the imbalance of the cluster before and after.

Values only: a plan can be written to a file, read again and carried out elsewhere. Its steps are to be read so:

* Moves of a step begin together. Steps begin in their order, and a step only when the steps in its ``waits_for`` have ended; it need not
  wait for others. All figures hold however fast or slowly the copies go within these rules.
* A plan moves a partition at most once.
* A replica that a move removes is deleted when the move ends, not before: until then both copies are on disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from esp.placement.cluster_view import BrokerView
from esp.placement.estimate import BEGIN_AND_END, NOTHING, Duration, estimate_moves
from esp.placement.intents import Intent, Rollback, targets_of
from esp.placement.limits import Limits, disk_limits
from esp.placement.measures import LoadCount
from esp.placement.step import BrokerLoad, DiskBytes, Imbalance, Move, Step
from esp.placement.steps import disk_changes, take_back

__all__ = ["BrokerLoad", "DiskBytes", "Imbalance", "Move", "Plan", "Step"]


@dataclass(frozen=True)
class Plan:
    """The steps to take, from a view of the cluster, for an intent."""

    cluster_id: str
    intent: Intent
    seed: int
    limits: Limits
    brokers: tuple[BrokerView, ...]
    """The brokers as they were when the plan was made."""
    inputs: tuple[str, ...]
    """The facts on which the plan rests, and the facts that were not known, each a sentence."""
    loads_before: tuple[BrokerLoad, ...]
    loads_after: tuple[BrokerLoad, ...]
    imbalance_before: Imbalance
    steps: tuple[Step, ...]

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The moves of all steps, in their order."""
        return tuple(move for step in self.steps for move in step.moves)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return not self.steps

    @property
    def imbalance_after(self) -> Imbalance:
        """The imbalance of the cluster when all is done."""
        return self.steps[-1].imbalance_after if self.steps else self.imbalance_before

    @property
    def copied_bytes(self) -> int:
        """The bytes copied by all steps."""
        return sum(step.copied_bytes for step in self.steps)

    @property
    def duration(self) -> Duration:
        """The duration of the plan: at least the time that the busiest broker needs for its bytes, or that all moves cost beside them.

        At most, if moves begin as others end, the estimate of :mod:`esp.placement.estimate` for all steps between two waits as if they
        were one.
        """
        if self.is_empty:
            return NOTHING
        rate = self.limits.broker_bytes_per_second
        links = [link for step in self.steps for link in step.links]
        low_s = estimate_moves(len(self.moves), links, rate).low_s
        high_s = 0.0
        between: list[Step] = []
        for step in self.steps:
            if step.waits_for:
                high_s += _estimate_together(between, rate).high_s
                between = []
            between.append(step)
        return BEGIN_AND_END + Duration(low_s, high_s + _estimate_together(between, rate).high_s)

    def inverse(self) -> "Plan":
        """The plan that leads back to the state where this one began, if it has been carried out to its end.

        Its steps are this plan's in the opposite order. It keeps the constraints that this one kept, except where the state at the
        beginning did not: :func:`esp.placement.proof.find_violations` shows where.

        Raises:
            ValueError: this plan is itself a rollback.
        """
        if isinstance(self.intent, Rollback):
            raise ValueError("a rollback has no inverse: make a new plan")
        intent = Rollback(self.intent)
        written, freed = disk_changes(self.moves)
        brokers = tuple(
            broker._replace(
                disk_used_bytes=broker.disk_used_bytes + written[broker.broker_id] - freed[broker.broker_id]
            )
            for broker in self.brokers
        )
        limit = disk_limits(brokers, self.limits)
        room = {
            before.broker_id: max(limit[before.broker_id], before.disk_used_bytes)
            for before in self.brokers
            if before.broker_id in limit
        }
        loads = LoadCount(brokers, targets_of(brokers, intent), self.loads_after)
        imbalance = loads.imbalance()
        steps = take_back(self.steps, brokers, room, self.limits, loads)
        return Plan(
            cluster_id=self.cluster_id,
            intent=intent,
            seed=self.seed,
            limits=self.limits,
            brokers=brokers,
            inputs=self.inputs,
            loads_before=self.loads_after,
            loads_after=loads.loads(),
            imbalance_before=imbalance,
            steps=steps,
        )


def _estimate_together(steps: Sequence[Step], broker_bytes_per_second: int) -> Duration:
    links = (link for step in steps for link in step.links)
    return estimate_moves(sum(len(step.moves) for step in steps), links, broker_bytes_per_second)
