"""A whole node: its parts, wired, and the order in which they start and stop.

Start: lock the data directories; metadata log; bind the listeners (nothing is served yet); register; open and recover all logs (REC-8:
registration comes first); lead; unfence; serve. Stop: hand over leadership and fence; end connections and jobs; finish the metadata log;
flush and close all logs, with the clean-shutdown marker of their directory last (BRK-2).
"""

import asyncio
import logging
from typing import Final

from esp.broker.controller_driver import ControllerConfig, ControllerDriver
from esp.broker.dispatcher import Dispatcher
from esp.broker.handlers.fetch import FetchHandler
from esp.broker.handlers.produce import ProduceHandler
from esp.broker.maintenance import Maintenance
from esp.broker.metadata_cache import MetadataCache
from esp.broker.node_directories import NodeDirectories, open_directories_blocking
from esp.broker.producer_ids import ProducerIds
from esp.broker.replica_host import ReplicaHost
from esp.broker.server import ConnectionLimits, Server
from esp.broker.services import Services
from esp.broker.tasks import Tasks
from esp.controller.brokers import BrokerRegistration, ControllerRegistration
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import ClusterDelta, ClusterImage
from esp.controller.topics import TopicDefaults
from esp.model.broker_settings import BrokerSettings
from esp.model.settings import validate_topic_overrides
from esp.ports.env import Env
from esp.ports.network import Address
from esp.storage.log_directory import previous_broker_epoch

log = logging.getLogger(__name__)

PLAINTEXT: Final = 0
"""Kafka's number of the one security protocol that is served."""


class BrokerNode:
    """One node, broker and controller in one.

    Args:
        env: the outside.
        settings: the node's own.
    """

    def __init__(self, env: Env, settings: BrokerSettings) -> None:
        self._env = env
        self._settings = settings
        self._tasks = Tasks(env.host)
        self._changes: asyncio.Queue[tuple[ClusterImage, ClusterDelta]] = asyncio.Queue()
        self._directories: NodeDirectories
        self.listening: list[Address] = []
        """The addresses of the client listeners, in the order of ``listeners``, once the node has started."""

    async def start(self) -> None:
        """Come up; requests are answered when this returns.

        Raises:
            OperatorError: the node cannot run like this; what was opened is let go of with the process.
        """
        env, settings = self._env, self._settings
        started_us = env.clock.monotonic_us()
        self._directories = directories = open_directories_blocking(env, settings)
        self._controller = await self._start_controller()
        self._metadata = MetadataCache(directories.cluster_id)
        self._replicas = ReplicaHost(env, settings.node_id, settings, directories.data, self._tasks)
        self._server = self._make_server()
        endpoints = await self._bind()
        self._epoch = await self._controller.register_broker(self._registration(endpoints))
        await env.cpu.run(self._replicas.load_blocking, self._controller.image, env.clock.wall_ms())
        self._tasks.start(self._apply_changes(), name="metadata changes")
        await self._controller.unfence_broker(settings.node_id, self._epoch)
        await self._replicas.wait_until_applied(self._controller.image.offset)
        Maintenance(env, settings, self._replicas, directories.data).start(self._tasks)
        self._server.open()
        log.info("started in %d ms", (env.clock.monotonic_us() - started_us) // 1000)

    async def stop(self) -> None:
        """Shut down in order; everything is durable when this returns, and the directories are free for the next process."""
        await self._controller.controlled_shutdown(self._settings.node_id, self._epoch)
        await self._replicas.wait_until_applied(self._controller.image.offset)
        await self._server.close()
        async with self._replicas.directories_lock:  # a thread does not stop with the task that waits for it
            await self._tasks.stop()
        await self._controller.close()
        for directory in self._directories.all:
            await self._env.cpu.run(directory.close_blocking, self._epoch)
        log.info("stopped in order")

    async def _apply_changes(self) -> None:
        while True:
            image, delta = await self._changes.get()
            await self._replicas.apply(image, delta, self._metadata.publish)

    async def _start_controller(self) -> ControllerDriver:
        env, settings, directories = self._env, self._settings, self._directories
        endpoints = {listener.name: Address(listener.host, listener.port) for listener in settings.controller_listeners}
        config = ControllerConfig(
            directory=directories.metadata,
            cluster_id=directories.cluster_id,
            registration=ControllerRegistration(
                node_id=settings.node_id,
                incarnation_id=env.random.uuid(),
                endpoints=endpoints,
                security_protocols=dict.fromkeys(endpoints, PLAINTEXT),
                features=SUPPORTED_FEATURES,
            ),
            defaults=TopicDefaults(settings.num_partitions, settings.default_replication_factor),
            min_insync_replicas=settings.min_insync_replicas,
            validate_topic_configs=validate_topic_overrides,
        )
        return await ControllerDriver.start(env, config, lambda image, delta: self._changes.put_nowait((image, delta)))

    def _make_server(self) -> Server:
        settings = self._settings
        producer_ids = ProducerIds(lambda: self._controller.allocate_producer_ids(settings.node_id, self._epoch))
        services = Services(
            env=self._env,
            node_id=settings.node_id,
            settings=settings,
            metadata=self._metadata,
            replicas=self._replicas,
            controller=self._controller,
            producer_ids=producer_ids,
        )
        dispatcher = Dispatcher(
            services,
            self._tasks,
            produce=ProduceHandler(services).handle,
            fetch=FetchHandler(services, self._tasks).handle,
        )
        limits = ConnectionLimits(
            total=settings.max_connections,
            per_ip=settings.max_connections_per_ip,
            idle_max_ms=settings.connections_max_idle_ms,
            frame_max_bytes=settings.socket_request_max_bytes,
        )
        return Server(self._env, dispatcher, limits)

    async def _bind(self) -> dict[str, Address]:
        """Bind the client listeners and return what clients are told to connect to, by listener."""
        advertised = {listener.name: listener for listener in self._settings.advertised_listeners}
        endpoints: dict[str, Address] = {}
        for listener in self._settings.client_listeners:
            bound = await self._server.listen(listener.name, Address(listener.host, listener.port))
            self.listening.append(bound)
            told = advertised.get(listener.name)
            if told is not None:  # else, as in Kafka, it serves those who know of it
                endpoints[listener.name] = Address(told.host or self._env.host.name, told.port or bound.port)
        return endpoints

    def _registration(self, endpoints: dict[str, Address]) -> BrokerRegistration:
        return BrokerRegistration(
            node_id=self._settings.node_id,
            incarnation_id=self._env.random.uuid(),
            endpoints=endpoints,
            security_protocols=dict.fromkeys(endpoints, PLAINTEXT),
            features=SUPPORTED_FEATURES,
            rack=self._settings.broker_rack,
            log_dirs=self._directories.ids,
            previous_broker_epoch=previous_broker_epoch(self._directories.all),
        )
