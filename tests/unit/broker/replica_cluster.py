"""Brokers joined by real servers on the simulated network, and a controller that is only as clever as a test needs it to be.

A broker here is what replication consists of: replicas, fetchers, handlers of Produce, Fetch and the like; no metadata log, no heartbeats.
The controller hands out images in order, each broker its own time later, and answers AlterPartition by the rules of ISR-7.
"""

import asyncio
import uuid
from dataclasses import replace
from random import Random
from types import SimpleNamespace

from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData, TopicData
from kio.schema.assign_replicas_to_dirs.v0 import response as types

from esp.broker.apis.fetch import FetchHandler
from esp.broker.apis.produce import ProduceHandler
from esp.broker.authorization.access import OpenAccess
from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.connection_limits import ConnectionLimits
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.connections.server import Server
from esp.broker.replication.host import ReplicaHost
from esp.broker.tasks import Tasks
from esp.broker.transactions.verifier import RetryBackoff, TransactionVerifier
from esp.broker.waiting import Waiters
from esp.controller.directories import NOWHERE
from esp.controller.image import BrokerImage, ClusterDelta, ClusterImage, TopicImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, BrokerEpoch, DirectoryId, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.ports.network import Address
from esp.protocol.registry import ApiKey, ListenerKind
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from esp.storage.layout import LOG_SUFFIX
from esp.storage.log_directory import LogDirectory
from esp.storage.meta_properties import MetaProperties
from tests.unit.broker.played_coordinators import PlayedCoordinators
from tests.unit.broker.scenarios import played
from tests.unit.broker.simulated_node import Client


class Controller:
    """The metadata, and who is told of it."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.image = ClusterImage()
        self.altered = []
        """All AlterPartition requests that came."""
        self.assigned = []
        self.answer_alter = None
        """A test's own answer to AlterPartition, by the request; None for the usual one."""
        self.delay_s = 0.001
        self.lossy = 0

    def publish(
        self, *, topics=None, brokers=None, changed=None, deleted=None, configs=frozenset(), broker_configs=frozenset()
    ):
        old = self.image
        topics = old.topics_by_id if topics is None else topics
        self.image = replace(
            old,
            offset=old.offset + 1,
            topics_by_id=topics,
            topics_by_name={topic.name: topic for topic in topics.values()},
            brokers=old.brokers if brokers is None else brokers,
        )
        changed_brokers = (
            frozenset(node for node in self.image.brokers if old.brokers.get(node) != self.image.brokers[node])
            if brokers is not None
            else frozenset()
        )
        delta = ClusterDelta(
            changed_partitions=changed or {},
            deleted_topics=deleted or {},
            changed_topic_configs=configs,
            changed_brokers=changed_brokers,
            changed_broker_configs=broker_configs,
        )
        for broker in self.cluster.brokers.values():
            broker.tell(self.image, delta)

    def full_delta(self):
        return ClusterDelta(
            changed_partitions={
                topic_id: frozenset(range(len(topic.partitions))) for topic_id, topic in self.image.topics_by_id.items()
            },
            changed_brokers=frozenset(self.image.brokers),
        )

    def register(self, broker, *, fenced=False):
        epoch = BrokerEpoch(self.image.offset + 100)
        image = BrokerImage(
            node_id=broker.node_id,
            incarnation_id=uuid.UUID(int=epoch),
            epoch=epoch,
            registration_offset=epoch,
            endpoints={"PLAINTEXT": broker.address},
            security_protocols={"PLAINTEXT": 0},
            features={},
            rack=broker.settings.broker_rack,
            fenced=fenced,
            in_controlled_shutdown=False,
            log_dirs=broker.directory_ids,
        )
        self.publish(brokers={**self.image.brokers, broker.node_id: image})
        return epoch

    def fence(self, node, *, fenced=True):
        self.publish(brokers={**self.image.brokers, node: replace(self.image.brokers[node], fenced=fenced)})

    def create(self, name="t", partitions=1, *, replicas=(1, 2, 3), leader=None, **configs):
        replicas = tuple(map(NodeId, replicas))
        topic_id = TopicId(uuid.UUID(int=self.image.offset + 1000))
        states = tuple(
            PartitionState(
                topic_id=topic_id,
                partition=number,
                replicas=replicas,
                isr=replicas,
                leader=NodeId(leader or replicas[number % len(replicas)]),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=0,
            )
            for number in range(partitions)
        )
        topic = TopicImage(
            name, topic_id, states, {key.replace("_", "."): str(value) for key, value in configs.items()}
        )
        self.publish(
            topics={**self.image.topics_by_id, topic_id: topic}, changed={topic_id: frozenset(range(partitions))}
        )
        return topic_id

    def state(self, name="t", partition=0):
        return self.image.topics_by_name[name].partitions[partition]

    def change(self, name="t", partition=0, **changes):
        """Change a partition: a new leader gets a new leader epoch, every change a new partition epoch."""
        topic = self.image.topics_by_name[name]
        old = topic.partitions[partition]
        if "leader" in changes:
            changes.setdefault("leader_epoch", LeaderEpoch(old.leader_epoch + 1))
        state = replace(old, partition_epoch=old.partition_epoch + 1, **changes)
        partitions = tuple(state if number == partition else each for number, each in enumerate(topic.partitions))
        topics = {**self.image.topics_by_id, topic.topic_id: replace(topic, partitions=partitions)}
        self.publish(topics=topics, changed={topic.topic_id: frozenset([partition])})
        return state

    def configure(self, name="t", **configs):
        topic = self.image.topics_by_name[name]
        changed = replace(
            topic, configs={**topic.configs, **{key.replace("_", "."): str(value) for key, value in configs.items()}}
        )
        self.publish(topics={**self.image.topics_by_id, topic.topic_id: changed}, configs=frozenset([topic.topic_id]))

    def configure_brokers(self, name="", **configs):
        """Give all brokers, or the one of that number, settings; None takes one away."""
        image = self.image
        known = dict(image.broker_configs.get(name, {}))
        for key, value in configs.items():
            known.pop(key.replace("_", "."), None)
            if value is not None:
                known[key.replace("_", ".")] = str(value)
        self.image = replace(image, broker_configs={**image.broker_configs, name: known})
        self.publish(broker_configs=frozenset([name]))

    def delete(self, name="t"):
        topic = self.image.topics_by_name[name]
        topics = {key: value for key, value in self.image.topics_by_id.items() if key != topic.topic_id}
        self.publish(topics=topics, deleted={topic.topic_id: topic})

    def fail_over(self, dead):
        """What a controller does when a broker's session ends (BRK-6)."""
        self.fence(dead)
        for name, topic in tuple(self.image.topics_by_name.items()):
            for state in topic.partitions:
                if dead in state.isr:
                    isr = tuple(node for node in state.isr if node != dead)
                    leader = {}
                    if state.leader == dead:
                        leader = {"leader": isr[0] if isr else NodeId(-1)}
                    if isr:
                        self.change(name, state.partition, isr=isr, **leader)

    # The calls of brokers (esp.broker.controller_client.channel.ControllerCalls).

    async def call(self, api_key, message, *, timeout_ms):
        await asyncio.sleep(self.delay_s)
        if self.lossy:
            self.lossy -= 1
            await asyncio.sleep(timeout_ms / 1000)
            raise ApiError(ErrorCode.request_timed_out)
        if api_key is ApiKey.ALTER_PARTITION:
            self.altered.append(message)
            answer = self.answer_alter(message) if self.answer_alter else self._alter(message)
        else:
            assert api_key is ApiKey.ASSIGN_REPLICAS_TO_DIRS
            self.assigned.append(message)
            answer = self._assign(message)
        await asyncio.sleep(self.delay_s)
        return answer

    def _alter(self, message):
        return AlterPartitionResponse(
            throttle_time=None,
            error_code=ErrorCode.none,
            topics=tuple(
                TopicData(
                    topic_id=topic.topic_id,
                    partitions=tuple(self._alter_one(message.broker_id, topic, part) for part in topic.partitions),
                )
                for topic in message.topics
            ),
        )

    def _alter_one(self, sender, topic, part):
        image = self.image.topics_by_id.get(topic.topic_id)
        code = ErrorCode.none
        if image is None:
            code = ErrorCode.unknown_topic_id
        else:
            state = image.partitions[part.partition_index]
            if part.leader_epoch < state.leader_epoch:
                code = ErrorCode.fenced_leader_epoch
            elif sender != state.leader:
                code = ErrorCode.invalid_request
            elif part.partition_epoch < state.partition_epoch:
                code = ErrorCode.invalid_update_version
            elif any(not self._is_eligible(member) for member in part.new_isr_with_epochs):
                code = ErrorCode.ineligible_replica
        if code is not ErrorCode.none:
            return PartitionData(
                partition_index=part.partition_index, error_code=code, leader_id=-1, leader_epoch=-1, partition_epoch=-1
            )
        isr = tuple(NodeId(member.broker_id) for member in part.new_isr_with_epochs)
        state = self.change(image.name, part.partition_index, isr=isr, recovering=part.leader_recovery_state == 1)
        return PartitionData(
            partition_index=part.partition_index,
            error_code=code,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=isr,
            leader_recovery_state=part.leader_recovery_state,
            partition_epoch=state.partition_epoch,
        )

    def _is_eligible(self, member):
        broker = self.image.brokers.get(member.broker_id)
        return broker is not None and broker.is_active and member.broker_epoch in (-1, broker.epoch)

    def _assign(self, message):
        for directory in message.directories:
            for topic in directory.topics:
                image = self.image.topics_by_id[topic.topic_id]
                for part in topic.partitions:
                    state = image.partitions[part.partition_index]
                    directories = list(state.directories or (UNASSIGNED_DIRECTORY,) * len(state.replicas))
                    # Of a replica that is nowhere the controller writes down that its log is lost (BRK-11).
                    place = LOST_DIRECTORY if directory.id_ == NOWHERE else DirectoryId(directory.id_)
                    directories[state.replicas.index(message.broker_id)] = place
                    self.change(image.name, part.partition_index, directories=tuple(directories))
        return types.AssignReplicasToDirsResponse(
            throttle_time=None,
            error_code=ErrorCode.none,
            directories=tuple(
                types.DirectoryData(
                    id_=directory.id_,
                    topics=tuple(
                        types.TopicData(
                            topic_id=topic.topic_id,
                            partitions=tuple(
                                types.PartitionData(partition_index=part.partition_index, error_code=ErrorCode.none)
                                for part in topic.partitions
                            ),
                        )
                        for topic in directory.topics
                    ),
                )
                for directory in message.directories
            ),
        )


class Broker:
    """One broker through its lives: the disk stays, the process does not."""

    def __init__(self, cluster, node_id, **settings):
        self.cluster = cluster
        self.node_id = NodeId(node_id)
        self.address = Address("127.0.0.1", 9000 + node_id)
        self.rng = Random(cluster.rng.random())
        self.disk = simulated_disk(cluster.loop, Random(self.rng.random()))
        self.settings = replace(
            BrokerSettings(node_id=self.node_id, log_dirs=("/data",), metadata_log_dir="/data"), **settings
        )
        self.process = None
        self.epoch = BrokerEpoch(-1)
        self.metadata_delay_s = 0.0
        self.directory_ids = ()
        self.directories = []

    async def start(self, **settings):
        self.settings = replace(self.settings, **settings)
        loop = self.cluster.loop
        self.process = loop.new_process(f"broker {self.node_id} at {loop.time():.3f}")
        self.env = simulated_env(loop, Random(self.rng.random()), self.process, self.disk, self.cluster.network)
        await self.process.run(self._start())

    async def _start(self):
        env, settings = self.env, self.settings
        tasks = self.tasks = Tasks(env.host)
        self._changes = asyncio.Queue()
        self._progress = Waiters(env.clock)
        self.directories = [LogDirectory.open_blocking(env.disk, path) for path in settings.log_dirs]
        for number, directory in enumerate(self.directories):
            if directory.meta is None:
                directory.format_blocking(
                    MetaProperties(
                        cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
                        node_id=self.node_id,
                        directory_id=DirectoryId(uuid.UUID(int=1000 * self.node_id + number)),
                    )
                )
        self.directory_ids = tuple(directory.meta.directory_id for directory in self.directories)
        self.metadata = MetadataCache("c", self.node_id)
        self.is_current = True
        """Whether the node is to believe that it knows who leads."""
        self.groups = None
        """Its coordinators of groups, where a test gives it any."""
        self.told_offline = []
        """The log directories that were offline each time one of them failed."""
        self.final_ends = []
        """The ends of logs of deleted partitions that the node has told of."""
        self.replicas = ReplicaHost(
            env,
            self.node_id,
            settings,
            self.directories,
            asyncio.Lock(),
            tasks,
            on_leading=lambda hosted: self.groups and self.groups.on_leading(hosted),
            on_directory_failed=lambda: self.told_offline.append(self.replicas.offline_directories),
            on_final_ends=self.final_ends.extend,
        )
        coordinators = self.cluster.coordinators
        verifier = TransactionVerifier(env.clock, tasks, coordinators, RetryBackoff(20, 100), lambda: True)
        services = self.services = SimpleNamespace(
            env=env,
            searches=asyncio.Semaphore(1),
            searching=env.cpu,
            node_id=self.node_id,
            settings=settings,
            metadata=self.metadata,
            replicas=self.replicas,
            controller=None,
            producer_ids=None,
            is_current=lambda: self.is_current,
            verifier=verifier,
            access=OpenAccess(),
        )
        dispatcher = Dispatcher(ListenerKind.BROKER, services, tasks, env.clock)
        long_requests = dispatcher.long_requests
        dispatcher.provide(
            services,
            {
                ApiKey.PRODUCE: ProduceHandler(services, tasks, long_requests).handle,
                ApiKey.FETCH: FetchHandler(services, tasks, long_requests).handle,
            },
        )
        self.server = Server(env, dispatcher, ConnectionLimits(10_000, 10_000, -1, 1 << 27))
        await self.server.listen("PLAINTEXT", self.address)
        controller = self.cluster.controller
        self.epoch = controller.register(self)
        await self.replicas.load(controller.image)
        while not self._changes.empty():
            self._changes.get_nowait()
        self.tell(controller.image, controller.full_delta())
        await self.replicas.tell_gone(controller, lambda: self.epoch)
        tasks.start(self._apply(), name="metadata")
        self.replicas.connect(controller, lambda: self.epoch)
        self.server.open()
        await self.applied()

    async def applied(self):
        """Return when this broker has applied the newest metadata."""
        offset = self.cluster.controller.image.offset
        while self.replicas.applied_offset < offset:
            await self._progress.wait(10_000_000)

    async def _apply(self):
        while True:
            image, delta = await self._changes.get()
            if self.metadata_delay_s:
                await asyncio.sleep(self.metadata_delay_s)
            before = self.metadata.image
            await self.replicas.apply(image, delta, self.metadata.publish)
            if self.groups is not None:
                self.groups.on_metadata(before, image, delta)
            self._progress.wake()

    def tell(self, image, delta):
        if self.process is not None and self.process.alive and hasattr(self, "_changes"):
            self._changes.put_nowait((image, delta))

    def kill(self, *, power=False):
        self.process.end("killed")
        if power:
            self.disk.power_loss()
        else:
            self.disk.crash()

    def hosted(self, topic="t", partition=0):
        return self.replicas.find(topic, partition)

    def log(self, topic="t", partition=0):
        return self.hosted(topic, partition).log

    def bytes_of(self, topic="t", partition=0):
        """All segments, one after another."""
        path = self.log(topic, partition).path
        return b"".join(
            bytes(self.disk.read_file(f"{path}/{name}"))
            for name in sorted(self.disk.listdir(path))
            if name.endswith(LOG_SUFFIX)
        )

    async def client(self):
        client = Client()
        client.connection = await self.cluster.network.connect(self.address, client.on_open, 1_000_000)
        return client


class Cluster:
    def __init__(self, loop, seed=0, count=3, **settings):
        self.loop = loop
        self.rng = Random(seed)
        self.network = SimulatedNetwork(loop, Random(self.rng.random()))
        self.brokers = {}
        self.controller = Controller(self)
        self.coordinators = PlayedCoordinators()
        for number in range(1, count + 1):
            self.brokers[number] = Broker(self, number, **settings)

    def __getitem__(self, number):
        return self.brokers[number]

    async def start(self):
        for broker in self.brokers.values():
            await broker.start()

    async def applied(self):
        """Return when every living broker has applied the newest metadata."""
        for broker in self.brokers.values():
            if broker.process.alive:
                await broker.applied()

    async def until(self, condition, *, within_s=10.0):
        """Return the seconds until ``condition()`` holds."""
        began = self.loop.time()
        while not condition():
            assert self.loop.time() - began < within_s, "it does not come about"
            await asyncio.sleep(0.001)
        return self.loop.time() - began

    def are_equal(self, topic="t", partition=0, among=(1, 2, 3)):
        if any(self[node].hosted(topic, partition) is None for node in among):  # it is being begun anew
            return False
        logs = [self[node].log(topic, partition) for node in among]
        return len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1 and (
            len({self[node].bytes_of(topic, partition) for node in among}) == 1
        )


def clustered(seed=0, count=3, *, limit_s=3600, **settings):
    """Make a test of a coroutine function whose first argument is a running cluster."""

    async def play(loop, scenario):
        cluster = Cluster(loop, seed, count, **settings)
        await cluster.start()
        await scenario(cluster)

    return played(play, limit_s=limit_s)
