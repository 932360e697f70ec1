"""A controller on a simulated disk, for tests of the drivers."""

import asyncio
from contextlib import suppress
from random import Random
from types import SimpleNamespace

from esp.broker.controller_driver import ControllerConfig, ControllerDriver
from esp.broker.formatting import format_new_directories_blocking
from esp.controller.brokers import BrokerRegistration, ControllerRegistration
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.topics import TopicDefaults
from esp.model.ids import NO_BROKER_EPOCH, NodeId
from esp.ports.network import Address
from esp.raft.voters import VoterEndpoint
from esp.simulation.disk import SimulatedDisk
from esp.storage.log_directory import LogDirectory
from tests.unit.controller.samples import SeededRandom, accept_configs

NODE = NodeId(1)
PATH = "/data"
LOG_PATH = "/data/__cluster_metadata-0"


class FatalError(BaseException):
    """The node ended itself; not an ``Exception``, so that nobody lives on with it."""


class Host:
    """Remembers why the node ended."""

    def __init__(self):
        self.reason = None

    def fatal(self, reason):
        self.reason = reason
        raise FatalError(reason)


class MetadataNode:
    """One node's metadata directory, through starts and crashes."""

    def __init__(self, seed=0):
        self.rng = Random(seed)
        self.disk = SimulatedDisk(Random(seed))
        self.host = Host()
        self.changes = []
        clock = SimpleNamespace(wall_ms=lambda: 1_795_000_000_000)
        self.env = SimpleNamespace(disk=self.disk, clock=clock, random=SeededRandom(seed), host=self.host)

    def open_directory(self):
        directory = LogDirectory.open_blocking(self.disk, PATH)
        cluster_id = format_new_directories_blocking(
            self.env, [directory], directory, node_id=NODE, endpoints=(VoterEndpoint("CONTROLLER", "localhost", 9093),)
        )
        return directory, cluster_id

    async def start(self, **changes):
        """A running controller."""
        self.directory, cluster_id = self.open_directory()
        config = {
            "directory": self.directory,
            "cluster_id": cluster_id,
            "registration": ControllerRegistration(
                node_id=NODE,
                incarnation_id=self.env.random.uuid(),
                endpoints={"CONTROLLER": Address("localhost", 9093)},
                security_protocols={"CONTROLLER": 0},
                features=SUPPORTED_FEATURES,
            ),
            "defaults": TopicDefaults(1, 1),
            "min_insync_replicas": 1,
            "validate_topic_configs": accept_configs,
        }
        return await ControllerDriver.start(self.env, ControllerConfig(**config | changes), self._on_change)

    async def start_broker(self, controller, previous_broker_epoch=NO_BROKER_EPOCH):
        epoch = await controller.register_broker(self.registration(previous_broker_epoch))
        await controller.unfence_broker(NODE, epoch)
        return epoch

    def registration(self, previous_broker_epoch=NO_BROKER_EPOCH):
        return BrokerRegistration(
            node_id=NODE,
            incarnation_id=self.env.random.uuid(),
            endpoints={"PLAINTEXT": Address("localhost", 9092)},
            security_protocols={"PLAINTEXT": 0},
            features=SUPPORTED_FEATURES,
            rack=None,
            log_dirs=(self.directory.meta.directory_id,),
            previous_broker_epoch=previous_broker_epoch,
        )

    async def stop(self, controller, broker_epoch=NO_BROKER_EPOCH):
        await controller.close()
        self.directory.close_blocking(broker_epoch)

    async def kill(self, *, power=False):
        """End everything that runs in the node, and with ``power`` lose what was not synced."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        if power:
            self.disk.power_loss()
        else:
            self.disk.crash()

    def _on_change(self, image, delta):
        self.changes.append((image, delta))
