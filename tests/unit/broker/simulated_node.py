"""A whole node on the simulated outside, and a client that talks to it in bytes. Everything happens on virtual time."""

import asyncio
import struct
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

from esp.broker.app import BrokerNode
from esp.controller.features import SUPPORTED_FEATURES
from esp.ports.network import Address
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request, load_class
from esp.protocol.registry import SERVED
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.settings.addresses import Listener
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from tests.unit.broker.scenarios import played

ADDRESS = Address("127.0.0.1", 9092)
SETTINGS = BrokerSettings(
    listeners=(Listener("PLAINTEXT", "127.0.0.1", 9092), Listener("CONTROLLER", "127.0.0.1", 0)),
    log_dirs=("/data",),
    metadata_log_dir="/data",
)


class RefusedError(Exception):
    """The connection ended instead of an answer."""


class SimulatedNode:
    """One node through its lives: the disk stays, the process does not."""

    def __init__(self, loop, seed=0, *, features=SUPPORTED_FEATURES, **settings):
        self.loop = loop
        self.rng = Random(seed)
        self.disk = simulated_disk(loop, Random(self.rng.random()))
        self.network = SimulatedNetwork(loop, Random(self.rng.random()))
        self.settings = replace(SETTINGS, **settings)
        self.features = features
        self.process = None
        self.node = None
        self.boots = 1

    async def start(self, **settings):
        """Start the node in a new process; ProcessEndedError if it dies of it."""
        assert self.process is None or not self.process.alive
        self.settings = replace(self.settings, **settings)
        self.process = self.loop.new_process(f"node at {self.loop.time():.3f}")
        self.env = simulated_env(
            self.loop,
            Random(self.rng.random()),
            self.process,
            self.disk,
            self.network,
            boot_id=f"boot {self.boots}",
        )
        self.node = self.process.context.copy().run(BrokerNode, self.env, self.settings, self.features)
        await self.process.run(self.node.start())

    async def stop(self):
        """Stop in order."""
        await self.process.run(self.node.stop())
        self.process.end("stopped")

    def kill(self, *, power=False):
        """End the process where it stands; with ``power`` lose what was not synced."""
        self.process.end("killed")
        self.settle(power=power)

    def settle(self, *, power=False):
        """Make the disk ready for the next process."""
        assert not self.process.alive
        if power:
            self.disk.power_loss()
            self.boots += 1
        else:
            self.disk.crash()

    async def restart(self, *, power=False):
        self.kill(power=power)
        await self.start()

    async def client(self, address=ADDRESS):
        client = Client()
        client.connection = await self.network.connect(address, client.on_open, 1_000_000)
        return client

    @property
    def replicas(self):
        return self.node.broker.running.replicas

    @property
    def metadata(self):
        """The cluster as the node tells clients of it."""
        return self.node.broker.dispatcher._services.metadata

    @property
    def server(self):
        return self.node.broker.server

    def hosted(self, topic, partition=0):
        return self.replicas.find(topic, partition)

    def log(self, topic, partition=0):
        return self.hosted(topic, partition).log

    def names(self, path="/data"):
        return self.disk.listdir(path)


class Client:
    """A connection of a client; ``call`` encodes a message of the version's model class and returns the decoded answer."""

    def __init__(self):
        self.closed = False
        self._buffer = b""
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future] = {}

    def on_open(self, connection):
        self.connection = connection
        return self

    def on_bytes(self, received):
        self._buffer += bytes(received)
        while len(self._buffer) >= 4:
            (length,) = struct.unpack_from(">i", self._buffer)
            if len(self._buffer) < 4 + length:
                break
            frame, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
            (correlation_id,) = struct.unpack_from(">i", frame)
            first = next(iter(self._waiting))
            assert correlation_id == first, "answers keep the order of their requests"
            future = self._waiting.pop(first)
            if not future.done():
                future.set_result(frame)
        return len(received)

    def on_closed(self):
        self.closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(RefusedError())
                future.exception()  # nobody needs to look at it
        self._waiting.clear()

    def on_writable(self, writable):
        pass

    def send(self, api_key, version, message, *, client_id="test") -> asyncio.Future:
        """Send a request and return the future of its answer."""
        self._next_id += 1
        return self.send_frame(
            encode_request(api_key, version, self._next_id, client_id, message), self._next_id, api_key, version
        )

    def send_frame(self, frame, correlation_id=None, api_key=None, version=None):
        async def answer():
            data = await future
            if api_key is None:
                return data
            _, position = read_response_header(data, api_key, version)
            return decode_response(api_key, version, data[position:])

        future = asyncio.get_running_loop().create_future()
        if correlation_id is not None:
            self._waiting[correlation_id] = future
        if self.closed:
            future.set_exception(RefusedError())
        self.connection.write([frame])
        return asyncio.ensure_future(answer())

    async def call(self, api_key, version, message):
        return await self.send(api_key, version, message)

    def close(self):
        self.connection.abort()


def model(api_key, version, kind="request"):
    """The model class of one API's version, and the names of kio's module of it, to build requests from."""
    api = SERVED[api_key]
    stem = "".join("_" + letter.lower() if letter.isupper() else letter for letter in api.name).lstrip("_")
    number = api.request_model(version) if kind == "request" else api.response_model(version)
    module = __import__(f"kio.schema.{stem}.v{number}.{kind}", fromlist=["_"])
    return SimpleNamespace(Request=load_class(api, number, kind), **vars(module))


def simulated(seed=0, *, start=True, limit_s=3600, **settings):
    """Make a test of a coroutine function whose first argument is a running node; further ones are the test's parameters.

    Beside settings, ``features`` are the levels of features that the node can work at.
    """

    async def play(loop, scenario):
        node = SimulatedNode(loop, seed, **settings)
        if start:
            await node.start()
        await scenario(node)

    return played(play, limit_s=limit_s)


def records(*values: bytes, **batch: Any) -> bytes:
    """A batch as a producer sends it."""
    batch.setdefault("timestamp_ms", 1_795_000_000_000)
    return build_batch([NewRecord(value) for value in values], **batch)


def values(data) -> list[bytes]:
    """The values of the records of any number of batches."""
    found = []
    left = memoryview(bytes(data or b""))
    while left:
        header = read_header(left)
        found += [record.value for record in iterate_records(left[: header.size])]
        left = left[header.size :]
    return found
