"""Changes of very many partitions, a slice at a time: the cluster may change between two slices (decision 69).

Each slice is planned on the newest state, and is right by itself. A walk goes on behind the partitions that earlier slices have looked at.
Meanwhile other decisions may have changed these again, so the changes are complete only after a walk that found few enough in one state.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from esp.controller.decision import SLICE_CHANGES_MAX
from esp.controller.image import ClusterImage, TopicImage
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import PartitionChangeRecord

WALKS_MAX: Final = 3
"""Walks over all partitions until the next one is a slice of any size: others may undo what slices do, but not for ever."""

Partitions: TypeAlias = Iterable[tuple[TopicImage, PartitionState]]
"""Partitions with their topics."""

Plan: TypeAlias = Callable[[ClusterImage, Partitions], Iterable[PartitionChangeRecord]]
"""The changes of partitions that one state of the cluster calls for."""


class SlicedChanges:
    """The changes of all partitions that a plan calls for.

    Args:
        plan: yields each change before it takes the next partition.
        changes_max: the most changes of a slice; None for one slice of any size.
    """

    def __init__(self, plan: Plan, changes_max: int | None = SLICE_CHANGES_MAX) -> None:
        assert changes_max is None or changes_max > 0, "each slice changes something"
        self._plan = plan
        self._changes_max = changes_max
        self._walk: _Walk | None = None
        self._walks = 0

    def next(self, image: ClusterImage) -> tuple[list[PartitionChangeRecord], bool]:
        """The changes of the next slice; and true if no others are left to make in this state.

        Args:
            image: the newest state: that of the call before with its changes, and others perhaps.
        """
        while True:
            is_whole = self._walk is None
            if self._walk is None:
                self._walk = _Walk(image)
                self._walks += 1
            changes_max = self._changes_max if self._walks <= WALKS_MAX else None
            changes = list(islice(self._plan(image, self._walk.rest(image)), changes_max))
            if len(changes) == changes_max:
                return changes, False
            self._walk = None
            if is_whole or changes:
                return changes, is_whole


class _Walk:
    """A walk over the partitions of the topics that there were when it began.

    Topics that are created meanwhile are not part of it, nor are those that are deleted.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics = iter(tuple(image.topics_by_id.values()))
        self._topic = next(self._topics, None)
        """The topic at which the walk is, as it was when the walk began; None at the end."""
        self._partition = 0

    def rest(self, image: ClusterImage) -> Iterator[tuple[TopicImage, PartitionState]]:
        """The partitions that were not reached yet, as they are in ``image``; may be left at any of them."""
        find = image.topics_by_id.get
        # No topic is looked up in the state in which the walk began: that would be most of a walk over topics of one partition.
        is_as_it_was = image is self._image
        while self._topic is not None:
            topic = self._topic if is_as_it_was else find(self._topic.topic_id)
            if topic is not None:
                for partition in topic.partitions[self._partition :]:
                    self._partition += 1
                    yield topic, partition
            self._topic = next(self._topics, None)
            self._partition = 0
