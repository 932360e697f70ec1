"""The cluster repairs itself: brokers that are gone for good, draining or new lead to a plan, and if the settings allow it to its moves.

Only the active controller does this. Its memory (the brokers that are away, and since when; its plans; the moves it has begun) dies with
its term, and the next one finds out anew: a reassignment that was begun goes on by itself, and a plan is made from the metadata as it is.
So a controller that becomes active counts absences from then on, and a change of controllers makes a repair later and never earlier
(REPAIR-1). Times are of the controller's monotonic clock.

The planner is that of the tools (:mod:`esp.placement`), and a move is an ordinary reassignment (REASSIGN-1): Kafka's tools list it and can
cancel it. The planner's side is in :mod:`esp.controller.self_repair_plan`, which a node loads only when there is something to plan;
:class:`PlanRequest` is the question to it, and :class:`Proposal` its answer.

:class:`Census` counts each broker's replicas and the partitions in reassignment once, and keeps up with the image. Of the reassignments,
self-repair may redirect some (REPAIR-5): :class:`InFlight`.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from esp.controller.decision import Decision
from esp.controller.draining import is_draining
from esp.controller.image import CLUSTER_DEFAULT, ClusterImage, TopicImage
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.ids import NO_NODE, NodeId, TopicId, TopicPartition
from esp.model.partition import PartitionState
from esp.settings.throttled_replicas import REPAIRED_REPLICAS, ThrottledReplicas, read_repaired_replicas

if TYPE_CHECKING:
    from esp.placement.step import Move

log = logging.getLogger(__name__)


class Situation(NamedTuple):
    """The brokers that need attention, by id: only brokers that hold replicas, or newcomers, which hold none."""

    gone: tuple[NodeId, ...] = ()
    draining: tuple[NodeId, ...] = ()
    newcomers: tuple[NodeId, ...] = ()
    targets: tuple[NodeId, ...] = ()
    """Brokers that may get replicas."""

    @property
    def is_calm(self) -> bool:
        """True if nothing needs to be done."""
        return not (self.gone or self.draining or self.newcomers)


class PlanRequest(NamedTuple):
    """A question to the planner: values only, so that a thread may answer it."""

    cluster_id: str
    image: ClusterImage
    unregistered: tuple[NodeId, ...]
    """Unknown brokers to which replicas are assigned."""
    strays: frozenset[TopicPartition]
    """Partitions in reassignment that may get another target."""
    situation: Situation
    seed: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed repair."""

    reason: str
    command: str
    """The command that does the same by hand."""
    moves: "tuple[Move, ...]"
    left_alone: tuple[str, ...] = ()
    """Partitions that should move and cannot, each with the reason."""


class InFlight(NamedTuple):
    """Partitions in reassignment."""

    going_on: int = 0
    """The number of reassignments that go on, of any origin: all but those that wait for a broker that is gone, or for a leader."""
    own: frozenset[TopicPartition] = frozenset()
    """Reassignments that self-repair began, and that were not changed since."""
    stalled: frozenset[TopicPartition] = frozenset()
    """Its own reassignments that wait for a broker that is gone."""
    strays: frozenset[TopicPartition] = frozenset()
    """Its own reassignments whose target is gone or draining. They get another target."""


NOTHING_IN_FLIGHT: Final = InFlight()


def find_in_flight(
    image: ClusterImage,
    reassigning: Iterable[tuple[TopicId, int]],
    gone: Collection[NodeId],
    draining: Collection[NodeId],
) -> InFlight:
    """Look at each partition in reassignment.

    One is self-repair's own if the replicas it adds are marked (REPAIR-4).

    Args:
        image: the newest state.
        reassigning: the partitions, by topic and number.
        gone: brokers that were given up (REPAIR-1).
        draining: brokers that shall be emptied.
    """
    going_on = 0
    own, stalled, strays = set(), set(), set()
    marks: dict[TopicId, ThrottledReplicas] = {}
    for topic_id, number in reassigning:
        topic = image.topics_by_id[topic_id]
        state = topic.partitions[number]
        name = TopicPartition(topic.name, number)
        if topic_id not in marks:
            marks[topic_id] = read_repaired_replicas(topic.configs.get(REPAIRED_REPLICAS, ""))
        is_own = any(marks[topic_id].covers(number, node) for node in state.adding_replicas)
        waits = any(node in gone for node in state.target_replicas)
        going_on += not (waits or state.leader == NO_NODE)
        if is_own:
            own.add(name)
            if waits:
                stalled.add(name)
            if waits or any(node in draining for node in state.target_replicas):
                strays.add(name)
    assert stalled <= strays <= own, "only reassignments of self-repair are redirected (REPAIR-5)"
    return InFlight(going_on, frozenset(own), frozenset(stalled), frozenset(strays))


class Census:
    """The counts of one image after another.

    Images share unchanged parts, so only changed partitions are counted again: a look at a large cluster costs little.
    """

    def __init__(self) -> None:
        self.assigned: Counter[NodeId] = Counter()
        """Replicas of each broker, where they shall be; a broker without any may stand here with 0."""
        self.reassigning: set[tuple[TopicId, int]] = set()
        """Partitions in reassignment, by topic and number."""
        self._topics: Mapping[TopicId, TopicImage] = {}

    def update(self, image: ClusterImage) -> list[tuple[str, int]]:
        """Count as it is in ``image``; return the partitions that are new, changed or gone since the last time."""
        before, after = self._topics, image.topics_by_id
        changed: list[tuple[str, int]] = []
        if before is after:
            return changed
        self._topics = after
        for topic_id, topic in after.items():
            known = before.get(topic_id)
            if known is None:
                self._count(topic.partitions, 1)
                changed += [(topic.name, number) for number in range(len(topic.partitions))]
            elif known is not topic:
                self._recount(topic.name, known.partitions, topic.partitions, changed)
        for topic_id, topic in before.items():
            if topic_id not in after:
                self._count(topic.partitions, -1)
                changed += [(topic.name, number) for number in range(len(topic.partitions))]
        return changed

    def _recount(
        self,
        name: str,
        before: tuple[PartitionState, ...],
        after: tuple[PartitionState, ...],
        changed: list[tuple[str, int]],
    ) -> None:
        """A topic has other partitions, or none has changed and its settings have; it never has fewer."""
        places = [place for place, (known, state) in enumerate(zip(before, after, strict=False)) if known is not state]
        self._count([before[place] for place in places], -1)
        places += range(len(before), len(after))
        self._count([after[place] for place in places], 1)
        changed += [(name, place) for place in places]

    def _count(self, states: Sequence[PartitionState], sign: int) -> None:
        moving = [state for state in states if state.is_reassigning]
        settled = states if not moving else [state for state in states if not state.is_reassigning]
        replicas = chain(
            chain.from_iterable(state.replicas for state in settled),
            chain.from_iterable(state.target_replicas for state in moving),
        )
        names = ((state.topic_id, state.partition) for state in moving)
        if sign > 0:
            self.assigned.update(replicas)
            self.reassigning.update(names)
        else:
            self.assigned.subtract(replicas)
            assert min(self.assigned.values(), default=0) >= 0, "a subtracted replica was counted"
            self.reassigning.difference_update(names)


class BrokerAbsences:
    """The brokers that are away, and since when, as the active controller has seen it."""

    def __init__(self) -> None:
        self._since_us: dict[NodeId, int] = {}

    def observe(self, away: Iterable[NodeId], now_us: int) -> None:
        """Take note of all brokers that are away now; a broker that is back has never been away."""
        self._since_us = {node: self._since_us.get(node, now_us) for node in away}

    def longer_than(self, duration_us: int, now_us: int) -> tuple[NodeId, ...]:
        """The brokers that have been away for at least so long, by id."""
        assert all(since_us <= now_us for since_us in self._since_us.values()), "the clock does not go back"
        return tuple(sorted(node for node, since_us in self._since_us.items() if now_us - since_us >= duration_us))


MODE: Final = "rebalance.mode"

_REPLAN_INTERVAL_US: Final = 30_000_000
"""The time after which a plan is made again without an obvious change: a replica that had no possible target may have one by now."""

_IN_FLIGHT_MAX: Final = 1000
"""The most moves in flight, whatever is allowed: a topic lists its own (REPAIR-4), and Kafka's settings have 32767 bytes at the most."""


class Mode(Enum):
    """``rebalance.mode``."""

    OFF = "off"
    PROPOSE = "propose"
    """Plans are made and logged, and nothing moves."""
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class SelfRepairSettings:
    """A node's settings; ``rebalance.mode`` as a default of all brokers in the metadata counts more than its own."""

    mode: Mode = Mode.PROPOSE
    dead_after_us: int = 900_000_000
    """``rebalance.broker.dead.after.ms``."""
    in_flight_max: int = 20
    """``rebalance.partitions.in.flight.max``: partitions that are being reassigned at once, of any origin; but see REPAIR-5."""


class Begun(NamedTuple):
    """The moves that a decision begins, and the partitions whose moves it withdraws."""

    moves: "tuple[Move, ...]" = ()
    withdrawn: tuple[TopicPartition, ...] = ()


class SelfRepair:
    """The memory and the plans of one term of the active controller.

    Planning takes long, so it is left to the caller: :meth:`look` returns the question, and the answer comes back by
    :meth:`on_plan`. By then the cluster may be another one: an answer to a situation that is over is dropped, and a move begins only if its
    partition is where the plan believes it.

    Args:
        cluster_id: of the cluster.
        settings: of the node.
        seed: for ties in plans.
    """

    def __init__(self, cluster_id: str, settings: SelfRepairSettings, seed: int = 0) -> None:
        self._cluster_id = cluster_id
        self._settings = settings
        self._seed = seed
        self._absences = BrokerAbsences()
        self._given_up: tuple[NodeId, ...] = ()
        """The brokers that were away for too long at the last look (REPAIR-1)."""
        self._census = Census()
        self._in_flight = NOTHING_IN_FLIGHT
        """The reassignments at the last look."""
        self._situation: Situation | None = None
        """The situation at the last look; None while self-repair is off."""
        self._is_due = False
        """True if the situation is not the one that was planned for."""
        self._is_planning = False
        self._planned_us = 0
        self._agenda: dict[TopicPartition, Move] = {}
        """Moves that are planned and not begun."""
        self._begun: dict[TopicPartition, tuple[NodeId, ...]] = {}
        """The moves of this term that have begun, and the brokers among their former replicas that were gone then."""
        self.proposal: Proposal | None = None
        """The repair that should be done, or is being done; None if all is well."""

    def mode(self, image: ClusterImage) -> Mode:
        """The mode in effect. What stands in the metadata and is no mode does not count."""
        text = image.broker_configs.get(CLUSTER_DEFAULT, {}).get(MODE, "").strip().lower()
        return next((mode for mode in Mode if mode.value == text), self._settings.mode)

    def look(self, image: ClusterImage, now_us: int) -> PlanRequest | None:
        """Take note of the cluster as it is. To be called every few seconds, and after :meth:`on_plan`.

        Returns:
            the plan to make; None for none, and while another is being made.
        """
        changed = self._census.update(image)
        unregistered = [node for node, count in self._census.assigned.items() if count and node not in image.brokers]
        fenced = [broker.node_id for broker in image.brokers.values() if broker.fenced]
        self._absences.observe((*fenced, *unregistered), now_us)
        if self.mode(image) is Mode.OFF:
            self._situation, self.proposal, self._agenda, self._is_due = None, None, {}, False
            return None
        situation = self._assess(image, now_us)
        self._in_flight = find_in_flight(image, self._census.reassigning, situation.gone, situation.draining)
        self._forget_what_is_done(image, changed)
        if self._needs_another_plan(situation):
            self._is_due, self._agenda = True, {}
        self._situation = situation
        is_stale = not self._agenda and now_us - self._planned_us >= _REPLAN_INTERVAL_US
        if self._is_planning or not (self._is_due or is_stale):
            return None
        self._is_due, self._planned_us = False, now_us
        if situation.is_calm:
            self._propose(None, image)
            return None
        self._is_planning = True
        return PlanRequest(self._cluster_id, image, tuple(unregistered), self._in_flight.strays, situation, self._seed)

    def on_plan(self, proposal: Proposal | None, image: ClusterImage) -> None:
        """The plan that :meth:`look` asked for; ``image`` is the newest state. Look again at once: the situation may be over."""
        assert self._is_planning, "one plan at a time"
        self._is_planning = False
        if not self._is_due and self.mode(image) is not Mode.OFF:
            self._propose(proposal, image)

    def decide(self, image: ClusterImage) -> Decision[Begun]:
        """Begin the next moves (REPAIR-2), redirect moves whose target leaves (REPAIR-5), and withdraw moves whose broker is back.

        Nothing unless the mode is *apply*.

        Args:
            image: the one of the last look.
        """
        if self.mode(image) is not Mode.APPLY or not (self._agenda or self._begun):
            return Decision((), Begun())
        withdrawn = self._find_withdrawable(image)
        moves = self._next_moves(withdrawn)
        assert {move.name for move in moves}.isdisjoint(withdrawn), "a withdrawn move does not begin (REPAIR-3)"
        wanted = [Reassignment(*name, None) for name in withdrawn]
        wanted += [Reassignment(move.topic, move.partition, move.after) for move in moves]
        decision = decide_reassignments(image, wanted, for_repair=True)
        accepted = [refusal is None for refusal in decision.reply]
        return Decision(
            decision.records,
            Begun(
                tuple(move for move, is_begun in zip(moves, accepted[len(withdrawn) :], strict=True) if is_begun),
                withdrawn,
            ),
        )

    def on_begun(self, begun: Begun, image: ClusterImage) -> None:
        """The records of a decision were replayed, and led to ``image``: remember the decision."""
        for move in begun.moves:
            origin = image.topics_by_name[move.topic].partitions[move.partition].original_replicas
            self._begun[move.name] = tuple(node for node in self._given_up if node in origin)
            self._agenda.pop(move.name, None)
            log.info("self-repair moves %s from %s to %s", move.name, list(move.before), list(move.after))
        for name in begun.withdrawn:
            self._begun.pop(name, None)
            log.info("self-repair leaves %s where it was: its broker is back", name)

    def _find_withdrawable(self, image: ClusterImage) -> tuple[TopicPartition, ...]:
        """REPAIR-3: the moves that were begun for brokers that are back, and that can be cancelled."""
        back = [
            name
            for name, gone in self._begun.items()
            if gone and all(node in image.brokers and image.brokers[node].is_active for node in gone)
        ]
        refusals = decide_reassignments(image, [Reassignment(*name, None) for name in back], for_repair=True).reply
        return tuple(name for name, refusal in zip(back, refusals, strict=True) if refusal is None)

    def _next_moves(self, withdrawn: Collection[TopicPartition]) -> "list[Move]":
        """REPAIR-2, REPAIR-5: as many as there is room for, and first the moves whose target is wrong by now.

        What goes to a broker that is draining counts already, so it needs no room to go elsewhere.
        """
        agenda, in_flight = self._agenda, self._in_flight
        room = max(0, min(self._settings.in_flight_max, _IN_FLIGHT_MAX) - in_flight.going_on)
        misplaced = [agenda[name] for name in sorted(in_flight.strays) if name in agenda and name not in withdrawn]
        diverted = [move for move in misplaced if move.name not in in_flight.stalled]
        resumed = [move for move in misplaced if move.name in in_flight.stalled][:room]
        fresh = (move for name, move in agenda.items() if name not in in_flight.strays)
        rest = max(0, min(room - len(resumed), _IN_FLIGHT_MAX - len(in_flight.own)))
        moves = [*resumed, *islice(fresh, rest)]
        assert len(moves) <= room, "no more moves at once than may be (REPAIR-2)"
        return [*diverted, *moves]

    def _assess(self, image: ClusterImage, now_us: int) -> Situation:
        held = self._census.assigned
        draining = {node for node in image.brokers if is_draining(image, node)}
        targets = sorted(b.node_id for b in image.brokers.values() if b.is_active and b.node_id not in draining)
        self._given_up = self._absences.longer_than(self._settings.dead_after_us, now_us)
        return Situation(
            gone=tuple(node for node in self._given_up if held[node]),
            draining=tuple(sorted(node for node in draining if held[node])),
            newcomers=tuple(node for node in targets if not held[node]),
            targets=tuple(targets),
        )

    def _needs_another_plan(self, situation: Situation) -> bool:
        """A newcomer that has got something by now is no reason; its plan goes on."""
        known = self._situation
        if known is None or situation._replace(newcomers=()) != known._replace(newcomers=()):
            return True
        return not set(situation.newcomers) <= set(known.newcomers)

    def _propose(self, proposal: Proposal | None, image: ClusterImage) -> None:
        told = (self.proposal.reason, len(self.proposal.moves)) if self.proposal else None
        self.proposal = proposal
        self._agenda = {move.name: move for move in proposal.moves} if proposal else {}
        self._forget_what_is_done(image, tuple(self._agenda))
        if proposal is None or told == (proposal.reason, len(proposal.moves)):
            return
        action = "moves" if self.mode(image) is Mode.APPLY else "proposes to move"
        log.warning(
            "%s: self-repair %s %d partition(s), and %d cannot move; by hand: %s",
            proposal.reason,
            action,
            len(proposal.moves),
            len(proposal.left_alone),
            proposal.command,
        )
        for reason in proposal.left_alone:
            log.info("self-repair does not move %s", reason)

    def _forget_what_is_done(self, image: ClusterImage, names: Iterable[tuple[str, int]]) -> None:
        """Forget the moves of these partitions that changed since they were planned or begun."""
        begun, agenda = self._begun, self._agenda
        if not (begun or agenda):
            return
        for topic_name, number in names:
            name = TopicPartition(topic_name, number)
            topic = image.topics_by_name.get(topic_name)
            state = topic.partitions[number] if topic and number < len(topic.partitions) else None
            if name in begun and name not in self._in_flight.own:
                del begun[name]
            move = agenda.get(name)
            if move is not None and (
                state is None
                or state.target_replicas != move.before
                or (state.is_reassigning and name not in self._in_flight.strays)
            ):
                del agenda[name]
