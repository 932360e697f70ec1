"""Who holds how many replicas, and which partitions are being reassigned: counted once, and kept up with the image."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import NodeId, TopicId
from esp.model.partition import PartitionState


class Census:
    """The counts of one image after another.

    Images share what did not change, so only partitions that did are counted again: a look at a large cluster costs little.
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
            assert min(self.assigned.values(), default=0) >= 0, "what is taken away was counted"
            self.reassigning.difference_update(names)
