"""All clients of a run: made from the profile, set to work on topics, told to stop."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import INTERNAL_TOPICS, NodeId, TopicId, TopicPartition
from esp.ports.network import Address
from esp.records.batch_header import read_header
from esp.simulation.checkers.client_checker import ClientChecker
from esp.simulation.checkers.durable_log_start import find_durable_log_start
from esp.simulation.checkers.log_start_checker import LogStartChecker
from esp.simulation.checkers.told_offsets import ToldOffsets
from esp.simulation.nodes_tier.cluster import (
    CLIENT_HOST,
    CONTROLLER_PORT,
    addresses_of,
    bootstrap_addresses,
    node_host,
    node_rack,
)
from esp.simulation.nodes_tier.compaction_profile import COMPACTED
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.ledger import GUARDED_TOPICS, PASSING, SURVEYED
from esp.simulation.nodes_tier.log_start_profile import find_exact_holders
from esp.simulation.nodes_tier.nudges import Nudges
from esp.simulation.nodes_tier.profile import Profile, TopicProfile
from esp.simulation.nodes_tier.share_profile import LETTERS
from esp.simulation.nodes_tier.transaction_profile import TRANSACTIONAL_TOPIC
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.admin import BOUNDING, HOLDING, MIXING, RECREATING, RESTORING, Administrator
from esp.simulation.workload.batch_mark import BatchMark
from esp.simulation.workload.budget import RepairBudget
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.consumer import Consumer
from esp.simulation.workload.directory_mover import DirectoryMover
from esp.simulation.workload.drainer import Drainer
from esp.simulation.workload.history import History, SentBatch
from esp.simulation.workload.minimum_setter import MinimumSetter
from esp.simulation.workload.mistaken_client import MistakenClient
from esp.simulation.workload.mover import PartitionMover
from esp.simulation.workload.offset_asker import OffsetAsker
from esp.simulation.workload.policy_setter import PolicySetter
from esp.simulation.workload.producer import ALL, KeyDraws, Producer
from esp.simulation.workload.quorum_admin import QuorumAdministrator
from esp.simulation.workload.record_deleter import RecordDeleter
from esp.simulation.workload.surveyor import Surveyor
from esp.simulation.workload.throttler import KEPT_RATES, ReplicationThrottler
from esp.simulation.workload.upgrader import Upgrader
from esp.simulation.workload.witness import Witness

CREATION_TRIES: Final = 20
CREATION_BACKOFF_S: Final = 0.5

MUCH_LOAD_S: Final = 1.0
"""Producers that pause for less than this between batches leave much to be copied."""


def _leaves_much(profile: Profile) -> bool:
    """True if replicas may have much to copy at the end: under much load, or of what they missed while an outage lasted."""
    return profile.pause_between_batches_s < MUCH_LOAD_S or profile.outage is not None


EAGER_SHARE: Final = 0.5
"""The part of the producers that do not wait for their first acknowledgement."""


class Clients:
    """All clients of a run, and the connections between them and the checkers.

    Args:
        world: where they live.
        checker: told of what they are told.
        told: told of the offsets that they are told.
        log_starts: told of what is to be deleted, and where logs are said to start.
        image: the newest committed metadata.
        is_retired: whether a batch of a partition, by its mark, was committed and is below a log start.
    """

    def __init__(
        self,
        world: World,
        checker: ClientChecker,
        told: ToldOffsets,
        log_starts: LogStartChecker,
        image: Callable[[], ClusterImage],
        is_retired: Callable[[tuple[TopicId, int], BatchMark], bool],
    ) -> None:
        self.history = History(world.trace.say)
        self._world = world
        self._image = image
        self._checker = checker
        self._told = told
        self._log_starts = log_starts
        self._made: list[ClusterClient] = []
        profile = world.profile
        self.producers = [
            self._producer(number, is_retired)
            for number in range(profile.idempotent_producers + profile.plain_producers)
        ]
        self.consumers = [self._consumer(number, checker) for number in range(profile.consumers)]
        self.administrator = self._administrator()
        self.final_reader = self._consumer(profile.consumers, checker)
        self.quorum_administrator = QuorumAdministrator(
            self._client("quorum administrator"),
            world.random("quorum administrator"),
            self.history,
            [(number, Address(node_host(number), CONTROLLER_PORT)) for number in profile.layout.controllers],
        )
        self.mover = PartitionMover(
            self._client("mover"),
            world.random("mover"),
            self.history,
            [NodeId(number) for number in profile.layout.brokers],
            image,
            is_patient=profile.repairs is not None and profile.repairs.movers_wait,
        )
        self.throttler = ReplicationThrottler(
            self._client("throttler"),
            world.random("throttler"),
            self.history,
            image,
            kept_rate=KEPT_RATES[_leaves_much(profile)],
        )
        self.drainer = self._drainer()
        self.budget = RepairBudget(self._client("budget"), self.history)
        self.surveyor = self._surveyor()
        self.asker = self._asker("asker")
        asks_former = FaultKind.LONG_OSTRACISM in world.profile.fault_means_s
        self._former_asker = self._asker("asker of former leaders") if asks_former else None
        self.record_deleter = self._record_deleter()
        self.minimum_setter = self._minimum_setter()
        self.policy_setter = PolicySetter(
            COMPACTED, self._client("policy setter"), self._world.random("policy setter"), self.history
        )
        self.upgrader = self._upgrader()
        self.directory_mover = self._directory_mover()
        self.mistaken = self._mistaken_client()
        self._topics: dict[TopicId, int] = {}
        """The number of partitions of each topic that have producers and readers."""

    def administer(self) -> "list[asyncio.Task[None]]":
        """Set those administrators to work that the profile has."""
        profile = self._world.profile
        working = []
        if profile.administrators:
            working.append(self._world.spawn(self.administrator.run()))
        if profile.layout.changes_voters:
            working.append(self._world.spawn(self.quorum_administrator.run()))
        if profile.moves_partitions:
            working.append(self._world.spawn(self.mover.run()))
        if profile.repairs is not None and profile.repairs.drains:
            working.append(self._world.spawn(self.drainer.run()))
        if profile.repairs is not None and profile.repairs.held_back_bytes_per_s is not None:
            working.append(self._world.spawn(self.budget.run(profile.repairs.bytes_per_s)))
        if profile.log_starts is not None and profile.log_starts.deletes_records:
            working.append(self._world.spawn(self.record_deleter.run()))
        if profile.isr.changes_minimums:
            working.append(self._world.spawn(self.minimum_setter.run()))
        if profile.compaction is not None and profile.compaction.changes_policy:
            working.append(self._world.spawn(self.policy_setter.run()))
        if profile.throttles:
            working.append(self._world.spawn(self.throttler.run()))
        if profile.surveys:
            working.append(self._world.spawn(self.surveyor.run()))
        if profile.mistakes:
            working.append(self._world.spawn(self.mistaken.run()))
        if profile.moves_directories:
            working.append(self._world.spawn(self.directory_mover.run()))
        if self.upgrader is not None:
            working.append(self._world.spawn(self.upgrader.run()))
        return working

    async def create_topic(self, topic: TopicProfile) -> bool:
        """Create a topic, if need be with many tries; returns whether it is there."""
        for _ in range(CREATION_TRIES):
            try:
                await self.administrator.create(topic)
            except (NoAnswerError, RefusedError):
                await asyncio.sleep(CREATION_BACKOFF_S)
            else:
                return True
        return False

    def begin_topic(self, topic: TopicImage) -> None:
        """Produce to and read from all partitions of a topic; again when it has more."""
        begun = self._topics.get(topic.topic_id, 0)
        if topic.name in {*INTERNAL_TOPICS, SURVEYED, TRANSACTIONAL_TOPIC, LETTERS, *GUARDED_TOPICS}:
            return
        self._topics[topic.topic_id] = len(topic.partitions)
        for partition in range(begun, len(topic.partitions)):
            for producer in self.producers:
                if topic.name == COMPACTED and not producer.is_idempotent:
                    continue  # two tombstones of one key are alike but for their sequences
                self._world.spawn(producer.run(topic.name, topic.topic_id, partition))
            for consumer in self.consumers:
                self._world.spawn(consumer.run(topic.name, topic.topic_id, partition))
            if self._world.profile.asks_offsets and topic.name != COMPACTED:  # it knows of no records that go
                self._world.spawn(self.asker.run(topic.name, topic.topic_id, partition))
                if self._former_asker is not None:
                    self._world.spawn(self._former_asker.ask_former_leaders(topic.name, topic.topic_id, partition))

    def calm(self) -> None:
        """The faults are over: ask for nothing more but records, and believe no broker that lags behind what is known."""
        for client in self._made:
            client.keeps_epochs = True
        self._stop_administrators()

    def avoid(self, brokers: Collection[int]) -> None:
        """Ask these no more where any broker will do: they stay away for good, and chance alone would take long to find another."""
        avoided = frozenset(addresses_of(brokers))
        for client in self._made:
            client.avoided = avoided

    def stop(self) -> None:
        """Begin nothing more."""
        for producer in self.producers:
            producer.is_stopping = True
        for consumer in self.consumers:
            consumer.is_stopping = True
        self.asker.is_stopping = True
        if self._former_asker is not None:
            self._former_asker.is_stopping = True
        self._stop_administrators()

    def _stop_administrators(self) -> None:
        self.administrator.is_stopping = True
        self.quorum_administrator.is_stopping = True
        self.mover.is_stopping = True
        self.throttler.is_stopping = True
        self.minimum_setter.is_stopping = True
        self.policy_setter.is_stopping = True
        self.drainer.is_stopping = True
        self.budget.stop()
        self.surveyor.is_stopping = True
        self.mistaken.is_stopping = True
        self.record_deleter.is_stopping = True
        self.directory_mover.is_stopping = True
        if self.upgrader is not None:
            self.upgrader.is_stopping = True

    @property
    def doubtful_minimums(self) -> dict[str, int]:
        """By topic, a minimum of in-sync replicas that was asked for and may still come into force."""
        found = dict(self.administrator.doubtful_minimums)
        for name, minimum in self.minimum_setter.doubtful_minimums.items():
            found[name] = max(minimum, found.get(name, 0))
        return found

    @property
    def pending_batches(self) -> int:
        """The number of batches with an unknown fate and a producer that still tries."""
        return sum(producer.pending_batches for producer in self.producers)

    def _on_ack(self, batch: SentBatch) -> None:
        self._checker.on_ack(batch)
        if batch.acks == ALL and batch.base_offset is not None:
            key = (batch.topic_id, batch.partition)
            self._told.on_ack(key, batch.base_offset + batch.record_count)
            self._told.on_record(key, read_header(batch.data).base_timestamp, batch.base_offset)

    def _find_dead(self) -> int | None:
        nodes = self._world.nodes
        return next((number for number in self._world.profile.layout.brokers if not nodes[number].is_alive), None)

    def _find_eligible(self) -> TopicImage | None:
        topics = self._image().topics_by_name
        passing = [topics[name] for name in PASSING if name in topics]
        return next((topic for topic in passing if any(state.elr for state in topic.partitions)), None)

    def _drainer(self) -> Drainer:
        layout = self._world.profile.layout
        return Drainer(
            self._client("drainer"),
            self._world.random("drainer"),
            self.history,
            list(zip(layout.brokers, bootstrap_addresses(layout), strict=True)),
        )

    def _surveyor(self) -> Surveyor:
        profile = self._world.profile
        return Surveyor(
            self._client("surveyor"),
            self._world.random("surveyor"),
            self.history,
            self._image,
            profile.topics[0],
            [Address(node_host(number), CONTROLLER_PORT) for number in profile.layout.controllers],
        )

    def _mistaken_client(self) -> MistakenClient:
        return MistakenClient(
            self._client("mistaken client"),
            self._world.random("mistaken client"),
            self.history,
            self._image,
            [Address(node_host(number), CONTROLLER_PORT) for number in self._world.profile.layout.controllers],
            self._world.profile.changing_topics,
        )

    def _client(self, name: str) -> ClusterClient:
        client = ClusterClient(
            self._world.client_network(),
            bootstrap_addresses(self._world.profile.layout),
            name,
            self._world.random(f"client {len(self._made) + 1}"),
        )
        self._made.append(client)
        return client

    def _asker(self, name: str) -> OffsetAsker:
        world = self._world
        return OffsetAsker(
            self._client(name),
            world.random(name),
            self.history,
            self._told,
            self._checker.on_read,
            Witness(world.nodes.values()).look,
            [node_rack(number) for number in world.profile.layout.brokers],
            is_spoilt=self._is_spoilt,
        )

    def _record_deleter(self) -> RecordDeleter:
        return RecordDeleter(
            self._client("record deleter"),
            self._world.random("record deleter"),
            self.history,
            self._image,
            self._log_starts,
            self._find_durable_start,
        )

    def _find_durable_start(self, node_id: int, name: TopicPartition, leader_epoch: int) -> int | None:
        return find_durable_log_start(self._world.nodes[node_id], name, leader_epoch)

    def _administrator(self) -> Administrator:
        profile = self._world.profile
        return Administrator(
            self._client("administrator"),
            self._world.random("administrator"),
            self.history,
            replicas_max=min(3, len(profile.layout.brokers) - (profile.repairs is not None)),
            find_dead=self._find_dead,
            find_eligible=self._find_eligible,
            forgetting=self._world.random("administrator that forgets"),
            nudges=Nudges(self._world, self._image),
            recreating=self._world.random(RECREATING),
            restoring=self._world.random(RESTORING),
            bounding=self._world.random(BOUNDING),
            mixing=self._world.random(MIXING),
            holding=self._world.random(HOLDING),
            holders=find_exact_holders(profile.topics[0].configs),
        )

    def _is_spoilt(self, batch: memoryview) -> bool:
        return self._world.network.flips.excuses(CLIENT_HOST, batch)

    def _minimum_setter(self) -> MinimumSetter:
        profile = self._world.profile
        settings = self._world.nodes[profile.layout.brokers[0]].settings
        return MinimumSetter(
            self._client("minimum setter"),
            self._world.random("minimum setter"),
            self.history,
            profile.topics,
            default=settings.min_insync_replicas,
            by_default=profile.isr.by_default,
            image=self._image,
        )

    def _upgrader(self) -> Upgrader | None:
        world = self._world
        if world.profile.upgrade is None:
            return None
        return Upgrader(
            self._client("upgrader"),
            world,
            world.random("upgrader"),
            self.history,
            self._image,
            world.profile.upgrade,
        )

    def _producer(self, number: int, is_retired: Callable[[tuple[TopicId, int], BatchMark], bool]) -> Producer:
        profile = self._world.profile
        is_idempotent = number < profile.idempotent_producers
        eager = self._world.random(f"eagerness of producer {number}")
        return Producer(
            self._client(f"{'idempotent' if is_idempotent else 'plain'}-{number}"),
            self._world.random(f"producer {number}"),
            self.history,
            self._on_ack,
            lambda batch: is_retired((batch.topic_id, batch.partition), batch.mark),
            pause_s=profile.pause_between_batches_s,
            is_idempotent=is_idempotent,
            eager=eager if eager.random() < EAGER_SHARE else None,
            keys=self._keys(number),
        )

    def _keys(self, number: int) -> KeyDraws | None:
        compaction = self._world.profile.compaction
        if compaction is None:
            return None
        rng = self._world.random(f"keys of producer {number}")
        return KeyDraws(rng, compaction.keys, compaction.tombstone_share)

    def _directory_mover(self) -> DirectoryMover:
        layout = self._world.profile.layout
        return DirectoryMover(
            self._client("directory mover"),
            self._world.random("directory mover"),
            self.history,
            self._image,
            dict(zip(layout.brokers, bootstrap_addresses(layout), strict=True)),
        )

    def _consumer(self, number: int, checker: ClientChecker) -> Consumer:
        return Consumer(
            self._client(f"consumer-{number}"),
            self._world.random(f"consumer {number}"),
            self.history,
            checker.on_read,
            self._log_starts.on_told,
            is_spoilt=self._is_spoilt,
        )
