"""A plan: ordered steps of moves, each with its cost, and how even the cluster is before and after.

Values only: a plan can be written to a file, read again and carried out elsewhere. What its steps mean:

* Moves of a step begin together. Steps begin in their order, and a step only when those in its ``waits_for`` have ended; it need not wait
  for others. All figures hold however fast or slowly the copies go within these rules.
* A plan moves a partition at most once.
* What a move removes is deleted when the move ends, not before: until then both copies are on disk.
"""

from dataclasses import dataclass
from functools import cached_property

from esp.placement.cluster_view import BrokerView
from esp.placement.estimate import Duration, estimate_copies
from esp.placement.intents import Intent, Rollback, targets_of
from esp.placement.limits import Limits, disk_limits
from esp.placement.links import LinkBytes
from esp.placement.measures import LoadCount
from esp.placement.step import BrokerLoad, DiskBytes, Imbalance, Move, Step
from esp.placement.steps import disk_changes, take_back

__all__ = ["BrokerLoad", "DiskBytes", "Imbalance", "Move", "Plan", "Step"]


@dataclass(frozen=True)
class Plan:
    """What to do, from a view of the cluster, for an intent."""

    cluster_id: str
    intent: Intent
    seed: int
    limits: Limits
    brokers: tuple[BrokerView, ...]
    """The brokers as they were when the plan was made."""
    inputs: tuple[str, ...]
    """What the plan rests on, and what was not known, each a sentence."""
    loads_before: tuple[BrokerLoad, ...]
    loads_after: tuple[BrokerLoad, ...]
    imbalance_before: Imbalance
    steps: tuple[Step, ...]

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """All moves, in their order."""
        return tuple(move for step in self.steps for move in step.moves)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    @property
    def imbalance_after(self) -> Imbalance:
        """How even the cluster is when all is done."""
        return self.steps[-1].imbalance_after if self.steps else self.imbalance_before

    @property
    def copied_bytes(self) -> int:
        """What is copied altogether."""
        return sum(step.copied_bytes for step in self.steps)

    @property
    def duration(self) -> Duration:
        """How long it takes: at least what the busiest broker needs for all its bytes.

        At most, if moves begin as others end, what :mod:`esp.placement.estimate` says of all steps between two waits as if they were one.
        """
        rate = self.limits.broker_bytes_per_second
        low_s = estimate_copies((link for step in self.steps for link in step.links), rate).low_s
        high_s = 0.0
        links: list[LinkBytes] = []
        for step in self.steps:
            if step.waits_for:
                high_s += estimate_copies(links, rate).high_s
                links = []
            links += step.links
        return Duration(low_s, high_s + estimate_copies(links, rate).high_s)

    def inverse(self) -> "Plan":
        """The plan that leads back to where this one began, if it has been carried out to its end.

        Its steps are this plan's in the opposite order. It keeps to what this one kept to, except where the state at the beginning did not:
        :func:`esp.placement.proof.find_violations` tells.

        Raises:
            ValueError: this plan is itself such a way back.
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
