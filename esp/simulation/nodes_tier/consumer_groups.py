"""The consumer group of KIP-848 of a run: sets its members to work, lets them come to rest, and says whether all is well with them."""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import Final

from esp.controller.image import ClusterImage
from esp.groups.partitioning import partition_for
from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicId, TopicPartition
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers import probe
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.nodes_tier.groups import STABLE_S, Groups, Key, Until
from esp.simulation.nodes_tier.ledger import PASSING
from esp.simulation.nodes_tier.resting_coordinators import find_at_rest
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.consumer_group_crew import ConsumerGroupCrew
from esp.simulation.workload.consumer_group_requests import Subscription
from esp.simulation.workload.history import History

SLACK_S: Final = 1.0
"""The time that a heartbeat takes to be written, committed and answered, three times over, with room to spare."""

MIXED_HEARTBEATS: Final = 6
"""The heartbeats in which a group comes to rest whose members join again for each step, in rounds, if it moves to the classic protocol."""

GROWN_HEARTBEATS: Final = 3
"""The heartbeats until a partition that was added has a member: of one that hears of it, one that gives another back, one that gets it."""

GROW_TRIES: Final = 8

LOOK_S: Final = 0.25
"""The interval at which coordinators are held against their logs."""


class ConsumerGroups:
    """The crew of a run's consumer group, and its checker; nothing if the run has none.

    Args:
        world: the cluster in which it lives.
        history: counts what clients met with.
        image: the newest committed metadata.
        replicas: knows what is committed of a partition, and whether it lost more than is promised.
        groups: the classic groups of the run, whose checker sees the offsets of all groups.
    """

    def __init__(
        self,
        world: World,
        history: History,
        image: Callable[[], ClusterImage],
        replicas: ReplicaChecker,
        groups: Groups,
    ) -> None:
        self._world = world
        self._history = history
        self._image = image
        self._replicas = replicas
        self._groups = groups
        self._profile = world.profile.consumer_group
        self._crew: ConsumerGroupCrew | None = None
        self._working: list[asyncio.Task[None]] = []
        self._is_over = False
        rng = world.random("compaction of consumer groups")
        self.checker = ConsumerGroupChecker(world.loop.time, self._is_excused, rng, self._topic_name)

    def begin(self) -> None:
        """Set all members to work; the topics that stay are there."""
        profile, image = self._profile, self._image()
        if profile is None:
            return
        topics = [image.topics_by_name[topic.name] for topic in self._world.profile.topics]
        crew = self._crew = ConsumerGroupCrew(
            profile,
            {topic.topic_id: topic.name for topic in topics},
            PASSING,
            self._wanted,
            self._world.random(f"crew of {profile.name}"),
            self._history,
            self.checker,
            self._groups.checker,
            self._groups.new_client,
        )
        self._working = [self._world.spawn(crew.keep(place)) for place in range(profile.members)]
        self._world.spawn(self._look())

    def on_committed(self, partition: TopicPartition, batches: Iterable[BatchView]) -> None:
        """Batches were seen to be committed for the first time. Raises ViolationError: INV-GROUP-EPOCH, INV-OWNER."""
        if self._profile is not None and partition.topic == OFFSETS_TOPIC:
            self.checker.on_committed(batches)

    def calm(self) -> None:
        """From now on nothing befalls members."""
        if self._crew is not None:
            self._crew.calm()

    async def end(self, until: Until, find_helpless: Callable[[], Collection[Key]]) -> None:
        """Wait until the group is whole, and let its members leave; the cluster has been whole since now.

        Args:
            until: waits for the end of problems, in seconds, else an invariant is violated.
            find_helpless: partitions that cannot have a leader.

        Raises:
            ViolationError: INV-CONVERGE, LIVE-NO-STUCK, INV-GROUP-REPLAY.
        """
        crew = self._crew
        if crew is None:
            return
        await until(STABLE_S, "INV-CONVERGE", lambda: [] if self._key() in find_helpless() else self.find_unstable())
        if crew.places > 1 and self._key() not in find_helpless():
            leaver = crew.retire()
            await until(
                STABLE_S, "LIVE-NO-STUCK", lambda: [] if leaver.has_ended else ["a member of a consumer group stays"]
            )
            profile = crew.profile
            heartbeats = 2 if not profile.classic_share else MIXED_HEARTBEATS
            limit_s = profile.assignment_s + heartbeats * profile.heartbeat_s + SLACK_S
            limit_s = limit_s if leaver.has_left else STABLE_S
            await until(limit_s, "INV-CONVERGE", self.find_unstable)
        if crew.profile.grows and not crew.profile.classic_share and self._key() not in find_helpless():
            await self._read_by_expression(crew, until)
        crew.stop()
        await until(
            STABLE_S,
            "LIVE-NO-STUCK",
            lambda: (
                []
                if crew.has_ended and all(task.done() for task in self._working)
                else ["a member of a consumer group has not ended"]
            ),
        )
        self._is_over = True

    async def _read_by_expression(self, crew: ConsumerGroupCrew, until: Until) -> None:
        """Let members read a topic by an expression, and the topic get another partition: soon one of them has it. Then all read by names.

        Raises:
            ViolationError: INV-CONVERGE, LIVE-NO-STUCK.
        """
        name = self._world.profile.topics[0].name
        crew.read(Subscription(regex=name))
        await until(STABLE_S, "INV-CONVERGE", lambda: self.find_unstable([name]))
        adding = self._world.spawn(self._add_partition(crew.profile.name, name))
        await until(STABLE_S, "LIVE-NO-STUCK", lambda: [] if adding.done() else ["no partition is added"])
        limit_s = crew.profile.assignment_s + GROWN_HEARTBEATS * crew.profile.heartbeat_s + SLACK_S
        await until(limit_s, "INV-CONVERGE", lambda: self.find_unstable([name]))
        crew.calm()
        await until(STABLE_S, "INV-CONVERGE", self.find_unstable)

    async def _add_partition(self, group_id: str, name: str) -> None:
        """Try for a while to give the topic of this name another partition: brokers that never come back may be too many for its replicas.

        The run counts which of the two came of it, so that a survey of many runs shows whether the group was put to the test.
        """
        client = self._groups.new_client(group_id, "grower").client
        topic = self._image().topics_by_name[name]
        for _ in range(GROW_TRIES):
            try:
                code = await client.add_partition(topic)
            except NoAnswerError as error:
                self._history.on_no_answer(client.name, str(error))
                continue
            if code is ErrorCode.none:
                self._history.on_done(client.name, "topics grown", topic.name)
                break
            self._history.on_refusal(client.name, code.name)
            await asyncio.sleep(LOOK_S)
        else:
            self._history.on_done(client.name, "topics left as they are", f"{topic.name} after {GROW_TRIES} tries")
        client.close()

    def added_to(self, outcome: Outcome) -> Outcome:
        """An outcome with the figures of the group."""
        checker = self.checker
        return dataclasses.replace(
            outcome,
            told_partitions=checker.told,
            outdated_assignments=checker.outdated,
            unwitnessed_ends=checker.unwitnessed_ends,
            replayed_groups=checker.replays,
            member_commits=checker.commits,
        )

    def find_unstable(self, names: Collection[str] | None = None) -> list[str]:
        """The problems that remain before the group is whole, as sentences.

        Args:
            names: of the topics that members read; None: all that stay.
        """
        crew = self._crew
        assert crew is not None, "a run with a consumer group"
        members = list(crew.members.values())
        found = [f"{member.name} is not at its target" for member in members if not member.is_settled]
        if len(members) < crew.places or any(member.has_ended or member.is_stopping for member in members):
            found.append("not all members are there")
        if len({member.epoch for member in members}) > 1:
            found.append("members are in different epochs")
        sizes = [len(member.owned) for member in members]
        if crew.profile.assignor != "range" and sizes and max(sizes) - min(sizes) > 1:
            found.append(f"members own {sizes} partitions")
        owned = sorted(partition for member in members for partition in member.owned)
        if owned != (wanted := self._partitions_of(names) if names is not None else self._wanted()):
            found.append(f"members own {owned}, not {wanted}")
        return found

    def _wanted(self) -> list[TopicIdPartition]:
        """The partitions of the topics that stay."""
        return self._partitions_of(topic.name for topic in self._world.profile.topics)

    def _partitions_of(self, names: Iterable[str]) -> list[TopicIdPartition]:
        image = self._image()
        return sorted(
            TopicIdPartition(topic.topic_id, number)
            for topic in (image.topics_by_name[name] for name in names)
            for number in range(len(topic.partitions))
        )

    async def _look(self) -> None:
        """Hold coordinators against their logs until the end. Raises ViolationError: INV-GROUP-REPLAY."""
        while not self._is_over:
            await asyncio.sleep(LOOK_S)
            self.check_replay()

    def check_replay(self) -> None:
        """Hold the coordinator that leads in the newest epoch against its log, if nothing is on its way into that.

        Raises:
            ViolationError: INV-GROUP-REPLAY.
        """
        key, profile = self._key(), self._profile
        if key is None or profile is None:
            return
        found = find_at_rest(self._world, self._image(), self._replicas, key, probe.groups_at_rest)
        if found is not None:
            where, at_rest = found
            classic = at_rest.classic.find_committed(profile.name)
            self.checker.check_replay(
                where,
                profile.name,
                at_rest.groups.find_committed(profile.name),
                is_classic=classic is not None and classic.protocol_type is not None,
            )

    def _key(self) -> Key | None:
        topic = self._image().topics_by_name.get(OFFSETS_TOPIC)
        if topic is None or self._profile is None:
            return None
        return topic.topic_id, partition_for(self._profile.name, len(topic.partitions))

    def _topic_name(self, topic_id: TopicId) -> str | None:
        topic = self._image().topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _is_excused(self, _group_id: str) -> bool:
        key = self._key()
        return key is not None and self._replicas.is_excused(key)
