"""The client of a run that deletes offsets of a group of its own: sets it to work, and asks in the end what is left."""

import asyncio
import dataclasses
from collections.abc import Callable, Collection
from typing import Final

from esp.controller.image import ClusterImage
from esp.groups.partitioning import partition_for
from esp.model.ids import NO_NODE, OFFSETS_TOPIC, NodeId, TopicId, TopicPartition
from esp.simulation.nodes_tier.groups import Groups, Until
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.history import History
from esp.simulation.workload.offset_deleter import GROUP, OffsetDeleter

END_S: Final = 120.0
"""The time that the client may take in a cluster that is whole."""


def deletes_offsets(profile: Profile) -> bool:
    """True if a client deletes offsets in a run: one with groups and a surveyor, where nothing else takes offsets, or hangs on them."""
    holds = any("retention.hold.groups" in topic.configs for topic in profile.topics)
    return profile.surveys and bool(profile.groups.groups) and profile.groups.expiry is None and not holds


class OffsetDeletions:
    """The client, if there is one in this run.

    Args:
        world: the cluster in which it lives.
        history: counts what it met with.
        image: the newest committed metadata.
        groups: has the checker of all groups.
        before: called with the coordinator before each deletion, NO_NODE if there is none.
    """

    def __init__(
        self,
        world: World,
        history: History,
        image: Callable[[], ClusterImage],
        groups: Groups,
        before: Callable[[NodeId], None],
    ) -> None:
        self._world = world
        self._image = image
        self._checker = groups.checker
        self._deleter: OffsetDeleter | None = None
        self._working: asyncio.Task[None] | None = None
        profile = world.profile
        if deletes_offsets(profile):
            self._deleter = OffsetDeleter(
                groups.new_client(GROUP, "offset deleter"),
                world.random("offset deleter"),
                history,
                groups.checker,
                [TopicPartition(topic.name, number) for topic in profile.topics for number in range(topic.partitions)],
            )
            self._deleter.before_deletion = lambda: before(self._coordinator())

    def begin(self) -> None:
        """Set the client to work."""
        if self._deleter is not None:
            self._working = self._world.spawn(self._deleter.run())

    async def end(self, until: Until, find_helpless: Callable[[], Collection[tuple[TopicId, int]]]) -> None:
        """Let the client come to its end, and ask what is left of its offsets; the cluster is whole.

        Args:
            until: waits for the end of problems, in seconds, else an invariant is violated.
            find_helpless: partitions that cannot have a leader.

        Raises:
            ViolationError: LIVE-NO-STUCK, INV-GROUP-OFFSETS.
        """
        deleter, working = self._deleter, self._working
        if deleter is None or working is None:
            return
        deleter.is_stopping = True
        await until(END_S, "LIVE-NO-STUCK", lambda: [] if working.done() else ["a deletion has not ended"])
        if self._key() not in find_helpless():
            reading = self._world.spawn(deleter.read_back())
            await until(END_S, "LIVE-GROUP", lambda: [] if reading.done() else ["no coordinator tells what is left"])

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with the number of deletions."""
        return dataclasses.replace(outcome, acked_deletions=self._checker.acked_deletions)

    def _key(self) -> tuple[TopicId, int] | None:
        topic = self._image().topics_by_name.get(OFFSETS_TOPIC)
        return None if topic is None else (topic.topic_id, partition_for(GROUP, len(topic.partitions)))

    def _coordinator(self) -> NodeId:
        key = self._key()
        return NO_NODE if key is None else self._image().topics_by_id[key[0]].partitions[key[1]].leader
