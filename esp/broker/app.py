"""A whole node: its parts, wired, and the order in which they start and stop.

A node has the role of a broker, of a controller, or both (``process.roles``); every node is a member of the metadata quorum, as a voter or
as an observer, and follows its log.

Start: lock the data directories; read keys and certificates, if there are encrypted listeners; bind the controller listeners, whose ports
the quorum learns; read the metadata log; take part in the
quorum and serve controllers; once the metadata is known, start the broker role (:mod:`esp.broker.broker_role`). Stop: the broker role
first; then the place in the quorum is given up; then all logs are flushed and closed, each directory's clean-shutdown marker last (BRK-2).
"""

import asyncio
import importlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from esp.broker.authorization.loading import make_access
from esp.broker.broker_role import BrokerRole
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.controller_role import ControllerRole
from esp.broker.groups.coordinators import load_driver_class as load_group_driver
from esp.broker.limits import REAL_LIMITS, NodeLimits
from esp.broker.node_directories import open_directories_blocking
from esp.broker.raft.config import RaftConfig
from esp.broker.raft.directory_watch import MetadataDirectoryWatch
from esp.broker.raft.driver import RaftDriver
from esp.broker.raft.loader import MetadataLoader
from esp.broker.raft.metadata_log import METADATA_LOG_SETTINGS, open_metadata_log_blocking
from esp.broker.running_node import RunningNode
from esp.broker.transactions.coordinators import load_driver_class as load_transaction_driver
from esp.broker.waiting import time_limit
from esp.broker.warm_up import WarmUp
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import ClusterImage, FeatureRange
from esp.model.ids import NO_BROKER_EPOCH
from esp.ports.env import Env
from esp.ports.network import Address
from esp.raft.voters import VoterKey
from esp.settings.addresses import METRICS, MetricsListener
from esp.settings.broker import BrokerSettings
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.settling import settle_all_blocking

if TYPE_CHECKING:
    from esp.broker.metrics.node_metrics import NodeMetrics

log = logging.getLogger(__name__)

_SETTLED_AT_A_TIME: Final = 16
"""Parts into which the logs of a directory are divided at a stop; more are no faster on the disks that were tried."""
_WRITTEN_AT_A_TIME: Final = 4
"""The same, of logs that are settled together: their writes wait for no device, and more threads only contend for the interpreter."""
_CATCH_UP_TOLD_MS: Final = 5_000
"""The interval at which the operator is notified that a node waits for the quorum."""


class BrokerNode:
    """One node, of one role or both.

    Args:
        env: the outside.
        settings: the node's own.
        features: the levels of features that it can work at: those of this release.
        limits: see there.
    """

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        features: Mapping[str, FeatureRange] = SUPPORTED_FEATURES,
        *,
        limits: NodeLimits = REAL_LIMITS,
    ) -> None:
        self._env = env
        self._settings = settings
        self._features = features
        self.running: RunningNode | None = None
        """None until the metadata log is read."""
        self.metrics = _make_metrics(env) if settings.metrics_listener is not None else None
        make_dispatcher = self.metrics.dispatcher if self.metrics is not None else Dispatcher
        self.controller = (
            ControllerRole(env, settings, make_dispatcher, limits=limits) if settings.is_controller else None
        )
        self.broker = BrokerRole(env, settings, make_dispatcher, limits=limits) if settings.is_broker else None
        self._warm_up: WarmUp | None = None
        self._watch: MetadataDirectoryWatch | None = None

    @property
    def listening(self) -> list[Address]:
        """The addresses of the client listeners, in the order of ``listeners``, once they are bound; of a mere controller, its own."""
        role = self.broker or self.controller
        assert role is not None, "a node has a role"
        return role.listening

    async def start(self) -> None:
        """Come up; requests are answered when this returns.

        Raises:
            OperatorError: the node cannot run like this; what was opened is let go of with the process.
        """
        env, settings = self._env, self._settings
        started_us = env.clock.monotonic_us()
        directories = open_directories_blocking(env, settings)
        tls_policies = settings.tls_policies
        if tls_policies:
            await env.network.load_tls(tls_policies)
        endpoints = await self.controller.bind() if self.controller is not None else ()
        if self.broker is not None:
            await self.broker.bind()
        metadata_log = open_metadata_log_blocking(
            env,
            directories.metadata,
            cluster_id=directories.cluster_id,
            node_id=settings.node_id,
            has_controller_role=settings.is_controller,
            settings=replace(
                METADATA_LOG_SETTINGS,
                segment_bytes=settings.metadata_log_segment_bytes,
                segment_ms=settings.metadata_log_segment_ms,
            ),
        )
        metadata = MetadataLoader(
            env,
            ClusterImage(
                own_unclean_leader_election=settings.unclean_leader_election_enable,
                own_recreate_offsets=settings.topic_recreate_offsets,
                own_trash_retention_ms=settings.topic_trash_retention_ms,
            ),
        )
        assert directories.metadata.meta is not None, "the directory is formatted"
        config = RaftConfig(
            settings=settings,
            local=VoterKey(settings.node_id, directories.metadata.meta.directory_id),
            cluster_id=directories.cluster_id,
            endpoints=endpoints,
        )
        raft = await RaftDriver.open(env, metadata_log, config, metadata, directories.lock)
        access = make_access(settings, metadata)
        self.running = running = RunningNode(directories, raft, metadata, access, self._features)
        if self.controller is not None:
            self.controller.start(running)
        await raft.start()
        is_maintained = self.broker is not None and directories.metadata in directories.data
        self._watch = MetadataDirectoryWatch(
            env, directories.metadata, directories.lock, writes_checkpoints=not is_maintained
        )
        self._watch.start()
        await self._catch_up(raft)
        if self.broker is not None:
            local = self.controller.dispatcher if self.controller is not None else None
            await self.broker.start(running, local)
        if self.metrics is not None and settings.metrics_listener is not None:
            await self._serve_metrics(self.metrics, settings.metrics_listener, running)
        log.info("started in %d ms", (env.clock.monotonic_us() - started_us) // 1000)

    def warm_up(self, on_step: Callable[[], None]) -> None:
        """Prepare for requests of every kind while the node serves (:mod:`esp.broker.warm_up`); ``on_step`` is called now and then."""
        dispatchers = [role.dispatcher for role in (self.broker, self.controller) if role is not None]
        steps = itertools.chain(
            [load_group_driver, load_transaction_driver], *(dispatcher.preparations() for dispatcher in dispatchers)
        )
        self._warm_up = WarmUp(self._env.clock, steps, on_step)

    async def _serve_metrics(self, metrics: "NodeMetrics", listener: MetricsListener, running: RunningNode) -> None:
        tls = self._settings.tls[METRICS] if listener.is_encrypted else None
        wanted = Address(listener.host, listener.port)
        address = await metrics.serve(wanted, running, self.broker, self.controller, tls)
        log.info("metrics are served at %s://%s/metrics", "http" if tls is None else "https", address)

    async def _catch_up(self, raft: RaftDriver) -> None:
        """Wait until the metadata is known here, however long that takes, and tell the operator what may be in the way."""
        while True:
            try:
                async with time_limit(self._env.clock, _CATCH_UP_TOLD_MS):
                    await raft.caught_up()
            except TimeoutError:
                log.warning(
                    "node %d has not found the leader of the metadata quorum yet; retrying. Where no error before this line gives the "
                    "reason, a majority of the controllers must run and be reachable from here (controller.quorum.bootstrap.servers), "
                    "and no other node may have node.id %d",
                    self._settings.node_id,
                    self._settings.node_id,
                )
            else:
                return

    async def stop(self) -> None:
        """Shut down in order, after :meth:`start`.

        Everything is durable when this returns, and the directories are free for the next process.

        A directory of which that is not true, because its device failed, has no clean shutdown marker, and is recovered at the next start
        (REC-1).
        """
        running = self.running
        assert running is not None, "only a node that has come up is shut down cleanly"
        if self._warm_up is not None:
            self._warm_up.close()
        if self.metrics is not None:
            await self.metrics.close()
        broker_epoch = await self.broker.stop() if self.broker is not None else NO_BROKER_EPOCH
        if self.controller is not None:
            self.controller.stop()
        await running.raft.close()
        if self._watch is not None:
            await self._watch.close()
        if self.controller is not None:
            await self.controller.close()
        for directory in running.directories.all:
            try:
                await self._settle(directory)
                await self._env.cpu.run(directory.close_blocking, broker_epoch)
            except OSError as error:
                log.error(
                    "%s: the shutdown is unclean, and its logs are recovered at the next start: %s",
                    directory.path,
                    error,
                )
        log.info("clean shutdown completed")

    async def _settle(self, directory: LogDirectory) -> None:
        """Bring the logs of a directory to the device: many together, a few or what is left side by side.

        Those side by side cost a few waits for the device each, and the device serves many at a time.
        """
        logs = await self._env.cpu.run(directory.begin_to_close_blocking)
        joint = directory.joint_settling(logs)
        while joint.logs:
            await self._side_by_side(joint.go_on_blocking, joint.logs, _WRITTEN_AT_A_TIME)
            await self._env.cpu.run(joint.sync_blocking)
        await self._side_by_side(settle_all_blocking, [log for log in logs if not log.is_settled])

    async def _side_by_side(
        self, work_blocking: Callable[[Sequence[Log]], None], logs: Sequence[Log], at_a_time: int = _SETTLED_AT_A_TIME
    ) -> None:
        parts = [logs[number::at_a_time] for number in range(at_a_time)]
        await asyncio.gather(*(self._env.cpu.run_waiting(work_blocking, part) for part in parts if part))


def _make_metrics(env: Env) -> "NodeMetrics":
    """Loaded only where it is wanted: Prometheus's library costs memory, and time at the start."""
    made: NodeMetrics = importlib.import_module("esp.broker.metrics.node_metrics").NodeMetrics(env)
    return made
