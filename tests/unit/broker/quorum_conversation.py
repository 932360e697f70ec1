"""Members of a metadata quorum on the simulated outside: driver, loader and controller listener, without the rest of a node."""

import asyncio
import inspect
import uuid
from contextlib import suppress
from random import Random
from types import SimpleNamespace

from esp.broker.connections.connection_limits import ConnectionLimits
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.connections.server import Server
from esp.broker.raft.config import RaftConfig
from esp.broker.raft.driver import RaftDriver
from esp.broker.raft.loader import MetadataLoader
from esp.broker.raft.metadata_log import open_metadata_log_blocking
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError
from esp.model.ids import METADATA_PARTITION, NO_BROKER_EPOCH, DirectoryId, NodeId
from esp.ports.network import Address
from esp.protocol.registry import ListenerKind
from esp.raft.snapshot import FIRST, build_first_snapshot
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.schemas.metadata_records import FeatureLevelRecord, TopicRecord
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.loop import ProcessEndedError
from esp.simulation.machine.network import SimulatedNetwork
from esp.storage.layout import replica_directory_name
from esp.storage.log_directory import LogDirectory
from esp.storage.meta_properties import MetaProperties
from tests.unit.broker.scenarios import played

CLUSTER_ID = "abcdefghijklmnopqrstuv"
LISTENER = "CONTROLLER"
PATH = "/data"
LOG_PATH = f"{PATH}/{replica_directory_name(METADATA_PARTITION)}"
LIMITS = ConnectionLimits(total=1000, per_ip=1000, idle_max_ms=-1, frame_max_bytes=100_000_000)


def address(number):
    return Address("127.0.0.1", 9090 + number)


class Member:
    """One member through its lives: the disk stays, the process does not."""

    def __init__(self, quorum, number, **config):
        self.quorum = quorum
        self.node_id = NodeId(number)
        self.address = address(number)
        self.rng = Random(quorum.rng.random())
        self.directory_id = DirectoryId(quorum.uuid())
        self.key = VoterKey(self.node_id, self.directory_id)
        self.endpoints = (VoterEndpoint(LISTENER, self.address.host, self.address.port),)
        self.disk = simulated_disk(quorum.loop, Random(self.rng.random()))
        self.config = config
        self.process = None

    def format(self, voters):
        """Give the disk its identity, and the log its first voters unless they are static or unknown."""
        self.disk.make_directory(LOG_PATH)
        directory = LogDirectory.open_blocking(self.disk, PATH)
        directory.format_blocking(MetaProperties(CLUSTER_ID, self.node_id, self.directory_id))
        if voters is not None:
            self.disk.replace_file_blocking(f"{LOG_PATH}/{FIRST.file_name}", build_first_snapshot(voters, 0))
        directory.close_blocking(NO_BROKER_EPOCH)
        for path in (PATH, ""):
            self.disk.sync_directory_blocking(path)

    async def start(self, **config):
        """Start in a new process."""
        assert self.process is None or not self.process.alive
        loop = self.quorum.loop
        self.config = {**self.config, **config}
        self.process = loop.new_process(f"node {self.node_id} at {loop.time():.3f}")
        self.env = simulated_env(loop, Random(self.rng.random()), self.process, self.disk, self.quorum.network)
        self.changes = []
        self.leaderships = []
        await self.process.run(self._start())

    async def _start(self):
        env = self.env
        self.directory = LogDirectory.open_blocking(env.disk, PATH)
        names = {"cluster_id": CLUSTER_ID, "endpoints": self.endpoints}
        given = {name: value for name, value in self.config.items() if name not in names}
        settings = BrokerSettings(node_id=self.node_id, controller_listener_names=(LISTENER,), **given)
        self.log = open_metadata_log_blocking(
            env,
            self.directory,
            cluster_id=CLUSTER_ID,
            node_id=self.node_id,
            has_controller_role=settings.is_controller,
        )
        self.loader = MetadataLoader(env)
        config = RaftConfig(
            settings=settings,
            local=self.key,
            **{name: self.config.get(name, default) for name, default in names.items()},
        )
        self.lock = asyncio.Lock()
        self.raft = await RaftDriver.open(env, self.log, config, self.loader, self.lock)
        self.loader.subscribe(lambda image, delta: self.changes.append((image, delta)))
        self.raft.on_leadership(
            lambda: self.leaderships.append((self.raft.epoch, self.raft.leader, self.raft.is_active))
        )
        self.tasks = Tasks(env.host)
        services = SimpleNamespace(raft=self.raft, env=env)
        dispatcher = Dispatcher(ListenerKind.CONTROLLER, services, self.tasks, self.env.clock)
        self.server = Server(env, dispatcher, LIMITS)
        if self.raft.config.endpoints:
            await self.server.listen(LISTENER, self.address)
        await self.raft.start()
        self.server.open()

    @property
    def image(self):
        return self.loader.image

    def run(self, coroutine):
        """Run a coroutine in the member's process."""
        return self.process.run(coroutine)

    async def stop(self):
        """Stop in order."""
        await self.run(self._stop())
        self.process.end("stopped")

    async def _stop(self):
        await self.raft.close()
        await self.server.close()
        await self.tasks.stop()
        self.directory.close_blocking(NO_BROKER_EPOCH)

    def kill(self, *, power=False):
        """End the process where it stands; with ``power`` lose what was not synced."""
        self.process.end("killed")
        self.settle(power=power)

    def settle(self, *, power=False):
        if power:
            self.disk.power_loss()
        else:
            self.disk.crash()

    @property
    def is_alive(self):
        return self.process is not None and self.process.alive

    def names(self, suffix=""):
        return [name for name in self.disk.listdir(LOG_PATH) if name.endswith(suffix)]

    def log_bytes(self):
        """All segments of the log, end to end."""
        return b"".join(self.disk.read_file(f"{LOG_PATH}/{name}") for name in self.names(".log"))


class Quorum:
    """Several members on one network."""

    def __init__(self, loop, voters=3, seed=0, **config):
        self.loop = loop
        self.rng = Random(seed)
        self.network = SimulatedNetwork(loop, Random(self.rng.random()))
        self.config = config
        self.members = {}
        self.voters = VoterSet(())
        voting = [self.add(number) for number in range(1, voters + 1)]
        self.voters = VoterSet(tuple(Voter(member.key, member.endpoints) for member in voting))
        for member in voting:
            member.format(self.voters)

    def uuid(self):
        return uuid.UUID(int=self.rng.getrandbits(128), version=4)

    def add(self, number, *, formatted=False, **config):
        """Another member; it has to be formatted unless ``formatted``, which makes it one that knows no voters."""
        member = self.members[number] = Member(self, number, **self.config | config)
        if formatted:
            member.format(None)
        return member

    def __getitem__(self, number):
        return self.members[number]

    @property
    def alive(self):
        return [member for member in self.members.values() if member.is_alive]

    @property
    def active(self):
        """The active controller; None if there is none."""
        found = [member for member in self.alive if member.raft.is_active]
        newest = max((member.raft.epoch for member in found), default=None)
        return next((member for member in found if member.raft.epoch == newest), None)

    async def start(self):
        for member in self.members.values():
            await member.start()

    async def wait(self, condition, limit_s=30.0):
        """Let time pass until ``condition`` holds."""
        end = self.loop.time() + limit_s
        while not condition():
            assert self.loop.time() < end, f"{inspect.getsource(condition).strip()} does not come true"
            await asyncio.sleep(0.002)

    async def elect(self, *, other_than=None):
        """Wait until somebody is the active controller, and return who."""
        await self.wait(lambda: self.active is not None and self.active is not other_than)
        return self.active

    async def create(self, name, member=None):
        """Create a topic without partitions; whether that was acknowledged."""
        member = member or self.active
        with suppress(ProcessEndedError):
            return await member.run(self._create(member, name))
        return False

    async def _create(self, member, name):
        if not member.raft.is_active:
            return False
        topic_id = member.env.random.uuid()
        member.loader.propose(member.raft, [TopicRecord(name=name, topic_id=topic_id)])
        try:
            await member.raft.committed(member.raft.next_offset)
        except ApiError:
            return False
        return True

    async def agree(self):
        """Wait until all that live have the same image."""
        await self.wait(
            lambda: (
                len({member.image.offset for member in self.alive}) == 1
                and all(member.image == self.alive[0].image for member in self.alive)
            )
        )
        return self.alive[0].image


def feature(level):
    return FeatureLevelRecord(name="x", feature_level=level)


def with_quorum(voters=3, seed=0, *, start=True, limit_s=3600, **config):
    """Make a test of a coroutine function whose first argument is a quorum; further ones are the test's parameters."""

    async def play(loop, scenario):
        quorum = Quorum(loop, voters, seed, **config)
        if start:
            await quorum.start()
        await scenario(quorum)

    return played(play, limit_s=limit_s)
