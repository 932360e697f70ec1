"""A controller on a quorum that says yes when the test says so, for tests of what it decides and when. Nothing is on a disk."""

import asyncio
from dataclasses import dataclass, field, replace
from random import Random

from esp.broker.controller.config import controller_config
from esp.broker.controller.driver import ControllerDriver
from esp.broker.raft.loader import MetadataLoader
from esp.broker.tasks import Tasks
from esp.controller.brokers import BrokerRegistration
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.heartbeats import Heartbeat
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_BROKER_EPOCH, NodeId
from esp.ports.network import Address
from esp.raft.member import LeaderContact
from esp.schemas.metadata_frames import decode_record
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from tests.unit.broker.decisions import create_topics
from tests.unit.broker.scenarios import played
from tests.unit.controller.samples import accept_configs, directory

CLUSTER_ID = "cluster"
CONTROLLER = NodeId(100)


@dataclass
class FakeQuorum:
    """A quorum of which this node is told to be the leader; ``held`` keeps what is proposed uncommitted."""

    epoch: int = 0
    leader: NodeId | None = None
    leader_contact: LeaderContact | None = None
    is_active: bool = False
    next_offset: int = 0
    has_followers: bool = True
    held: bool = False
    high_watermark: int = 0
    records: list = field(default_factory=list)
    batches: list = field(default_factory=list)

    def __post_init__(self):
        self.callbacks = []
        self.waiting = []
        self.loader = None

    def on_leadership(self, callback):
        self.callbacks.append(callback)

    def propose(self, values):
        assert self.is_active
        self.batches.append([decode_record(value) for value in values])
        self.records += self.batches[-1]
        self.next_offset += len(values)
        if not self.held:
            asyncio.get_running_loop().call_soon(self.commit)

    def commit(self):
        """Everything that was proposed is committed, if this node still leads."""
        if self.is_active:
            self.high_watermark = self.next_offset
            self.loader.commit_proposed(self.high_watermark)
            for offset, future in self.waiting:
                if offset <= self.high_watermark and not future.done():
                    future.set_result(None)

    async def committed(self, offset):
        if not self.is_active:
            raise ApiError(ErrorCode.not_controller)
        if offset > self.high_watermark:
            future = asyncio.get_running_loop().create_future()
            self.waiting.append((offset, future))
            await future

    def lead(self):
        """This node becomes active in the next epoch."""
        self.epoch = self.epoch + 1
        self.next_offset = max(self.next_offset, self.high_watermark) + 1  # LeaderChange
        self.leader = CONTROLLER
        self.is_active = True
        self.high_watermark = self.next_offset
        self._tell()

    def lose(self, leader=101):
        """Another node leads the next epoch; what was not committed is gone."""
        self.is_active = False
        self.epoch = self.epoch + 1
        self.leader = leader
        self.loader.roll_back()
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(ApiError(ErrorCode.not_controller))
        self.next_offset = self.high_watermark
        self._tell()

    def _tell(self):
        for callback in self.callbacks:
            callback()


class ActiveController:
    """A controller driver and what stands around it."""

    def __init__(self, env, **settings):
        self.env = env
        self.quorum = FakeQuorum()
        self.loader = self.quorum.loader = MetadataLoader(env)
        self.tasks = Tasks(env.host)
        self.config = replace(
            controller_config(BrokerSettings(node_id=CONTROLLER), CLUSTER_ID, SUPPORTED_FEATURES),
            **{"validate_topic_configs": accept_configs, "internal_replication": {}} | settings,
        )
        self.driver = ControllerDriver(env, self.config, self.quorum, self.loader, self.tasks)
        self.driver.start()
        self.epochs = {}

    @property
    def newest(self):
        return self.loader.newest

    def broker(self, number):
        return self.newest.brokers[NodeId(number)]

    def partition(self, topic, number=0):
        return self.newest.topics_by_name[topic].partitions[number]

    def registration(self, number, **changes):
        fields = {
            "node_id": NodeId(number),
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.env.random.uuid(),
            "endpoints": {"PLAINTEXT": Address("127.0.0.1", 10_000 + number)},
            "security_protocols": {"PLAINTEXT": 0},
            "features": SUPPORTED_FEATURES,
            "rack": None,
            "log_dirs": (directory(number),),
            "previous_broker_epoch": NO_BROKER_EPOCH,
        }
        return BrokerRegistration(**fields | changes)

    async def register(self, number, **changes):
        epoch = await self.driver.register_broker(self.registration(number, **changes))
        self.epochs[number] = epoch
        return epoch

    async def beat(self, number, client=None, **changes):
        fields = {
            "node_id": NodeId(number),
            "broker_epoch": self.epochs[number],
            "metadata_offset": self.quorum.next_offset,
            "want_fence": False,
            "want_shut_down": False,
        }
        return await self.driver.heartbeat(Heartbeat(**fields | changes), client)

    async def start_broker(self, number, **changes):
        await self.register(number, **changes)
        reply = await self.beat(number)
        assert not reply.fenced

    async def create(self, name, *assignments, **configs):
        given = tuple((number, tuple(map(NodeId, replicas))) for number, replicas in enumerate(assignments))
        (created,) = await create_topics(
            self.driver, [NewTopic(name=name, assignments=given, configs=configs)], self.env.random
        )
        assert not isinstance(created, ApiError), created
        return created


class Listening:
    """The process of a broker, as a probe sees it: it accepts, or once it has ended refuses, connections."""

    def __init__(self, loop, network, number):
        self.process = loop.new_process(f"broker {number}")
        self.visits = 0
        """The connections that were accepted."""
        self._network = network
        self._address = Address("127.0.0.1", 10_000 + number)

    async def start(self):
        await self.process.run(self._network.listen(self._address, self._accept))

    def kill(self):
        self.process.end("killed")

    def _accept(self, _connection):
        self.visits += 1
        return _Silent()


class _Silent:
    def on_bytes(self, received):
        return len(received)

    def on_closed(self):
        pass

    def on_writable(self, writable):
        pass


def controlled(scenario=None, *, brokers=0, lead=True, **settings):
    """Make a test of a coroutine function whose argument is an :class:`ActiveController`, with brokers 1 to ``brokers`` that serve.

    ``controller.listening`` holds the brokers' processes.
    """

    async def play(loop, scenario):
        network = SimulatedNetwork(loop, Random(1))
        process = loop.new_process("controller")
        disk = simulated_disk(loop, Random(2))

        async def run():
            env = simulated_env(loop, Random(3), process, disk, network)
            controller = ActiveController(env, **settings)
            controller.loop, controller.process, controller.network = loop, process, network
            controller.listening = {}
            for number in range(1, brokers + 1):
                controller.listening[number] = Listening(loop, network, number)
                await controller.listening[number].start()
            if lead:
                controller.quorum.lead()
                for number in range(1, brokers + 1):
                    await controller.start_broker(number)
            await scenario(controller)
            controller.driver.close()
            await controller.tasks.stop()

        await process.run(run())

    decorate = played(play, limit_s=36_000)
    return decorate if scenario is None else decorate(scenario)
