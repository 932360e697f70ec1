"""The share groups of a run: sets their members to work, and waits in the end until all records are done with."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from esp.broker.share_states.coordinators import coordinator_key
from esp.controller.image import ClusterImage, TopicImage
from esp.groups.partitioning import partition_for
from esp.model.ids import OFFSETS_TOPIC, SHARE_STATES_TOPIC, TopicId, TopicPartition
from esp.ports.network import Address
from esp.records.batch import iterate_records
from esp.schemas.share_state_records import ShareStateKey
from esp.share.dead_letters import read_death
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.share_checker import ShareChecker
from esp.simulation.checkers.share_group_checker import ShareGroupChecker
from esp.simulation.checkers.share_state_log import ShareStateLog
from esp.simulation.checkers.shared_records import SharedRecords
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.cluster import addresses_of
from esp.simulation.nodes_tier.compaction_profile import COMPACTED
from esp.simulation.nodes_tier.groups import STABLE_S, Groups, Key, Until
from esp.simulation.nodes_tier.ledger import PASSING
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.nodes_tier.resting_coordinators import find_at_rest
from esp.simulation.nodes_tier.share_profile import LETTERS
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.history import History
from esp.simulation.workload.late_writes import LateWrites
from esp.simulation.workload.share_administrator import ShareAdministrator
from esp.simulation.workload.share_crew import ShareCrew

GROWING_S: Final = (2.0, 8.0)
"""The time between two partitions that are added."""

PARTITIONS_MAX: Final = 5

READ_IN_PASSING: Final = PASSING[:2]
"""The topics that come and go of which members read: not the one whose records may be lost by a setting."""

LOOK_S: Final = 0.25
"""The interval at which locks and coordinators are looked at."""


class ShareGroups:
    """The crews of a run's share groups, and their checker; nothing if the run has none.

    Args:
        world: the cluster in which they live.
        history: counts what clients met with.
        image: the newest committed metadata.
        replicas: knows what is committed of a partition, and whether it lost more than is promised.
        groups: makes clients of groups.
        on_found: told of violations that are found in the midst of a node's step.
    """

    def __init__(
        self,
        world: World,
        history: History,
        image: Callable[[], ClusterImage],
        replicas: ReplicaChecker,
        groups: Groups,
        on_found: Callable[[ViolationError], None],
    ) -> None:
        self._world = world
        self._history = history
        self._image = image
        self._replicas = replicas
        self._groups = groups
        self._profile = world.profile.share
        self._crews: list[ShareCrew] = []
        self._working: list[asyncio.Task[None]] = []
        self._late_writes: LateWrites | None = None
        self._is_over = self._is_calm = False
        self._known: tuple[tuple[str, TopicId], ...] = ()
        """The groups and topics of which all partitions had a state when it was last looked at."""
        self._sizes: dict[TopicId, int] = {}
        """The number of partitions of each topic then."""
        self._added: dict[ShareStateKey, None] = {}
        """Share partitions that came later."""
        self._letters: dict[ShareStateKey, dict[int, None]] = {}
        """The offsets that committed dead letters are about."""
        self._names: dict[TopicId, str] = {}
        """The names of the topics that the groups read, by their ids."""
        self.records = SharedRecords(
            lambda key: replicas.committed.get((key.topic_id, key.partition)),
            is_read_committed=self._profile is not None and self._profile.is_read_committed,
        )
        self.states = ShareStateLog(
            self._is_excused,
            lambda key: replicas.highest_log_starts.get((key.topic_id, key.partition), 0),
            self.records.find_missed,
        )
        self.checker = ShareChecker(
            self.states,
            world.loop.time,
            self._is_excused,
            self._leader_epoch,
            on_found,
            lambda check: world.loop.call_soon(check, context=world.context),
        )
        self.group_checker = ShareGroupChecker(self._is_group_excused, world.random("compaction of share groups"))
        self.checker.on_cut = self._on_cut
        self.checker.on_delivered = self.records.on_delivered

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what leaders deliver, in runs that have share groups."""
        if self._profile is None:
            yield
            return
        with self.checker.watched():
            yield

    def begin(self) -> None:
        """Set all members to work; the topics that stay are there."""
        profile = self._profile
        if profile is None:
            return
        self._names |= {topic.topic_id: topic.name for topic in self._topics()}
        for name in profile.names:
            administrator = ShareAdministrator(
                self._groups.new_client(name, f"administrator of {name}"),
                self._world.random(f"administrator of {name}"),
                self._history,
                self._topics,
                self._committed_end,
            )
            crew = ShareCrew(
                name,
                profile,
                self._names,
                self._world.random(f"crew of {name}"),
                self._history,
                self.checker,
                self._groups.new_client,
                administrator,
            )
            self._crews.append(crew)
            if profile.grows and name == profile.names[0]:
                self._working.append(self._world.spawn(self._grow(administrator)))
            self._working.append(self._world.spawn(self._work(crew, administrator)))
        self._world.spawn(self._look())
        if profile.has_late_writes:
            self._late_writes = LateWrites(
                self._groups.new_client("", "late writes of share states").client,
                self._world.random("late writes of share states"),
                self._history,
                self.checker.judge,
                self._leading_epoch,
            )
            self.checker.on_write = self._late_writes.on_sent
            self._working.append(self._world.spawn(self._late_writes.run()))

    async def _work(self, crew: ShareCrew, administrator: ShareAdministrator) -> None:
        assert self._profile is not None, "a run with share groups"
        if self._profile.has_letters:
            await administrator.make_queue(self._queue())
            copies = "true" if self._profile.copies_records else "false"
            await administrator.configure(
                {"errors.deadletterqueue.topic.name": LETTERS, "errors.deadletterqueue.copy.record.enable": copies}
            )
        if self._profile.is_read_committed:
            await administrator.configure({"share.isolation.level": "read_committed"})
        if self._profile.begins_at_earliest:
            await administrator.configure({"share.auto.offset.reset": "earliest"})
        keepers = [self._world.spawn(crew.keep(place)) for place in range(self._profile.members)]
        await crew.administer()
        for keeper in keepers:
            await keeper

    async def _grow(self, administrator: ShareAdministrator) -> None:
        """Give topics more partitions now and then."""
        rng = self._world.random("growing topics")
        while not self._is_calm:
            await asyncio.sleep(rng.uniform(*GROWING_S))
            names = [one.name for one in self._world.profile.topics if one.name != COMPACTED]
            topics = [self._image().topics_by_name[name] for name in names]
            small = [topic for topic in topics if len(topic.partitions) < PARTITIONS_MAX]
            if small and not self._is_calm:
                await administrator.grow(rng.choice(small))

    def _queue(self) -> TopicProfile:
        """The dead-letter queue: as safe as the records."""
        like = self._world.profile.topics[0]
        return dataclasses.replace(
            like, name=LETTERS, partitions=2, configs={"errors.deadletterqueue.group.enable": "true"}
        )

    async def _look(self) -> None:
        """Look at locks, records, coordinators and topics until the end.

        Raises:
            ViolationError: INV-SHARE-LOCK, INV-SHARE-COMMITTED, INV-GROUP-REPLAY.
        """
        while not self._is_over:
            await asyncio.sleep(LOOK_S)
            self.checker.look()
            self.records.look()
            self.check_replay()
            if self._profile is not None and self._profile.reads_passing:
                self._look_for_topics()
            self._look_for_partitions()

    def check_replay(self) -> None:
        """Hold the coordinators of the groups, and of their states, against their logs, if nothing is on its way into these.

        Raises:
            ViolationError: INV-GROUP-REPLAY.
        """
        image = self._image()
        for crew in self._crews:
            key = self._group_key(crew.group_id)
            groups = (
                None if key is None else find_at_rest(self._world, image, self._replicas, key, probe.groups_at_rest)
            )
            if groups is not None:
                where, groups_at_rest = groups
                self.group_checker.check_replay(
                    where, crew.group_id, groups_at_rest.shares.find_committed(crew.group_id)
                )
        topic = image.topics_by_name.get(SHARE_STATES_TOPIC)
        for key in [] if topic is None else [(topic.topic_id, number) for number in range(len(topic.partitions))]:
            states = find_at_rest(self._world, image, self._replicas, key, probe.share_states_at_rest)
            if states is not None and not self._replicas.is_excused(key):
                where, states_at_rest = states
                self.states.check_replay(where, key[1], states_at_rest.states)

    def _look_for_partitions(self) -> None:
        """Partitions that are added to a topic which a group knows begin with their first records (KAFKA-20742).

        Raises:
            ViolationError: INV-SHARE-LOSS.
        """
        profile = self._profile
        if profile is None or profile.recess_s is not None:  # an administrator lets groups forget topics
            return
        topics = self._topics()
        for group_id, topic_id in self._known:
            for topic in topics:
                if topic.topic_id == topic_id:
                    numbers = range(self._sizes[topic_id], len(topic.partitions))
                    self._added |= {ShareStateKey(group_id, topic_id, number): None for number in numbers}
        for key in self._added:
            first = self.states.first_life(key)
            if first is not None and first.begin_offset != 0 and not self._is_excused(key):
                raise ViolationError(
                    "INV-SHARE-LOSS",
                    f"{key}",
                    f"it was added to a topic of the group, and begins at {first.begin_offset}",
                )
        self._sizes = {topic.topic_id: len(topic.partitions) for topic in topics}
        self._known = tuple(
            (name, topic.topic_id)
            for name in profile.names
            for topic in topics
            if all(
                self.states.first_life(ShareStateKey(name, topic.topic_id, number)) is not None
                for number in range(len(topic.partitions))
            )
        )

    def _look_for_topics(self) -> None:
        """Let members read the topics that are there now, of those that come and go; members end with those that go for good."""
        image = self._image()
        for name in READ_IN_PASSING:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                self._names[topic.topic_id] = name

    def on_committed(self, partition: TopicPartition, batches: Iterable[BatchView]) -> None:
        """Batches were seen to be committed for the first time. Raises ViolationError: INV-SPSO, INV-SHARE-FENCE, INV-SHARE-LOSS."""
        if self._profile is not None and partition.topic == SHARE_STATES_TOPIC:
            self.states.on_committed(partition.partition, batches)
        elif self._profile is not None and partition.topic == OFFSETS_TOPIC:
            self.group_checker.on_committed(batches)
        elif self._profile is not None and partition.topic == LETTERS:
            self._on_letters(batches)

    def _on_letters(self, batches: Iterable[BatchView]) -> None:
        for batch in batches:
            for record in iterate_records(batch.written()):
                death = read_death(record.headers)
                assert death is not None, f"records of the queue are letters: {record}"
                topic = self._image().topics_by_name.get(death.topic)
                if topic is None:  # a topic that comes and goes, about which no letters are asked for
                    continue
                key = ShareStateKey(death.group_id, topic.topic_id, death.partition)
                self._letters.setdefault(key, {})[death.offset] = None

    def avoid(self, brokers: Collection[int]) -> None:
        """Members read nothing from these any more, which stay away for good."""
        avoided = frozenset(addresses_of(brokers))
        for crew in self._crews:
            crew.avoid(avoided)

    def end_sessions_of(self, group_id: str, member_id: str, *, dies: bool) -> None:
        """See :meth:`~esp.simulation.workload.share_crew.ShareCrew.end_sessions_of`."""
        for crew in self._crews:
            if crew.group_id == group_id:
                crew.end_sessions_of(member_id, dies=dies)

    def calm(self) -> None:
        """From now on nothing befalls members, and they accept everything."""
        self._is_calm = True
        for crew in self._crews:
            crew.calm()
        if self._late_writes is not None:
            self._late_writes.is_stopping = True

    async def end(self, until: Until, find_helpless: Callable[[], Collection[Key]]) -> None:
        """Wait until every record is done with, and let members leave; the cluster has been whole since now.

        Args:
            until: waits for the end of problems, in seconds, else an invariant is violated.
            find_helpless: partitions that cannot have a leader.

        Raises:
            ViolationError: INV-SHARE-LOSS, INV-SHARE-LETTER, LIVE-NO-STUCK.
        """
        if self._profile is None:
            return
        await until(STABLE_S, "INV-SHARE-LOSS", lambda: self.find_open(find_helpless()))
        if self._profile.is_set_back:
            tasks = [self._world.spawn(crew.begin_again()) for crew in self._crews]
            await until(
                STABLE_S,
                "LIVE-NO-STUCK",
                lambda: [] if all(task.done() for task in tasks) else ["a share group is not set back"],
            )
            await until(STABLE_S, "INV-SHARE-LOSS", lambda: self.find_open(find_helpless()))
        await until(STABLE_S, "INV-SHARE-LETTER", lambda: self.find_unreported(find_helpless()))
        for crew in self._crews:
            crew.stop()
        await until(STABLE_S, "LIVE-NO-STUCK", self._find_running)
        self._is_over = True

    def find_open(self, helpless: Collection[Key]) -> list[str]:
        """The share partitions with records that are not done with, as sentences."""
        found = []
        for crew in self._crews:
            group_key = self._group_key(crew.group_id)
            if group_key is None:
                found.append(f"{crew.group_id} has no coordinator")
                continue
            if group_key in helpless or self._replicas.is_excused(group_key):
                continue
            for topic in self._topics():
                for number in range(len(topic.partitions)):
                    key = ShareStateKey(crew.group_id, topic.topic_id, number)
                    if self._is_helpless(key, helpless):
                        continue
                    first, end = self.states.first_open(key), self._committed_end(topic.topic_id, number)
                    if first < end:
                        found.append(f"{crew.group_id} is at {first} of {end} in {topic.name}-{number}")
        return found

    def find_unreported(self, helpless: Collection[Key]) -> list[str]:
        """The records that are done with and have no dead letter, though they need one, as sentences."""
        if self._profile is None or not self._profile.has_letters:
            return []
        found = []
        topic_ids = {topic.topic_id for topic in self._topics()}
        for key in self.states.keys:
            if key.topic_id not in topic_ids:
                continue
            letters_key = self._letters_key(key)
            if letters_key is not None and self._replicas.is_excused(letters_key):
                continue
            missing = self.states.find_unreported(key, self._letters.get(key, {}))
            if missing and not self._is_helpless(key, helpless):
                found.append(f"there are no letters about {missing} of {key}")
        return found

    def _is_helpless(self, key: ShareStateKey, helpless: Collection[Key]) -> bool:
        """True if more was lost than is promised, or a partition that is needed cannot have a leader."""
        places = [(key.topic_id, key.partition), self._states_key(key), self._letters_key(key)]
        return self._is_excused(key) or any(place in helpless for place in places)

    def _letters_key(self, key: ShareStateKey) -> Key | None:
        topic = self._image().topics_by_name.get(LETTERS)
        return None if topic is None else (topic.topic_id, key.partition % len(topic.partitions))

    def _find_running(self) -> list[str]:
        is_over = all(task.done() for task in self._working) and all(crew.has_ended for crew in self._crews)
        return [] if is_over else ["a member of a share group has not ended"]

    def added_to(self, outcome: Outcome) -> Outcome:
        """An outcome with the figures of the groups."""
        checker = self.checker
        return dataclasses.replace(
            outcome,
            shared_records=checker.delivered,
            shared_again=checker.delivered_again,
            shared_done=checker.accepted,
            shared_passed=self.states.passed,
            replaced_share_leaders=checker.replaced,
            replayed_share_groups=self.group_checker.replays,
            replayed_share_states=self.states.replays,
        )

    # What the checkers ask.

    def _on_cut(self, topic_id: TopicId, partition: int, offset: int) -> None:
        """A share coordinator is about to cut its log; judged when all is seen that this turn has committed."""
        self._world.loop.call_soon(self._judge_cut, topic_id, partition, offset)
        self._replicas.log_starts.on_asked((topic_id, partition), offset)

    def _judge_cut(self, topic_id: TopicId, partition: int, offset: int) -> None:
        """Raises ViolationError: INV-SHARE-CUT."""
        needed = self.states.needed_from(partition)
        if needed is not None and offset > needed and not self._replicas.is_excused((topic_id, partition)):
            raise ViolationError(
                "INV-SHARE-CUT", f"{SHARE_STATES_TOPIC}-{partition}", f"it is cut at {offset}, and {needed} is needed"
            )

    def _topics(self) -> list[TopicImage]:
        """The topics that the groups read to their ends: those that stay."""
        image = self._image()
        return [image.topics_by_name[one.name] for one in self._world.profile.every_topic]

    def _committed_end(self, topic_id: TopicId, partition: int) -> int:
        committed = self._replicas.committed.get((topic_id, partition))
        return 0 if committed is None else committed.end_offset

    def _leader_epoch(self, key: ShareStateKey) -> int:
        topic = self._image().topics_by_id.get(key.topic_id)
        return topic.partitions[key.partition].leader_epoch if topic is not None else 0

    def _group_key(self, group_id: str) -> Key | None:
        topic = self._image().topics_by_name.get(OFFSETS_TOPIC)
        return None if topic is None else (topic.topic_id, partition_for(group_id, len(topic.partitions)))

    def _states_key(self, key: ShareStateKey) -> Key | None:
        topic = self._image().topics_by_name.get(SHARE_STATES_TOPIC)
        return None if topic is None else (topic.topic_id, partition_for(coordinator_key(key), len(topic.partitions)))

    def _leading_epoch(self, key: ShareStateKey, address: Address) -> int | None:
        """See :class:`~esp.simulation.workload.late_writes.LateWrites`."""
        states_key = self._states_key(key)
        return None if states_key is None else self._groups.leading_epoch(states_key, address)

    def _is_group_excused(self, group_id: str) -> bool:
        key = self._group_key(group_id)
        return key is not None and self._replicas.is_excused(key)

    def _is_excused(self, key: ShareStateKey) -> bool:
        states_key = self._states_key(key)
        group_key = self._group_key(key.group_id)
        places = ((key.topic_id, key.partition), states_key, group_key)
        return any(place is not None and self._replicas.is_excused(place) for place in places)
