"""INV-REPAIR, LIVE-REPAIR: what the controller moves by itself, when, how much at once, and that it is done in the end (REPAIR-1..5)."""

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from esp.controller.draining import is_draining
from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import NO_NODE, OFFSETS_TOPIC, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.settings.throttled_replicas import REPAIRED_REPLICAS, read_repaired_replicas
from esp.simulation.checkers.convergence import find_stranded
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.repair_profile import RepairProfile

Key = tuple[TopicId, int]

CLOCK_RATE_MAX: Final = 1.1
COMMIT_S: Final = 6.0
"""The time by which others may learn later than the controller, which goes by its own decisions, that a broker is away."""

UNSEEN_S: Final = 4.0
"""A controller, which looks every three seconds, need not have seen that a broker was back for less."""

WITHDRAW_S: Final = 20.0
"""Within which a controller that goes on has withdrawn what it began because a broker was away that is back."""

SHARE_MIN: Final = 4
"""A broker that holds so many replicas has one to give to a broker that holds nothing."""


class Repair(NamedTuple):
    """A reassignment that the controller began by itself because of brokers that were away, in the epoch of its term."""

    target: tuple[NodeId, ...]
    gone: tuple[NodeId, ...]
    epoch: int


class RepairChecker:
    """Compares the reassignments that controllers begin, cancel and owe with their reasons, by the newest committed metadata.

    Args:
        profile: what the controllers go by.
        is_asked: whether an administrator may have asked for these replicas of a partition.
    """

    def __init__(self, profile: RepairProfile, is_asked: Callable[[Key, tuple[NodeId, ...]], bool]) -> None:
        self.begun = 0
        """The number of reassignments that the controllers began by themselves."""
        self._profile = profile
        self._is_asked = is_asked
        self._term_s = 0.0
        """Since when the present controller is active: it counts no absence from earlier on (REPAIR-1)."""
        self._away_s: dict[NodeId, float] = {}
        self._back_s: dict[NodeId, float] = {}
        self._last_absences: dict[NodeId, tuple[float, float]] = {}
        """The time from and to which each of the brokers that are back was away last, in seconds."""
        self._repairs: dict[Key, Repair] = {}

    def on_change(self, old: ClusterImage, new: ClusterImage, now_s: float) -> None:
        """The newest committed metadata is ``new`` now. Raises ViolationError."""
        if new.epoch != old.epoch:
            self._term_s = now_s
        self._note_absences(old, new, now_s)
        if new.topics_by_id is old.topics_by_id:
            return
        own = redirected = others = 0
        for name, former, state in _changed(old, new):
            key = (state.topic_id, state.partition)
            if not state.is_reassigning:
                self._repairs.pop(key, None)
            elif not former.is_reassigning or former.target_replicas != state.target_replicas:
                self._repairs.pop(key, None)
                if self._is_asked(key, state.target_replicas) or name.startswith(OFFSETS_TOPIC):
                    others += 1
                    continue
                own += 1
                redirected += former.is_reassigning and not self._waits(former, now_s)
                if (
                    former.is_reassigning
                    and state.partition_epoch == former.partition_epoch + 1
                    and not _is_repair(old.topics_by_id[state.topic_id], former)
                ):
                    raise ViolationError(
                        "INV-REPAIR", name, f"{former} was not its own, and becomes {state} (REPAIR-5)"
                    )
                gone = self._check_beginning(old, new, name, former, state, now_s)
                if gone:
                    self._repairs[key] = Repair(state.target_replicas, gone, new.epoch)
        self.begun += own
        in_flight = sum(
            state.is_reassigning and state.leader != NO_NODE and not self._waits(state, now_s)
            for _, state in new.partitions()
        )
        if own > redirected and in_flight - others > self._profile.in_flight_max:
            raise ViolationError(
                "INV-REPAIR", "the controller", f"{in_flight} partitions are in reassignment; it began {own} (REPAIR-2)"
            )

    def check_withdrawn(self, image: ClusterImage, now_s: float, epoch: int | None) -> None:
        """Reassignments that a controller of ``epoch``, which goes on, began for brokers that were away are withdrawn once these are back.

        A copy that has become complete meanwhile is let be, as a cancel could leave fewer than the minimum; and where no replica is in
        sync, a cancel is refused (REASSIGN-3). Raises ViolationError.
        """
        if epoch is None:
            return
        for key, repair in self._repairs.items():
            state = image.topics_by_id[key[0]].partitions[key[1]] if key[0] in image.topics_by_id else None
            if (
                state is None
                or repair.epoch != epoch
                or not state.isr
                or set(state.adding_replicas).intersection((*state.isr, *state.elr))
            ):
                continue
            if all(now_s - self._back_s.get(node, now_s) > WITHDRAW_S for node in repair.gone):
                raise ViolationError("INV-REPAIR", f"{state}", f"{repair.gone} are back, and it goes on (REPAIR-3)")

    def has_idle_broker(self, image: ClusterImage) -> bool:
        """True if a broker that may get replicas holds nothing."""
        held = {node for _, state in image.partitions() for node in state.target_replicas}
        return not _find_takers(image) <= held

    def find_unrepaired(
        self, image: ClusterImage, core: Collection[int], awaits_help: Callable[[Key], bool]
    ) -> list[str]:
        """The repairs that are still to be done, as sentences (LIVE-REPAIR).

        Replicas that are or shall be on brokers that are gone for good or draining, though others could take them, unless an administrator
        moves them; brokers that hold nothing; marks of repairs that have ended.

        Args:
            image: the metadata that counts.
            core: the brokers that serve.
            awaits_help: whether a replica of a partition waits for an operator (TRUNC-8): a reassignment need not end then.
        """
        takers = _find_takers(image).intersection(core)
        stranded = find_stranded(image, core)
        found = []
        held: dict[NodeId, int] = {}
        for topic, state in image.partitions():
            for node in state.target_replicas:
                held[node] = held.get(node, 0) + 1
            key = (topic.topic_id, state.partition)
            if key in stranded:
                continue
            if state.is_reassigning and set(state.target_replicas) <= {*core} and not awaits_help(key):
                found.append(f"{topic.name}-{state.partition} is still being reassigned to {state.target_replicas}")
            leaving = [node for node in state.target_replicas if node not in core or is_draining(image, node)]
            is_left_alone = state.is_reassigning and not _is_repair(topic, state)
            is_due = bool(leaving) and len(takers.union(state.target_replicas) - {*leaving}) >= len(
                state.target_replicas
            )
            if is_due and is_left_alone:
                note(Excuse.ASKED_MOVES)
            elif is_due and state.leader != NO_NODE:
                found.append(f"{topic.name}-{state.partition} is on {leaving}, and {sorted(takers)} could take it")
        if max(held.values(), default=0) >= SHARE_MIN and not any(node not in takers for node in held):
            found += [f"broker {node} holds nothing of {held}" for node in sorted(takers) if node not in held]
        for topic in image.topics_by_id.values():
            if REPAIRED_REPLICAS in topic.configs and not any(state.is_reassigning for state in topic.partitions):
                found.append(f"{topic.name} is marked as being repaired, and does not move (REPAIR-4)")
        return found

    def _note_absences(self, old: ClusterImage, new: ClusterImage, now_s: float) -> None:
        if new.brokers is old.brokers:
            return
        away = {node for node, broker in new.brokers.items() if broker.fenced} | (
            self._away_s.keys() - new.brokers.keys()
        )
        away |= old.brokers.keys() - new.brokers.keys()
        self._last_absences |= {node: (since_s, now_s) for node, since_s in self._away_s.items() if node not in away}
        self._away_s = {node: self._away_s.get(node, self._begin_s(node, now_s)) for node in sorted(away)}
        active = [node for node, broker in new.brokers.items() if broker.is_active]
        self._back_s = {node: self._back_s.get(node, now_s) for node in active}

    def _begin_s(self, node: NodeId, now_s: float) -> float:
        """Since when a controller may think that a broker is away that is away from now on."""
        since_s, until_s = self._last_absences.get(node, (now_s, now_s))
        return since_s if now_s - until_s < UNSEEN_S else now_s

    def _check_beginning(
        self,
        old: ClusterImage,
        new: ClusterImage,
        name: str,
        former: PartitionState,
        state: PartitionState,
        now_s: float,
    ) -> tuple[NodeId, ...]:
        """Check that the controller had a reason; return which of the original brokers it has given up. Raises ViolationError.

        A broker that was leaving already, as one that drained when that began, is not given up now, though it be away: unless it is away
        for long. A broker of which that is uncertain is not returned.
        """
        if len(state.target_replicas) != len(state.original_replicas):
            raise ViolationError("INV-REPAIR", name, f"it begins to change the number of replicas: {state}")
        for node in state.adding_replicas:
            if node not in state.removing_replicas and is_draining(old, node) and is_draining(new, node):
                raise ViolationError("INV-REPAIR", name, f"{node} is draining, and gets a replica: {state}")
        gone = tuple(node for node in state.removing_replicas if node in self._away_s and not is_draining(new, node))
        for node in gone:
            if node not in former.removing_replicas and not self._may_be_given_up(node, now_s):
                away_s = self._seen_away_s(node, now_s)
                raise ViolationError("INV-REPAIR", name, f"{node} is given up after {away_s:.1f} s (REPAIR-1): {state}")
            if node not in former.removing_replicas and self._is_early(node, now_s):
                note(Excuse.EARLY_REPAIRS)
        leaving = [node for node in gone if node in former.removing_replicas]
        if any(self._may_be_given_up(node, now_s) and not self._must_be_given_up(node, now_s) for node in leaving):
            return ()
        away_in_passing = {node for node in leaving if not self._may_be_given_up(node, now_s)}
        return tuple(node for node in gone if node in state.original_replicas and node not in away_in_passing)

    def _seen_away_s(self, node: NodeId, now_s: float) -> float:
        """The time for which the present controller can have seen a broker away."""
        return now_s - max(self._away_s.get(node, now_s), self._term_s)

    def _may_be_given_up(self, node: NodeId, now_s: float) -> bool:
        return self._seen_away_s(node, now_s) >= self._profile.dead_after_ms / 1000 / CLOCK_RATE_MAX - COMMIT_S

    def _is_early(self, node: NodeId, now_s: float) -> bool:
        """True if by a right clock the time of a broker that is given up is not over as far as others have learnt."""
        return self._seen_away_s(node, now_s) < self._profile.dead_after_ms / 1000

    def _must_be_given_up(self, node: NodeId, now_s: float) -> bool:
        """True if the controller, whatever its clock, has seen by now that a broker is away for long."""
        return self._seen_away_s(node, now_s) >= self._profile.dead_after_ms / 1000 * CLOCK_RATE_MAX + UNSEEN_S

    def _waits(self, state: PartitionState, now_s: float) -> bool:
        """True if a reassignment cannot end because of a broker that may have been given up; then it does not count (REPAIR-5)."""
        return any(self._may_be_given_up(node, now_s) for node in state.target_replicas)


def _find_takers(image: ClusterImage) -> set[NodeId]:
    """Brokers that may get replicas."""
    return {node for node, broker in image.brokers.items() if broker.is_active and not is_draining(image, node)}


def _is_repair(topic: TopicImage, state: PartitionState) -> bool:
    """True if the controller says that a reassignment is its own (REPAIR-4)."""
    marks = read_repaired_replicas(topic.configs.get(REPAIRED_REPLICAS, ""))
    return any(marks.covers(state.partition, node) for node in state.adding_replicas)


def _changed(old: ClusterImage, new: ClusterImage) -> Iterator[tuple[str, PartitionState, PartitionState]]:
    """Partitions that are another than they were, with their names, states of before and of now."""
    for topic_id, topic in new.topics_by_id.items():
        before = old.topics_by_id.get(topic_id)
        if before is None or before is topic:
            continue
        for former, state in zip(before.partitions, topic.partitions, strict=False):
            if former is not state and former != state:
                yield f"{topic.name}-{state.partition}", former, state
