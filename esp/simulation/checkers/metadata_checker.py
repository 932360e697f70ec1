"""Holds the nodes' metadata against one another, and each committed state of a partition against the one before it."""

import dataclasses
from collections import deque
from collections.abc import Callable, Collection

from esp.broker.raft.loader import MetadataLoader
from esp.controller.directories import NOWHERE
from esp.controller.image import (
    CLUSTER_DEFAULT,
    EMPTY_IMAGE,
    MIN_INSYNC_REPLICAS,
    ClusterDelta,
    ClusterImage,
    TopicImage,
)
from esp.model.ids import (
    LOST_DIRECTORY,
    NO_NODE,
    RESERVED_DIRECTORIES,
    UNASSIGNED_DIRECTORY,
    BrokerEpoch,
    DirectoryId,
    NodeId,
    TopicId,
    TopicPartition,
)
from esp.model.partition import PartitionState
from esp.settings.rebalance import REMOVAL_FORCED
from esp.simulation.checkers import probe
from esp.simulation.checkers.feature_checker import check_levels
from esp.simulation.checkers.floor_checker import FloorChecker
from esp.simulation.checkers.minimums import Minimums
from esp.simulation.checkers.reassignment import check_reassignment
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.same_images import SameImages
from esp.simulation.checkers.trash_checker import TrashChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.ledger import PASSING, RECKLESS, Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.outcome import Outcome

TELLING_S = 20.0
"""The time within which a broker that is not fenced tells the controller of a replica that it cannot use: its heartbeats get through at
least every 9 s, so its report does when it is sent again."""

IMAGES_KEPT = 1000
"""The number of images that are kept, those of the latest offsets: nodes that lag further are not compared."""


class _Feed:
    """The images that a node publishes, each of them: within one turn of the loop there may be several.

    Args:
        loader: publishes them.
    """

    def __init__(self, loader: MetadataLoader) -> None:
        self.loader = loader
        self.before: ClusterImage | None = None
        """The one that was looked at last."""
        self.same = SameImages()
        self._published: list[ClusterImage] = []
        loader.subscribe(self._on_image)

    def take(self) -> list[ClusterImage]:
        """The images that were published since the last call."""
        published = self._published
        if published:
            self._published = []
        return published

    def _on_image(self, image: ClusterImage, _delta: ClusterDelta) -> None:
        self._published.append(image)


class MetadataChecker:
    """Follows the committed metadata image by image, and holds the images of all nodes against it: committed is committed.

    Args:
        replicas: what the replicas hold.
        ledger: what was allowed to be lost.
        stopped_since_s: the time since which a living node's replica of a partition has been stopped (TRUNC-8); None if it is not.
    """

    def __init__(
        self,
        replicas: ReplicaChecker,
        ledger: Ledger,
        stopped_since_s: Callable[[NodeId, tuple[TopicId, int]], float | None] = lambda _node_id, _key: None,
    ) -> None:
        self.image = EMPTY_IMAGE
        self.on_change: Callable[[ClusterImage, ClusterImage, float], None] = lambda _old, _new, _now_s: None
        """Called with each newer image after the one before it, and the time."""
        self.floors = FloorChecker(replicas.of_partition)
        self.trash = TrashChecker()
        self.minimums = Minimums()
        """The minimum of in-sync replicas that counted, by partition epoch."""
        self._replicas = replicas
        self._ledger = ledger
        self._stopped_since_s = stopped_since_s
        self._known: dict[int, ClusterImage] = {}
        self._newest = EMPTY_IMAGE
        self._pending: deque[ClusterImage] = deque()
        self._feeds: dict[int, _Feed] = {}
        self._joined_isr_s: dict[tuple[TopicId, int, int], float] = {}
        self._nodes: dict[int, SimulatedNode] = {}
        self._image_s = 0.0
        """The time at which the newest image was seen."""
        self._unfenced_s: dict[tuple[NodeId, BrokerEpoch], float] = {}
        """The registrations that are not fenced, and since when."""
        self._replaced: set[tuple[NodeId, BrokerEpoch]] = set()
        """Registrations that others began to replace after an unclean end: their brokers leave all sets, in slices, before that is done."""
        self._removed: set[tuple[NodeId, BrokerEpoch]] = set()
        """Registrations whose brokers leave all sets, in slices, before they are unregistered."""

    def on_unclean(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        """A controller has decided a slice of a registration that replaces this one after an unclean end (BRK-2)."""
        self._replaced.add((node_id, epoch))

    def on_removal(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        """A controller has decided the first of several slices in which a broker is unregistered."""
        self._removed.add((node_id, epoch))

    def on_committed(self, image: ClusterImage) -> None:
        """The next batch of the metadata log is committed, in the midst of a node's step: it is looked at when that is over."""
        self.minimums.on_change(self._newest, image)
        self._newest = image
        self._pending.append(image)

    def look(self, node: SimulatedNode, now_s: float) -> None:
        """Take in what is committed, and compare each image that a node has published with it. Raises ViolationError."""
        if self._pending:
            while self._pending:
                self._take(self._pending.popleft(), now_s)
            self._image_s = now_s
        feed = self._feeds.get(node.node_id)
        loader = probe.metadata_of(node)
        if feed is None or feed.loader is not loader:
            if loader is None:
                return
            feed = self._feeds[node.node_id] = _Feed(loader)
            self._nodes[node.node_id] = node
        for image in feed.take():
            self._look_at(node, feed, image)
            feed.before = image

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with what became of its topics."""
        return dataclasses.replace(
            outcome,
            continued_partitions=self.floors.continued,
            leapt_partitions=self.floors.leapt,
            restored_topics=self.trash.restored,
            early_purges=self.trash.early,
        )

    def _look_at(self, node: SimulatedNode, feed: _Feed, image: ClusterImage) -> None:
        before = feed.before
        if before is not None and image.offset < before.offset:
            raise ViolationError("INV-META-SAME", node.name, f"went back from offset {before.offset} to {image.offset}")
        known = self._known.get(image.offset)
        if known is None and image.offset > next(iter(self._known), -1):
            raise ViolationError(
                "INV-META-SAME", node.name, f"has metadata of offset {image.offset}; committed is {self.image.offset}"
            )
        if known is not None and not feed.same.are_same(known, image):
            raise ViolationError("INV-META-SAME", node.name, f"at offset {image.offset}: {_differences(known, image)}")

    def _take(self, image: ClusterImage, now_s: float) -> None:
        """Look at the next image of the log."""
        self._known[image.offset] = image
        if len(self._known) > IMAGES_KEPT:
            del self._known[next(iter(self._known))]
        old, self.image = self.image, image
        self.floors.on_change(old, image)
        self.trash.on_change(old, image, now_s)
        self._check_change(old, image, now_s)
        self.on_change(old, image, now_s)

    def on_end(self, node: SimulatedNode) -> None:
        """The node's process ended: the next one begins from its disk."""
        self._feeds.pop(node.node_id, None)

    def _check_change(self, old: ClusterImage, new: ClusterImage, now_s: float) -> None:
        for broker_id, broker in new.brokers.items():
            former = old.brokers.get(broker_id)
            if former is not None and broker.epoch < former.epoch:
                raise ViolationError(
                    "INV-EPOCHS-MONO", f"broker {broker_id}", f"epoch {broker.epoch} after {former.epoch}"
                )
        if old.brokers is not new.brokers:
            self._unfenced_s = {
                (number, broker.epoch): self._unfenced_s.get((number, broker.epoch), now_s)
                for number, broker in new.brokers.items()
                if not broker.fenced
            }
        gone = old.brokers.keys() - new.brokers.keys()
        replaced = {number for number, broker in new.brokers.items() if (number, broker.epoch) in self._replaced}
        removed = {number for number, broker in new.brokers.items() if (number, broker.epoch) in self._removed}
        _check_gone(new, gone)
        _check_last_copies(old, new, gone | (removed - replaced))
        _check_fenced(old, new)
        check_levels(old, new)
        leaving = replaced | removed
        for topic_id, topic in new.topics_by_id.items():
            before = old.topics_by_id.get(topic_id)
            if before is topic and old.brokers is new.brokers:
                continue
            if before is not None and before is not topic:
                _check_forgotten(old, new, before, topic)
            reborn = {number for number, broker in new.brokers.items() if _epoch_of(old, number) != broker.epoch}
            reborn |= gone  # unregistered: it may never come back
            for number, state in enumerate(topic.partitions):
                former_state = (
                    before.partitions[number] if before is not None and number < len(before.partitions) else None
                )
                if former_state is not state and former_state != state:
                    self._check_partition(new, topic, former_state, state, now_s, reborn, reborn | leaving)
                    if before is None or former_state is None:
                        continue
                    # Of several changes in one batch no node sees the states between them.
                    if state.partition_epoch != former_state.partition_epoch + 1:
                        note(Excuse.SEVERAL_CHANGES)
                        continue
                    count = len(state.replicas)
                    least = min(old.min_insync_replicas(before, count), new.min_insync_replicas(topic, count))
                    _check_eligible(topic, former_state, state, reborn | leaving, least)

    def _check_partition(
        self,
        image: ClusterImage,
        topic: TopicImage,
        old: PartitionState | None,
        new: PartitionState,
        now_s: float,
        reborn: Collection[NodeId],
        leaving: Collection[NodeId],
    ) -> None:
        who = f"{topic.name}-{new.partition}"
        if old is None and new.start_offset:
            self._replicas.on_begun((topic.topic_id, new.partition), new.start_offset)
        if old is not None:
            for node_id in [node_id for node_id in old.replicas if node_id not in new.replicas]:
                self._replicas.on_unassigned(node_id, (topic.topic_id, new.partition))
            for node_id in [node_id for node_id in new.replicas if node_id not in old.replicas]:
                self._replicas.on_assigned(node_id, (topic.topic_id, new.partition))
            if new.partition_epoch == old.partition_epoch + 1:
                minimum = image.min_insync_replicas(topic, len(new.replicas))
                check_reassignment(old, new, who, min_isr=minimum, may_be_unclean=topic.name == RECKLESS)
        self._check_election(topic, old, new, who, reborn, leaving)
        if old is not None and (new.leader_epoch < old.leader_epoch or new.partition_epoch <= old.partition_epoch):
            raise ViolationError("INV-EPOCHS-MONO", who, f"{new} after {old}")
        for node_id in new.isr:
            if old is None or not (node_id in old.isr or _leads_as_eligible(node_id, old, new)):
                self._joined_isr_s[topic.topic_id, new.partition, node_id] = self._held_since_s(node_id, now_s)
        self._check_place(image, topic, old, new, now_s)
        self._check_sets(image, topic, old, new, who)
        self._check_candidates(image, topic, new, who)
        leader = self._replicas.leader_on(new.leader, (topic.topic_id, new.partition))
        if leader is None or leader.leader_epoch != new.leader_epoch:
            return
        # The eligible replicas count too at a leader that commits: it would do so by another minimum than the controller's (ELR-2, ELR-3).
        candidates = {*new.isr, *new.elr} if leader.has_enough_replicas() else {*new.isr}
        if candidates <= leader.maximal_isr:
            return
        if not self._is_newest(image, topic, new):
            note(Excuse.SUPERSEDED_STATES)
            return
        raise ViolationError(
            "INV-MAXISR", who, f"the leader counts on {sorted(leader.maximal_isr)}; {new} was committed (HW-3)"
        )

    def _is_newest(self, image: ClusterImage, topic: TopicImage, state: PartitionState) -> bool:
        """True if the newest metadata have this state of a partition, and this minimum: else its leader may know of later ones."""
        newest, count = self._newest.topics_by_id.get(topic.topic_id), len(state.replicas)
        return (
            newest is not None
            and newest.partitions[state.partition] == state
            and self._newest.min_insync_replicas(newest, count) == image.min_insync_replicas(topic, count)
        )

    def _check_place(
        self, image: ClusterImage, topic: TopicImage, old: PartitionState | None, new: PartitionState, now_s: float
    ) -> None:
        """No broker is elected whose replica it cannot use, if it has said so (KIP-858), or has had the time to (TRUNC-8).

        One that was said to be lost may lead by an unclean election, for want of others, or as the last one that says it has nothing
        (BRK-11): it is recovering then. The leader's place is written down as unknown.
        """
        broker = image.brokers.get(new.leader)
        if broker is None or old is None or new.leader_epoch == old.leader_epoch or new.leader not in new.replicas:
            return
        who = f"{topic.name}-{new.partition}"
        place = _places(new).get(new.leader, UNASSIGNED_DIRECTORY)
        was_lost = _places(old).get(new.leader) == LOST_DIRECTORY
        if place.int >= RESERVED_DIRECTORIES:
            if place not in broker.log_dirs:
                raise ViolationError(
                    "INV-LEADER-ONLINE", who, f"{new.leader} has only {broker.log_dirs}: {new} after {old}"
                )
        elif was_lost or place == LOST_DIRECTORY:
            # Of several changes the states between are not known.
            if new.partition_epoch == old.partition_epoch + 1 and not new.recovering:
                raise ViolationError("INV-LEADER-ONLINE", who, f"{new.leader} has lost its replica: {new} after {old}")
            return
        stopped_s = self._stopped_since_s(new.leader, (topic.topic_id, new.partition))
        usable_s = self._unfenced_s.get((new.leader, broker.epoch), now_s)
        if new.leader != old.leader and stopped_s is not None and now_s - max(stopped_s, usable_s) > TELLING_S:
            raise ViolationError(
                "INV-LEADER-ONLINE",
                who,
                f"the replica of {new.leader} is offline since {stopped_s:.3f}, and the controller does not know it: {new} after {old}",
            )

    def _check_sets(
        self, image: ClusterImage, topic: TopicImage, old: PartitionState | None, new: PartitionState, who: str
    ) -> None:
        """In-sync and eligible replicas are disjoint sets of replicas, and some replica has a complete copy."""
        isr, elr = set(new.isr), set(new.elr)
        min_isr = image.min_insync_replicas(topic, len(new.replicas))
        if not isr <= set(new.replicas) or not elr <= set(new.replicas) or isr & elr or len(isr) != len(new.isr):
            raise ViolationError("INV-ISR-SUBSET", who, f"{new}")
        if len(isr) >= min_isr and elr:
            raise ViolationError("INV-ISR-SUBSET", who, f"an ELR beside an ISR of at least {min_isr}: {new}")
        for node_id in new.isr:
            broker = image.brokers.get(node_id)
            if (broker is None or broker.fenced) and old is not None and node_id not in old.isr:
                raise ViolationError("INV-ISR-UNFENCED", who, f"{node_id} is fenced and joins the ISR: {new}")
        is_lost = self._ledger.is_beyond_promise or LOST_DIRECTORY in new.directories  # as its broker has said (BRK-11)
        if isr or elr or new.last_known_elr:
            return
        if not (is_lost or topic.name in PASSING):
            raise ViolationError("INV-LAST-COPY", who, f"no complete copy is left: {new} after {old}")
        note(Excuse.LOST_LAST_COPIES)

    def _held_since_s(self, node_id: int, now_s: float) -> float:
        """The time at which a node that joins an ISR now had what it was let in for.

        One that is dead already had it before it died, and so had one that is back and has not registered yet. If nothing was committed
        between a loss of bytes and now, the change may have been proposed before the loss, and committed by the controller's successor.
        """
        node = self._nodes.get(node_id)
        lossy_s = self._ledger.lossy_s.get(node_id, now_s)
        is_still_there = node is None or node.is_serving or node.is_stopping
        return now_s if is_still_there and lossy_s <= self._image_s else min(now_s, lossy_s)

    def _check_election(
        self,
        topic: TopicImage,
        old: PartitionState | None,
        new: PartitionState,
        who: str,
        reborn: Collection[NodeId],
        leaving: Collection[NodeId],
    ) -> None:
        """A leader from outside ISR and ELR: the last known one loses nothing unless its disk did since it joined the ISR (ELECT-5).

        A broker in ``reborn`` was registered anew in between, and so is none of ISR and ELR any more, if that is more than one change.
        One in ``leaving`` was, or is about to be (:meth:`on_unclean`, :meth:`on_removal`).
        """
        key = (topic.topic_id, new.partition)
        committed = self._replicas.of_partition(key)
        if old is None or committed is None:
            return
        is_one = new.partition_epoch == old.partition_epoch + 1
        if topic.name == RECKLESS and not is_one and new.leader_epoch != old.leader_epoch:
            committed.excuse()  # the leaders between are not known
            note(Excuse.RECKLESS_ELECTIONS)
        was_candidate = new.leader in (old.leader, *old.isr, *old.elr) or _has_ended(old, new)
        # In a restored partition the last known leader is eligible as well, until it says, with the same change, that its log is gone.
        may_lack = new.leader in reborn or (new.recovering and new.leader in old.last_known_elr)
        if new.leader == NO_NODE or (was_candidate and not (may_lack and new.leader_epoch != old.leader_epoch)):
            return
        joined_s = self._joined_isr_s.get((*key, new.leader), 0.0)
        # The last known leader is elected for want of candidates; beside one that is away, any choice is by the topic's own setting.
        is_reckless = topic.name == RECKLESS and (
            new.leader not in old.last_known_elr or bool({*old.isr, *old.elr} - {new.leader})
        )
        if is_reckless:
            committed.excuse()
            note(Excuse.RECKLESS_ELECTIONS)
        elif self._ledger.was_lossy_since(new.leader, joined_s, committed.name):
            self._check_last_resort(old, new, who, leaving)
            committed.doubt(new.leader_epoch)
        elif _is_last_of_nothing(old, new):
            if any(
                self._ledger.was_lossy_since(node, self._joined_isr_s.get((*key, node), 0.0), committed.name)
                for node in new.replicas
            ):
                committed.doubt(new.leader_epoch)
        elif not was_candidate and new.leader not in old.last_known_elr and is_one:
            raise ViolationError(
                "INV-LEADER-COMPLETE", who, f"an election outside ISR, ELR and last-known leader: {new} after {old}"
            )

    @staticmethod
    def _check_last_resort(old: PartitionState, new: PartitionState, who: str, leaving: Collection[NodeId]) -> None:
        """A leader that lost bytes is elected only where no other was eligible, and is said to be recovering (ELECT-1, ELECT-4)."""
        if new.partition_epoch != old.partition_epoch + 1:
            return  # the states between several changes are not known
        lost = {node for node, place in _places(new).items() if place == LOST_DIRECTORY}
        better = ({*old.isr, *old.elr} & set(new.replicas)) - {new.leader, *leaving} - lost
        is_silent = not new.recovering and new.leader not in (*old.isr, *old.elr)
        if better or is_silent:
            why = f"{sorted(better)} were eligible" if better else "no producer is notified"
            raise ViolationError("INV-LOSS-TOLD", who, f"a leader that lost bytes, and {why}: {new} after {old}")

    def _check_candidates(self, image: ClusterImage, topic: TopicImage, new: PartitionState, who: str) -> None:
        key = (topic.topic_id, new.partition)
        committed = self._replicas.of_partition(key)
        if committed is None or committed.is_excused:
            return
        for node_id in (*new.isr, *new.elr):
            view = self._replicas.views.get(node_id, {}).get(key)
            if view is None or committed.is_held_by(view):
                continue
            if not self._may_lack(image, node_id, committed.name):
                raise ViolationError(
                    "INV-CANDIDATE-COMPLETE",
                    who,
                    f"{node_id} may lead with a log that ends at {view.end_offset}; committed is {committed.last}; {new}",
                )
            note(Excuse.LOSSY_CANDIDATES)

    def _may_lack(self, image: ClusterImage, node_id: NodeId, partition: TopicPartition) -> bool:
        """True if a node lost bytes of a partition, and the controller need not know it.

        When it serves again it has registered, and could not show a clean shutdown that came after what it holds (BRK-2). What a device
        keeps back, and what rots, may not have been found.
        """
        ledger, node = self._ledger, self._nodes.get(node_id)
        if node_id not in ledger.outstanding:
            return False
        if (
            node is None
            or node_id in ledger.poisoned
            or not node.is_serving
            or ledger.may_be_rotten(node_id, partition)
        ):
            return True
        return _epoch_of(image, node_id) != probe.broker_epoch(node)


def _places(state: PartitionState) -> dict[NodeId, DirectoryId]:
    """The directory of each replica, as far as any was written down."""
    return dict(zip(state.replicas, state.directories, strict=False))


def _leads_as_eligible(node_id: NodeId, old: PartitionState, new: PartitionState) -> bool:
    """True if a node was elected as an eligible one: no check has shown that it still holds the records it had when it left the ISR."""
    return node_id in old.elr and new.leader == node_id and new.leader_epoch != old.leader_epoch


def _has_ended(old: PartitionState, new: PartitionState) -> bool:
    """True if one change brought the last target in sync and so ended a reassignment; the leader had to be in sync before it."""
    is_one = new.partition_epoch == old.partition_epoch + 1
    return is_one and old.is_reassigning and not new.is_reassigning and set(new.isr) == set(old.target_replicas)


def _check_fenced(old: ClusterImage, new: ClusterImage) -> None:
    """A broker leaves all in-sync sets with the record that fences it, or before (ISR-7, BRK-6)."""
    if old.brokers is new.brokers:
        return
    fenced = {number for number, broker in new.brokers.items() if broker.fenced and _was_unfenced(old, number)}
    for topic, state in new.partitions() if fenced else ():
        if not fenced.isdisjoint(state.isr):
            who = f"{topic.name}-{state.partition}"
            raise ViolationError("INV-ISR-UNFENCED", who, f"{sorted(fenced)} are fenced now: {state}")


def _was_unfenced(image: ClusterImage, node_id: NodeId) -> bool:
    broker = image.brokers.get(node_id)
    return broker is not None and not broker.fenced


def _check_gone(new: ClusterImage, gone: Collection[NodeId]) -> None:
    """A broker that was unregistered may never come back: it counts in no ISR (ISR-7)."""
    for topic, state in new.partitions() if gone else ():
        if not {*state.isr, *state.elr}.isdisjoint(gone):
            who = f"{topic.name}-{state.partition}"
            raise ViolationError("INV-ISR-UNFENCED", who, f"{sorted(gone)} are registered no more: {state}")


def _check_last_copies(old: ClusterImage, new: ClusterImage, gone: Collection[NodeId]) -> None:
    """A broker that is unregistered, or is about to be, is not given up with the last copy (BRK-10)."""
    forced = old.broker_configs.get(CLUSTER_DEFAULT, {}).get(REMOVAL_FORCED, "").split(",")
    for topic, state in new.partitions() if gone else ():
        before = old.topics_by_id.get(topic.topic_id)
        if before is None or state.partition >= len(before.partitions) or state.isr or state.elr:
            continue
        former = before.partitions[state.partition]
        (holder, *others) = dict.fromkeys((*former.isr, *former.elr)) or (NO_NODE,)
        if not others and holder in gone and str(holder) not in forced:
            raise ViolationError(
                "INV-LAST-COPY",
                f"{topic.name}-{state.partition}",
                f"{gone} was lost with it, and the removal was not forced: {state} after {former}",
            )


def _epoch_of(image: ClusterImage, node_id: NodeId) -> int:
    broker = image.brokers.get(node_id)
    return broker.epoch if broker is not None else -1


def _check_eligible(
    topic: TopicImage,
    old: PartitionState,
    new: PartitionState,
    reborn: Collection[NodeId],
    min_isr: int,
) -> None:
    """Below the minimum, a replica that leaves the ISR stays eligible unless it came back from an unclean end (ELR-1), or has rotted.

    Args:
        topic: the partition's.
        old: the state before the change.
        new: the state after it.
        reborn: brokers that were registered anew, or are about to be, or are registered no more.
        min_isr: the minimum. Where the batch changes it, the lesser one: a change of the ISR may come before or after it, and another
            minimum clears the ELR of a set that is large enough by it.

    Raises:
        ViolationError: INV-ELR.
    """
    who = f"{topic.name}-{new.partition}"
    is_unclean = new.recovering and (not old.recovering or new.leader not in {NO_NODE, *old.isr, *old.elr})
    if is_unclean and new.elr:
        raise ViolationError("INV-ELR", who, f"eligible beside a leader that may lack records: {new} after {old}")
    places = _places(new)
    lost = {node for node, place in places.items() if place == LOST_DIRECTORY}
    have_nothing = {node for node, place in places.items() if place == NOWHERE}
    due = ({*old.isr, *old.elr} & set(new.replicas)) - {*new.isr, *reborn, *lost}
    if len(new.isr) >= min_isr or due <= set(new.elr):
        return
    if is_unclean:
        note(Excuse.UNCLEAN_ELECTIONS)
    elif len(due) == 1 and due <= {*new.last_known_elr} & have_nothing and set(new.replicas) - lost == due:
        note(Excuse.EMPTY_LAST_LEADERS)
    else:
        raise ViolationError("INV-ELR", who, f"{sorted(due)} should be eligible: {new} after {old}")


def _is_last_of_nothing(old: PartitionState, new: PartitionState) -> bool:
    """True if a leader was elected as the last one to say that it has nothing, where no replica was known to have more (BRK-11).

    What others said just before may have come as one change with it.
    """
    places = _places(new)
    has_none = not (old.isr or old.elr) and {*old.last_known_elr} <= {new.leader}
    others_are_lost = all(place == LOST_DIRECTORY for node, place in places.items() if node != new.leader)
    return has_none and new.recovering and others_are_lost and places.get(new.leader) == NOWHERE


def _check_forgotten(before: ClusterImage, after: ClusterImage, old: TopicImage, new: TopicImage) -> None:
    """By another minimum no replica can be held to be eligible for what was committed under the one before (KIP-966, KAFKA-16540).

    By one that the ISR is too small for as well, nothing can have been committed since, and none is forgotten (ELR-3).
    """
    least, needed = before.min_insync_replicas(old), after.min_insync_replicas(new)
    is_its_own = old.configs.get(MIN_INSYNC_REPLICAS) != new.configs.get(MIN_INSYNC_REPLICAS)
    if not is_its_own and least == needed:
        return
    for former, state in zip(old.partitions, new.partitions, strict=False):
        who = f"{new.name}-{state.partition}"
        if is_its_own and state.elr and state == former:
            raise ViolationError("INV-ELR", who, f"another minimum, and still eligible: {state}")
        is_one = state.partition_epoch == former.partition_epoch + 1
        is_too_small = len(former.isr) < min(least, needed, len(state.replicas))
        if is_one and state.isr == former.isr and is_too_small and not set(former.elr) <= set(state.elr):
            raise ViolationError("INV-ELR", who, f"the minimum is {needed} after {least}: {state} after {former}")


def _differences(first: ClusterImage, second: ClusterImage) -> str:
    names = [name for name in ClusterImage.__dataclass_fields__ if getattr(first, name) != getattr(second, name)]
    return "; ".join(f"{name}: {getattr(first, name)} and {getattr(second, name)}" for name in names)[:2000]
