"""The consumer groups of a run: sets them to work, lets them come to rest, and says whether all is well with them."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from esp.controller.image import ClusterImage
from esp.groups.partitioning import partition_for
from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicId, TopicPartition
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.checkers import probe
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.checkers.hold_checker import HoldChecker
from esp.simulation.checkers.offsets_log import OffsetsLog
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.nodes_tier.cluster import bootstrap_addresses
from esp.simulation.nodes_tier.expiry_profile import LAST_LAPSE_S, RETENTION_MINUTES, find_exempt
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload import share_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_client import GroupClient
from esp.simulation.workload.group_crew import CrewExpiry, GroupCrew
from esp.simulation.workload.group_dialects import CURRENT, GroupDialect
from esp.simulation.workload.history import History

STABLE_S: Final = 120.0
"""The time that groups may take in a cluster that is whole: a few rebalances, and clients that wait for nodes that never answer."""

LOOK_S: Final = 0.5
"""The interval at which it is looked for breaks of holds that are not told."""

_MINUTE_MS: Final = 60_000

Key = tuple[TopicId, int]
Until = Callable[[float, str, Callable[[], list[str]]], Awaitable[None]]


class Groups:
    """The crews of a run's consumer groups, and their checker.

    Args:
        world: the cluster in which they live.
        history: counts what clients met with.
        image: the newest committed metadata.
        replicas: knows what is committed of a partition, and whether it lost more than is promised.
    """

    def __init__(
        self, world: World, history: History, image: Callable[[], ClusterImage], replicas: ReplicaChecker
    ) -> None:
        self._world = world
        self._image = image
        self._replicas = replicas
        self._silences: list[tuple[Address, float]] = []
        self._by_host = {node.host: node for node in world.nodes.values()}
        profile = world.profile
        expiry = profile.groups.expiry
        names = [group.name for group in profile.groups.groups]
        self._exempt = () if expiry is None else find_exempt(names)
        self._consumers = None if profile.consumer_group is None else profile.consumer_group.name
        """The group of KIP-848, whose members are those of :class:`~esp.simulation.nodes_tier.consumer_groups.ConsumerGroups`."""
        self.offsets_log = OffsetsLog(
            world.loop.time,
            None if expiry is None else RETENTION_MINUTES * _MINUTE_MS,
            self._is_excused,
            (*names, self._consumers).__contains__,
            self._exempt.__contains__,
            self._generation_at,
        )
        self.checker = GroupChecker(world.loop.time, self._is_excused, self._is_committed, self.offsets_log.expired)
        self.holds = HoldChecker(self.checker.groups, self._is_excused, world.loop.time)
        """Sees what retention takes."""
        partitions = [
            TopicPartition(topic.name, number) for topic in profile.topics for number in range(topic.partitions)
        ]
        self._crews = [
            GroupCrew(
                group,
                partitions,
                world.random(f"crew of {group.name}"),
                history,
                self.checker,
                self.new_client,
                looks_closely=profile.asks_offsets,
                expiry=None if expiry is None else CrewExpiry(expiry, world.random(f"recesses of {group.name}")),
                dialects=world.random(f"releases in {group.name}") if profile.groups.has_old_clients else None,
            )
            for group in profile.groups.groups
        ]
        holders = profile.topics[0].configs.get("retention.hold.groups")
        self._holders = () if holders is None else tuple(holders.split(","))
        """The names of groups, and patterns, of the topics that groups hold."""
        self._is_over = False
        self._working: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Set all members to work."""
        if self._holders:
            self._world.spawn(self._look())
        for crew in self._crews:
            for place in range(crew.profile.members):
                self._working.append(self._world.spawn(crew.keep(place)))
            self._working.append(self._world.spawn(crew.look_on()))
            self._working.append(self._world.spawn(crew.take_recesses()))

    def on_committed(self, partition: TopicPartition, batches: Iterable[BatchView]) -> None:
        """Batches were seen to be committed for the first time. Raises ViolationError: INV-GROUP-EXPIRY."""
        self.offsets_log.on_committed(partition, batches)

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with what became of its groups."""
        return dataclasses.replace(
            outcome,
            group_commits=self.acked_commits,
            group_generations=self.generations,
            old_group_members=self.old_members,
            excused_groups=self.excused,
            expired_offsets=self.offsets_log.expiries,
            expired_answers=self.checker.expired_answers,
            unwitnessed_expiries=self.offsets_log.unwitnessed,
            held_partitions=len(self.holds.held),
            broken_holds=self.holds.breaks + self.holds.deletions + self.holds.topic_deletions,
        )

    def calm(self) -> None:
        """From now on nothing befalls members."""
        for crew in self._crews:
            crew.calm()

    def stop(self) -> None:
        """Let all members leave."""
        for crew in self._crews:
            crew.stop()

    async def end(self, until: Until, find_helpless: Callable[[], Collection[Key]], core: Collection[int]) -> None:
        """Wait until every group is whole, and let its members leave; the cluster has been whole since now.

        Args:
            until: waits for the end of problems, in seconds, else an invariant is violated.
            find_helpless: partitions that cannot have a leader.
            core: the nodes that have to answer.

        Raises:
            ViolationError: LIVE-GROUP, LIVE-NO-STUCK, LIVE-EXPIRY, INV-GROUP-OFFSETS.
        """
        whole_s = self._world.loop.time()
        await until(STABLE_S, "LIVE-GROUP", lambda: self.find_unstable(whole_s, find_helpless()))
        self.stop()
        await until(STABLE_S, "LIVE-NO-STUCK", self.find_running)
        reading = self._world.spawn(self._read_back(find_helpless()))
        await until(
            STABLE_S, "LIVE-GROUP", lambda: [] if reading.done() else ["no coordinator reports the committed offsets"]
        )
        if self._world.profile.groups.expiry is not None:
            self._world.lapse(LAST_LAPSE_S)
            expiring = [
                self._world.spawn(crew.await_expiry())
                for crew in self._readable(find_helpless())
                if crew.profile.name not in self._exempt
            ]
            await until(
                STABLE_S,
                "LIVE-EXPIRY",
                lambda: [
                    *([] if all(task.done() for task in expiring) else ["committed offsets do not expire"]),
                    *self._find_unexpired_consumers(find_helpless()),
                ],
            )
        await self._delete_holders(until, find_helpless(), core)
        await until(0, "LIVE-NO-STUCK", lambda: self.find_silent(whole_s, core))
        self._is_over = True

    async def _delete_holders(self, until: Until, given_up: Collection[Key], core: Collection[int]) -> None:
        """Delete the groups that hold records by their names, and have no members any more: then nothing holds these (HOLD-1)."""
        known = [crew.profile.name for crew in self._crews]
        known += [] if self._consumers is None else [self._consumers]
        names = [name for name in self._holders if name in known and self._key(name) not in given_up]
        deleting = [self._world.spawn(self._delete(name)) for name in names]
        await until(
            STABLE_S,
            "LIVE-NO-STUCK",
            lambda: [] if all(map(asyncio.Task.done, deleting)) else ["a group is not deleted"],
        )
        await until(STABLE_S, "LIVE-HOLD", lambda: self._find_forgotten_holds(names, core))

    async def _delete(self, group_id: str) -> None:
        self.holds.on_deleting(group_id)
        client = self.new_client(group_id, f"deleter of {group_id}")
        while True:
            with contextlib.suppress(NoAnswerError):
                reply = await client.call(
                    ApiKey.DELETE_GROUPS, share_requests.DELETE_GROUPS_VERSION, share_requests.delete_group(group_id)
                )
                code = reply.answer.results[0].error_code
                if reply.is_newest and code in (ErrorCode.none, ErrorCode.group_id_not_found):
                    client.client.close()
                    return
                client.forget_coordinator()
            await asyncio.sleep(LOOK_S)

    def _find_forgotten_holds(self, deleted: Collection[str], core: Collection[int]) -> list[str]:
        """The partitions whose leaders keep records for groups of which they know that they are gone, as sentences."""
        return [
            f"{place} keeps records for groups that were deleted"
            for node in self._world.nodes.values()
            if deleted and node.node_id in core and node.is_alive
            for place in probe.find_forgotten_holds(node, deleted, node.clock.wall_ms())
        ]

    async def _look(self) -> None:
        """See to it that breaks of holds are told, until the end, and note which are needed. Raises ViolationError: INV-HOLD."""
        while not self._is_over:
            await asyncio.sleep(LOOK_S)
            self.holds.look()
            for node in self._world.nodes.values():
                self.holds.held.update(probe.held_partitions(node))

    def _find_unexpired_consumers(self, given_up: Collection[Key]) -> list[str]:
        """The traces of the group of KIP-848, which has no members any more and whose time is over, as sentences."""
        if self._consumers is None or self._key(self._consumers) in given_up or self._is_excused(self._consumers):
            return []
        return self.offsets_log.find_left(self._consumers)

    def find_running(self) -> list[str]:
        """The groups that have not ended yet, as sentences."""
        is_over = all(task.done() for task in self._working) and all(crew.has_ended for crew in self._crews)
        return [] if is_over else ["a member of a group has not ended"]

    async def _read_back(self, given_up: Collection[Key]) -> None:
        """Ask for all offsets of groups whose partitions can have a leader."""
        for crew in self._readable(given_up):
            await crew.read_back()

    def _readable(self, given_up: Collection[Key]) -> list[GroupCrew]:
        """The crews of groups whose partitions can have a leader."""
        return [crew for crew in self._crews if self._key(crew.profile.name) not in given_up]

    def find_unstable(self, since_s: float, given_up: Collection[Key]) -> list[str]:
        """The problems that remain before LIVE-GROUP holds, as sentences.

        Args:
            since_s: since when the cluster has been whole.
            given_up: partitions that cannot have a leader.
        """
        return [
            f"{crew.profile.name}: {problem}"
            for crew in self._crews
            if self._key(crew.profile.name) not in given_up
            for problem in self._find_problems(crew, since_s)
        ]

    def find_silent(self, since_s: float, core: Collection[int]) -> list[str]:
        """Requests to the core that found no answer since a moment, as sentences."""
        return [
            f"{self._by_host[address.host].name} did not answer the request of {asked_s:.3f}"
            for address, asked_s in self._silences
            if asked_s >= since_s and self._by_host[address.host].node_id in core
        ]

    @property
    def acked_commits(self) -> int:
        """The number of offsets that were acknowledged."""
        return sum(group.acked for group in self.checker.groups.values())

    @property
    def generations(self) -> int:
        """The number of generations of which a member had the assignment."""
        return sum(len(group.generations) for group in self.checker.groups.values())

    @property
    def old_members(self) -> int:
        """The number of processes of members that were of older releases."""
        return sum(crew.old_members for crew in self._crews)

    @property
    def excused(self) -> int:
        """The number of groups that lost more than is promised."""
        return sum(self._is_excused(crew.profile.name) for crew in self._crews)

    def _find_problems(self, crew: GroupCrew, since_s: float) -> list[str]:
        found = []
        members = list(crew.members.values())
        if len(members) < crew.profile.members or not all(member.is_at_work for member in members):
            found.append("not all members have their assignments")
        if len({member.identity.generation_id for member in members}) > 1:
            found.append("members are of different generations")
        owned = sorted(partition for member in members for partition in member.positions)
        if members and owned != sorted(crew.partitions):
            found.append(f"members own {owned}")
        commits = self.checker.group(crew.profile.name).commits
        found.extend(
            f"nothing is committed for {partition}"
            for partition in crew.partitions
            if not any(since_s <= commit.sent_s and commit.is_acked for commit in commits.get(partition, ()))
        )
        return found

    def _key(self, group_id: str) -> Key | None:
        topic = self._image().topics_by_name.get(OFFSETS_TOPIC)
        return None if topic is None else (topic.topic_id, partition_for(group_id, len(topic.partitions)))

    def _is_excused(self, group_id: str) -> bool:
        key = self._key(group_id)
        return key is not None and self._replicas.is_excused(key)

    def _is_committed(self, group_id: str, metadata: str) -> bool:
        key = self._key(group_id)
        committed = self._replicas.of_partition(key) if key is not None else None
        if key is None or committed is None:
            return False
        return committed.holds_bytes(metadata.encode(), [view for _, view in self._replicas.replicas(key)])

    def _generation_at(self, partition: int, leader_epoch: int, group_id: str) -> int | None:
        """The generation of a group at its coordinator of an epoch, if that is still there."""
        found = (
            probe.group_generation(node, partition, leader_epoch, group_id)
            for node in self._world.nodes.values()
            if node.is_alive
        )
        return next((generation for generation in found if generation is not None), None)

    def _leading_epoch(self, group_id: str, address: Address) -> int | None:
        """See :data:`~esp.simulation.workload.group_client.LeadingEpoch`."""
        key = self._key(group_id)
        return None if key is None else self.leading_epoch(key, address)

    def leading_epoch(self, key: Key, address: Address) -> int | None:
        """The epoch in which a broker leads a partition, if it is the newest leader and knows that."""
        node = self._by_host[address.host]
        if not node.is_alive:
            return None
        topic = self._image().topics_by_id[key[0]]
        state = topic.partitions[key[1]]
        leads = any(
            hosted.name == TopicPartition(topic.name, key[1])
            and hosted.leader is not None
            and hosted.leader.leader_epoch == state.leader_epoch
            for hosted in probe.hosted_partitions(node)
        )
        return state.leader_epoch if leads and state.leader == node.node_id else None

    def new_client(self, group_id: str, name: str, dialect: GroupDialect = CURRENT) -> GroupClient:
        """A client of a group, under a name of its own."""
        world = self._world
        client = ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), name, world.random(f"client {name}")
        )
        return GroupClient(
            client,
            group_id,
            self._leading_epoch,
            lambda address, asked_s: self._silences.append((address, asked_s)),
            dialect,
        )
