"""INV-OFFSET-FLOOR: of a name whose offsets go on, a partition's offset is one record over all topics that ever had the name (FLOOR-1)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import TopicId
from esp.model.partition import PartitionState
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.violation import ViolationError

LIVES_KEPT: Final = 10
"""Topics of one name that are held against those after them: an older one has nothing left that could be committed late."""


class _Life(NamedTuple):
    """A partition of one of the topics that had a name."""

    topic_id: TopicId
    start_offset: int
    leader_epoch: int
    """The last one that was known of it."""


class FloorChecker:
    """Follows the topics of each name.

    Args:
        committed: finds what is committed of a partition, by its topic's id; None if no replica had it.
    """

    def __init__(self, committed: Callable[[tuple[TopicId, int]], CommittedLog | None]) -> None:
        self._committed = committed
        self._lives: dict[tuple[str, int], list[_Life]] = {}
        self.continued = 0
        """Partitions that went on where the one before, which had records, had ended."""
        self.leapt = 0
        """Partitions that began far above the one before, as its leader had not said where it ended."""

    def on_change(self, old: ClusterImage, new: ClusterImage) -> None:
        """The metadata has changed. Raises ViolationError."""
        if old.topics_by_id is new.topics_by_id:
            return
        for topic_id, topic in old.topics_by_id.items():
            if topic_id not in new.topics_by_id and not old.continues_offsets(topic.name, topic.configs):
                self._forget(topic.name)
        for topic_id, topic in new.topics_by_id.items():
            before = old.topics_by_id.get(topic_id)
            if before is topic:
                continue
            continues = new.continues_offsets(topic.name, topic.configs)
            if before is None and topic_id in old.trashed_topics:  # restored: it goes on as it is
                self._check_restored(topic)
                before = topic if self._is_last(topic) else None
                continues = continues and before is not None
            if before is None and not continues:
                self._forget(topic.name)
            for state in topic.partitions[len(before.partitions) if before is not None else 0 :]:
                self._begin(topic, state, continues=continues)
            for state in topic.partitions:
                self._note_epoch(topic, state)
        self.check()

    def check(self) -> None:
        """Hold what is committed of each topic against where those after it begin. Raises ViolationError."""
        for (name, partition), lives in self._lives.items():
            for place, life in enumerate(lives):
                committed = self._committed((life.topic_id, partition))
                first = next(iter(committed.batches.values()), None) if committed is not None else None
                if first is not None and first.base_offset < life.start_offset:
                    raise ViolationError(
                        "INV-OFFSET-FLOOR",
                        f"{name}-{partition}",
                        f"has {first} committed, and begins at {life.start_offset}",
                    )
                next_start = lives[place + 1].start_offset if place + 1 < len(lives) else _NO_END
                if committed is not None and not committed.is_excused and committed.end_offset > next_start:
                    raise ViolationError(
                        "INV-OFFSET-FLOOR",
                        f"{name}-{partition}",
                        f"begins again at {next_start}, and the topic before it has {committed.last} committed",
                    )

    def _check_restored(self, topic: TopicImage) -> None:
        """None comes back behind another topic of its name that went on from its offsets. Raises ViolationError."""
        for state in topic.partitions:
            ids = [life.topic_id for life in self._lives.get((topic.name, state.partition), ())]
            if topic.topic_id in ids[:-1]:
                raise ViolationError(
                    "INV-OFFSET-FLOOR",
                    f"{topic.name}-{state.partition}",
                    f"is restored as topic {topic.topic_id}, and {ids[-1]} has gone on from its offsets",
                )

    def _is_last(self, topic: TopicImage) -> bool:
        """True if no other topic has had the name since."""
        lives = [self._lives.get((topic.name, state.partition), []) for state in topic.partitions]
        return all(known and known[-1].topic_id == topic.topic_id for known in lives)

    def _begin(self, topic: TopicImage, state: PartitionState, *, continues: bool) -> None:
        lives = self._lives.setdefault((topic.name, state.partition), [])
        if lives and continues:
            last = lives[-1]
            if state.leader_epoch <= last.leader_epoch or state.start_offset < last.start_offset:
                raise ViolationError(
                    "INV-OFFSET-FLOOR",
                    f"{topic.name}-{state.partition}",
                    f"begins again at {state.start_offset} in epoch {state.leader_epoch}; before it was {last}",
                )
            committed = self._committed((last.topic_id, state.partition))
            end_offset = committed.end_offset if committed is not None else 0
            is_near = state.start_offset <= max(end_offset, last.start_offset) + _NEAR
            self.continued += is_near and state.start_offset > 0
            self.leapt += not is_near
        lives.append(_Life(topic.topic_id, state.start_offset, state.leader_epoch))
        del lives[:-LIVES_KEPT]

    def _note_epoch(self, topic: TopicImage, state: PartitionState) -> None:
        lives = self._lives[topic.name, state.partition]
        lives[-1] = lives[-1]._replace(leader_epoch=state.leader_epoch)

    def _forget(self, name: str) -> None:
        for key in [key for key in self._lives if key[0] == name]:
            del self._lives[key]


_NO_END: Final = 1 << 63

_NEAR: Final = 1 << 32
"""More than any partition of a run has of records."""
