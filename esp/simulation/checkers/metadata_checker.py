"""Holds the nodes' metadata against one another, and each committed state of a partition against the one before it."""

from esp.controller.image import EMPTY_IMAGE, ClusterImage, TopicImage
from esp.model.ids import LOST_DIRECTORY, NO_NODE, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.ledger import RECKLESS, Ledger
from esp.simulation.node import SimulatedNode

IMAGES_KEPT = 200
"""Of the latest offsets: nodes that lag further are not compared."""


class MetadataChecker:
    """See the module. The metadata that counts is the newest image that any node has: committed is committed.

    Args:
        replicas: what the replicas hold.
        ledger: what was allowed to be lost.
    """

    def __init__(self, replicas: ReplicaChecker, ledger: Ledger) -> None:
        self.image = EMPTY_IMAGE
        self._replicas = replicas
        self._ledger = ledger
        self._known: dict[int, ClusterImage] = {}
        self._last: dict[int, ClusterImage] = {}
        self._joined_isr_s: dict[tuple[TopicId, int, int], float] = {}

    def look(self, node: SimulatedNode, now_s: float) -> None:
        """Compare a node's image with what others had at the same offset. Raises ViolationError."""
        image = probe.image(node)
        before = self._last.get(node.node_id)
        if image is before:
            return
        self._last[node.node_id] = image
        if before is not None and image.offset < before.offset:
            raise ViolationError("INV-META-SAME", node.name, f"went back from offset {before.offset} to {image.offset}")
        known = self._known.setdefault(image.offset, image)
        if known is not image and known != image:
            raise ViolationError("INV-META-SAME", node.name, f"at offset {image.offset}: {_differences(known, image)}")
        if len(self._known) > IMAGES_KEPT:
            del self._known[next(iter(self._known))]
        if image.offset > self.image.offset:
            old, self.image = self.image, image
            self._check_change(old, image, now_s)

    def on_end(self, node: SimulatedNode) -> None:
        """The node's process ended: the next one begins from its disk."""
        self._last.pop(node.node_id, None)

    def _check_change(self, old: ClusterImage, new: ClusterImage, now_s: float) -> None:
        for broker_id, broker in new.brokers.items():
            former = old.brokers.get(broker_id)
            if former is not None and broker.epoch < former.epoch:
                raise ViolationError(
                    "INV-EPOCHS-MONO", f"broker {broker_id}", f"epoch {broker.epoch} after {former.epoch}"
                )
        for topic_id, topic in new.topics_by_id.items():
            before = old.topics_by_id.get(topic_id)
            if before is topic and old.brokers is new.brokers:
                continue
            reborn = {number for number, broker in new.brokers.items() if _epoch_of(old, number) != broker.epoch}
            reborn |= old.brokers.keys() - new.brokers.keys()  # unregistered: it may never come back
            for number, state in enumerate(topic.partitions):
                former_state = (
                    before.partitions[number] if before is not None and number < len(before.partitions) else None
                )
                if former_state is not state and former_state != state:
                    self._check_partition(new, topic, former_state, state, now_s, is_reborn=state.leader in reborn)
                    # Of several changes that came as one nobody knows what was between them.
                    is_one = former_state is not None and state.partition_epoch == former_state.partition_epoch + 1
                    if former_state is not None and is_one and topic.configs == (before or topic).configs:
                        _check_eligible(new, topic, former_state, state, reborn)

    def _check_partition(
        self,
        image: ClusterImage,
        topic: TopicImage,
        old: PartitionState | None,
        new: PartitionState,
        now_s: float,
        *,
        is_reborn: bool,
    ) -> None:
        who = f"{topic.name}-{new.partition}"
        self._check_election(topic, old, new, who, is_reborn=is_reborn)
        if old is not None and (new.leader_epoch < old.leader_epoch or new.partition_epoch <= old.partition_epoch):
            raise ViolationError("INV-EPOCHS-MONO", who, f"{new} after {old}")
        for node_id in new.isr:
            if old is None or node_id not in old.isr:
                self._joined_isr_s[topic.topic_id, new.partition, node_id] = now_s
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
        self._check_candidates(topic, new, who)
        leader = self._replicas.leader_on(new.leader, (topic.topic_id, new.partition))
        if leader is not None and leader.leader_epoch == new.leader_epoch and not isr <= leader.maximal_isr:
            raise ViolationError(
                "INV-MAXISR", who, f"the leader counts on {sorted(leader.maximal_isr)}; {new} was committed (HW-3)"
            )

    def _check_election(
        self, topic: TopicImage, old: PartitionState | None, new: PartitionState, who: str, *, is_reborn: bool
    ) -> None:
        """A leader from outside ISR and ELR: the last known one loses nothing unless its disk did since it joined the ISR (ELECT-5).

        ``is_reborn``: it was registered anew in between, and so is none of ISR and ELR any more, if that is more than one change.
        """
        committed = self._replicas.of_partition((topic.topic_id, new.partition))
        if old is None or committed is None:
            return
        if topic.name == RECKLESS and new.partition_epoch > old.partition_epoch + 1:
            committed.is_excused |= new.leader_epoch != old.leader_epoch  # nobody knows who was elected between
        was_candidate = new.leader == old.leader or new.leader in old.isr or new.leader in old.elr
        if new.leader == NO_NODE or (was_candidate and not (is_reborn and new.leader_epoch != old.leader_epoch)):
            return
        joined_s = self._joined_isr_s.get((topic.topic_id, new.partition, new.leader), 0.0)
        is_reckless = topic.name == RECKLESS and new.leader not in old.last_known_elr
        if self._ledger.was_lossy_since(new.leader, joined_s, committed.name) or is_reckless:
            committed.is_excused = True
        elif (
            not was_candidate
            and new.leader not in old.last_known_elr
            and new.partition_epoch == old.partition_epoch + 1
        ):
            raise ViolationError(
                "INV-LEADER-COMPLETE", who, f"an election outside ISR, ELR and last-known leader: {new} after {old}"
            )

    def _check_candidates(self, topic: TopicImage, new: PartitionState, who: str) -> None:
        key = (topic.topic_id, new.partition)
        committed = self._replicas.of_partition(key)
        if committed is None or committed.is_excused:
            return
        for node_id in (*new.isr, *new.elr):
            view = self._replicas.views.get(node_id, {}).get(key)
            if view is not None and node_id not in self._ledger.outstanding and not committed.is_held_by(view):
                raise ViolationError(
                    "INV-CANDIDATE-COMPLETE",
                    who,
                    f"{node_id} may lead with a log that ends at {view.end_offset}; committed is {committed.last}; {new}",
                )


def _epoch_of(image: ClusterImage, node_id: NodeId) -> int:
    broker = image.brokers.get(node_id)
    return broker.epoch if broker is not None else -1


def _check_eligible(
    image: ClusterImage, topic: TopicImage, old: PartitionState, new: PartitionState, reborn: set[NodeId]
) -> None:
    """Below the minimum, whoever leaves the ISR stays eligible unless it came back from an unclean end (ELR-1, KIP-966), or has rotted."""
    if len(new.isr) >= image.min_insync_replicas(topic, len(new.replicas)) or (new.recovering and not old.recovering):
        return
    lost = {node for node, place in zip(new.replicas, new.directories, strict=False) if place == LOST_DIRECTORY}
    due = ({*old.isr, *old.elr} & set(new.replicas)) - {*new.isr} - reborn - lost
    if not due <= set(new.elr):
        raise ViolationError(
            "INV-ELR", f"{topic.name}-{new.partition}", f"{sorted(due)} should be eligible: {new} after {old}"
        )


def _differences(first: ClusterImage, second: ClusterImage) -> str:
    names = [name for name in ClusterImage.__dataclass_fields__ if getattr(first, name) != getattr(second, name)]
    return "; ".join(f"{name}: {getattr(first, name)} and {getattr(second, name)}" for name in names)[:2000]
