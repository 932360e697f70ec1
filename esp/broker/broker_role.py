"""The broker role of a node: it keeps replicas and serves clients.

Start: register, fenced; wait until the metadata here knows of the registration, and so of everything that was decided before; open and
recover all logs (REC-8: registration comes first); follow the metadata; ask to be unfenced; serve. Stop: hand over leadership and be fenced
(BRK-7); ask other nodes nothing more; end connections.
"""

import asyncio
import importlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import cache as once
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from esp.broker.apis.fetch import FetchHandler
from esp.broker.apis.produce import ProduceHandler
from esp.broker.authorization.loading import make_gate
from esp.broker.cluster_view.broker_liveness import BrokerLiveness
from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.connections.connection_limits import connection_limits
from esp.broker.connections.dispatcher import Dispatcher, MakeDispatcher
from esp.broker.connections.server import Server
from esp.broker.controller_client.channel import ControllerChannel
from esp.broker.controller_client.lifecycle import BrokerLifecycle
from esp.broker.controller_client.producer_ids import ProducerIdBlocks, ProducerIds
from esp.broker.groups.config import coordinator_config
from esp.broker.groups.coordinators import GroupCoordinators
from esp.broker.letter_desk import LetterCounts, LetterDesk
from esp.broker.limits import REAL_LIMITS, NodeLimits
from esp.broker.quotas.switch import QuotaSwitch
from esp.broker.replication.cleaner import LogCleaner
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.maintenance import Maintenance
from esp.broker.replication.retention_holds import Questions, RetentionHolds
from esp.broker.replication.trash_guard import TrashGuard
from esp.broker.running_node import RunningNode
from esp.broker.services import Services
from esp.broker.share_states.config import share_states_config
from esp.broker.share_states.coordinators import ShareCoordinators
from esp.broker.share_states.other_nodes import OtherNodes
from esp.broker.share_states.persister import ClusterPersister
from esp.broker.tasks import Tasks
from esp.broker.transactions.coordinator_channel import CoordinatorChannel
from esp.broker.transactions.coordinators import TransactionCoordinators
from esp.broker.transactions.verifier import RetryBackoff, TransactionVerifier
from esp.broker.turns.cpu_share import CpuShare
from esp.broker.waiting import Waiters
from esp.controller.brokers import BrokerRegistration, protocol_numbers
from esp.controller.image import ClusterDelta, ClusterImage
from esp.controller.offset_floors import FinalEnd
from esp.model.errors import ErrorCode
from esp.model.ids import SHARE_STATES_TOPIC, BrokerEpoch, NodeId, TopicPartition
from esp.ports.cpu import Cpu
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.broker_heartbeat import FinalEndOfPartition
from esp.protocol.registry import ApiKey, ListenerKind
from esp.replication.end_marker import EndMarker
from esp.settings.broker import BrokerSettings
from esp.storage.last_stop import previous_broker_epoch

if TYPE_CHECKING:
    from esp.broker.share.leaders import ShareLeaders
    from esp.broker.turns.turns import Turns

SEARCHES_AT_A_TIME: Final = 4
"""Each holds a batch while it waits for its turn to open it."""

OPENED_AT_A_TIME: Final = 1
"""A search by time may open one batch after another, each of megabytes."""

_MARKER_WRITER: Final = "esp.broker.data_path.marker_writer"
"""Loaded with the first marker, so that the start of a node does not wait for it."""

_AUTO_CREATE: Final = "esp.broker.auto_create"
"""Loaded with the first state of a share partition, for the same reason."""

_HOLD_QUESTIONS: Final = "esp.broker.holds.position_questions"
"""Loaded when retention has something to ask for, for the same reason."""

_METADATA_POLL_US: Final = 1_000_000
"""The interval at which a broker looks for its own registration in the metadata although no change was reported."""


@dataclass(frozen=True, slots=True)
class ClientSide:
    """A broker's client listeners with the parts that they rest on: all that a broker has before the node's metadata is known."""

    env: Env
    settings: BrokerSettings
    tasks: Tasks
    """The tasks of all background work."""
    dispatcher: Dispatcher
    """Is given the parts that its handlers work with."""
    server: Server
    quotas: QuotaSwitch
    """The quotas of clients."""
    endpoints: dict[str, Address]
    """The addresses at which clients find the listeners, by the listeners' names; complete once they are bound."""
    limits: NodeLimits


class BrokerRole:
    """The client listeners of one node and, once it is started, its broker.

    Args:
        env: the outside.
        settings: the node's own.
        make_dispatcher: makes what is called for each request.
        limits: see there.
    """

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        make_dispatcher: MakeDispatcher = Dispatcher,
        *,
        limits: NodeLimits = REAL_LIMITS,
    ) -> None:
        tasks = Tasks(env.host)
        self.dispatcher = make_dispatcher(ListenerKind.BROKER, None, tasks, env.clock)
        self.quotas = QuotaSwitch()
        """The quotas of clients."""
        self.server = Server(env, self.dispatcher, connection_limits(settings), self.quotas)
        self.quotas.start(env.clock, settings, tasks, self.server.clients)
        self._client_side = ClientSide(env, settings, tasks, self.dispatcher, self.server, self.quotas, {}, limits)
        self._delegation_terms = settings.delegation_terms
        self.listening: list[Address] = []
        """The addresses of the client listeners, in the order of ``listeners``, once they are bound."""
        self.running: RunningBroker | None = None
        """None until the start has come so far that its parts are made."""

    async def bind(self) -> None:
        """Bind the client listeners; what is sent there waits until the broker serves.

        Raises:
            OperatorError: an address cannot be bound.
        """
        settings, host = self._client_side.settings, self._client_side.env.host
        advertised = {listener.name: listener for listener in settings.advertised_listeners}
        for listener in settings.client_listeners:
            bound = await self.server.listen(
                listener.name,
                Address(listener.host, listener.port),
                settings.tls.get(listener.name),
                settings.sasl.get(listener.name),
            )
            self.listening.append(bound)
            told = advertised.get(listener.name)
            if told is not None:  # else, as in Kafka, it serves the clients that know of it
                endpoint = Address(told.host or host.name, told.port or bound.port)
                self._client_side.endpoints[listener.name] = endpoint

    async def start(self, node: RunningNode, local: Dispatcher | None) -> None:
        """Come up; clients are served when this returns.

        Args:
            node: its metadata is caught up with what was committed when the node joined.
            local: the controller of this node, if it has that role.

        Raises:
            OperatorError: the node cannot serve like this.
        """
        node.metadata.subscribe(self.quotas.follow)
        running = self.running = RunningBroker(self._client_side, node, local)
        await running.join()
        self.server.open(lambda: node.metadata.image, self._delegation_terms)

    async def stop(self) -> BrokerEpoch:
        """Give up leadership, and end what others started here; return the broker's epoch, under which its logs may be closed."""
        assert self.running is not None, "only a broker that has started is stopped"
        return await self.running.leave()


class RunningBroker:
    """The parts of a broker, wired; made when the node's metadata is known.

    Args:
        client_side: the broker's client listeners, bound.
        node: the node's parts of any role.
        local: the controller of this node, if it has that role.
    """

    def __init__(self, client_side: ClientSide, node: RunningNode, local: Dispatcher | None) -> None:
        env, settings, tasks = client_side.env, client_side.settings, client_side.tasks
        self._env, self._settings, self._tasks = env, settings, tasks
        self._node = node
        self._server, self._endpoints = client_side.server, client_side.endpoints
        self._changes: asyncio.Queue[tuple[ClusterImage, ClusterDelta]] = asyncio.Queue()
        self._is_recovered = False
        directories, raft, terms = node.directories, node.raft, settings.inter_broker_terms
        self._cache = cache = MetadataCache(directories.cluster_id, settings.node_id)
        self._liveness = BrokerLiveness(env, settings.node_id, self._address_of, terms=terms)
        self.replicas = replicas = ReplicaHost(
            env,
            settings.node_id,
            settings,
            directories.data,
            directories.lock,
            tasks,
            on_leading=self._on_leading,
            on_directory_failed=self._on_directory_failed,
            on_final_ends=self._on_final_ends,
        )
        self.cleaner = LogCleaner(env, replicas, tasks)
        self._peers = BrokerPeers(env, self._address_of, client_id=f"broker-{settings.node_id}-questions", terms=terms)
        self.share_states = ShareCoordinators(env, share_states_config(settings, replicas.on_disk_error), cache, tasks)
        self._other_states = OtherNodes(env, settings.node_id, tasks, self._address_of, terms=terms)
        self.persister = self._make_persister(client_side.limits.share_patience_us)
        self.letters = self._make_letter_desk()
        self.groups = self._make_groups(client_side.limits.assigned_at_once_steps)
        self.holds = RetentionHolds(self._make_hold_questions)
        self._verification = CoordinatorChannel(
            env, settings.node_id, cache, self._address_of, lambda: self.transactions, terms=terms
        )
        self.verifier = TransactionVerifier(
            env.clock,
            tasks,
            self._verification,
            RetryBackoff(
                settings.add_partitions_to_txn_retry_backoff_ms, settings.add_partitions_to_txn_retry_backoff_max_ms
            ),
            lambda: replicas.settings.current.transaction_partition_verification_enable,
        )
        heartbeats, self._replication, forwarded = self._channels = self._open_channels(local)
        self.trash_guard = TrashGuard(env, replicas, directories.data, self._replication)
        self.lifecycle = lifecycle = BrokerLifecycle(
            env,
            settings,
            tasks,
            heartbeats,
            registration=self._registration(),
            applied_offset=lambda: replicas.applied_offset,
            on_stale=replicas.stop_leading,
            on_registered=self._mark_running,
        )
        raft.on_leadership(lifecycle.on_leadership)
        blocks = ProducerIdBlocks(forwarded, settings.node_id, lambda: lifecycle.epoch)
        self._producer_ids = producer_ids = ProducerIds(blocks.allocate)
        self.transactions = TransactionCoordinators(
            env,
            settings,
            cache,
            tasks,
            producer_ids,
            self._address_of,
            self._write_markers,
            replicas.on_disk_error,
        )
        self._provide(client_side, forwarded)

    def _open_channels(self, local: Dispatcher | None) -> Sequence[ControllerChannel]:
        """Return the ways to the controller: for heartbeats, for replication, and for requests of clients.

        One for each purpose: answers come in order, and nothing slow that a client asks for may hold up the others.
        """
        env, settings, raft = self._env, self._settings, self._node.raft
        name, terms = f"broker-{settings.node_id}", settings.controller_terms
        return [
            ControllerChannel(env, settings.node_id, raft, local, client_id=f"{name}-{purpose}", terms=terms)
            for purpose in ("heartbeats", "replication", "forwarded")
        ]

    def _make_groups(self, at_once_steps: int) -> GroupCoordinators:
        config = coordinator_config(self._settings, self.replicas.on_disk_error, at_once_steps)
        return GroupCoordinators(self._env, config, self._cache, self._tasks, self.persister)

    def _make_letter_desk(self) -> LetterDesk:
        settings = self._settings
        name, terms = f"broker-{settings.node_id}-dead-letters", settings.inter_broker_terms
        return LetterDesk(BrokerPeers(self._env, self._address_of, client_id=name, terms=terms), LetterCounts())

    def _make_persister(self, patience_us: int) -> ClusterPersister:
        return ClusterPersister(
            self._env.clock,
            self._settings.node_id,
            self._cache,
            self.share_states,
            self._other_states,
            self._create_share_states_topic,
            patience_us=patience_us,
        )

    async def join(self) -> None:
        """Register, recover the logs, and be unfenced; the broker is ready to serve when this returns.

        Raises:
            OperatorError: the node cannot serve like this.
        """
        env, settings, metadata = self._env, self._settings, self._node.metadata
        replicas, lifecycle = self.replicas, self.lifecycle
        epoch = await lifecycle.register()
        await self._until_known(epoch)
        metadata.subscribe(lambda image, delta: self._changes.put_nowait((image, delta)))
        await replicas.load(metadata.image)
        await replicas.tell_gone(self._replication, lambda: lifecycle.epoch)
        self._is_recovered = True
        if replicas.are_whole:
            self._mark_running(lifecycle.epoch)
        else:
            lifecycle.register_as_unclean()
        replicas.connect(self._replication, lambda: lifecycle.epoch)
        self._tasks.start(self._apply_changes(), name="metadata changes")
        await lifecycle.unfence()
        await self._cache.until(lambda image: _is_unfenced(image, settings.node_id))
        directories = self._node.directories.data
        Maintenance(env, settings, replicas, directories, self.trash_guard, self.holds).start(self._tasks)
        self.cleaner.start()

    async def leave(self) -> BrokerEpoch:
        """Give up leadership, ask other nodes nothing more, and end connections; return the broker's epoch."""
        if self._settings.controlled_shutdown_enable:
            await self.lifecycle.controlled_shutdown()
        self.groups.close()
        self.transactions.close()
        self.share_states.close()
        self.replicas.disconnect()
        self._liveness.close()
        self._verification.close()
        self._peers.close()
        self._other_states.close()
        self.letters.peers.close()
        for channel in self._channels:
            channel.close()
        await self._server.close()
        async with self._node.directories.lock:  # a thread does not stop with the task that waits for it
            await self._tasks.stop()
        return self.lifecycle.epoch

    def _provide(self, client_side: ClientSide, controller: ControllerChannel) -> None:
        """Give the dispatcher what its handlers work with."""
        settings, dispatcher = self._settings, client_side.dispatcher
        searches, cpu = asyncio.Semaphore(SEARCHES_AT_A_TIME), CpuShare(self._env.cpu, OPENED_AT_A_TIME)
        services = self._services = Services(
            env=self._env,
            searches=searches,
            searching=cpu,
            node_id=settings.node_id,
            settings=settings,
            metadata=self._cache,
            in_force=lambda: self._node.metadata.image,
            replicas=self.replicas,
            raft=self._node.raft,
            controller=controller,
            producer_ids=self._producer_ids,
            liveness=self._liveness,
            is_current=self._is_current,
            peers=self._peers,
            groups=self.groups,
            holds=self.holds,
            verifier=self.verifier,
            transactions=self.transactions,
            share_states=self.share_states,
            persister=self.persister,
            share_leaders=once(partial(self._make_share_leaders, cpu, searches, dispatcher.turns)),
            access=self._node.access,
            quotas=client_side.quotas,
            features=self._node.features,
        )
        long_requests = dispatcher.long_requests
        dispatcher.provide(
            services,
            {
                ApiKey.PRODUCE: ProduceHandler(services, self._tasks, long_requests).handle,
                ApiKey.FETCH: FetchHandler(services, self._tasks, long_requests).handle,
            },
            make_gate(ListenerKind.BROKER, self._node.access, lambda: self._cache.image),
            lambda: self._cache.image.features,
        )

    async def _create_share_states_topic(self) -> None:
        await importlib.import_module(_AUTO_CREATE).create_missing_topics(self._services, (SHARE_STATES_TOPIC,))

    async def _create_dead_letter_topic(self, name: str) -> ErrorCode:
        code: ErrorCode = await importlib.import_module(_AUTO_CREATE).create_dead_letter_topic(self._services, name)
        return code

    def _make_share_leaders(self, cpu: Cpu, searches: asyncio.Semaphore, turns: "Turns") -> "ShareLeaders":
        # Loaded with the first request about share partitions: most nodes see none.
        from esp.broker.share.leaders import ShareLeaders  # noqa: PLC0415
        from esp.broker.share.led_partition import Parts  # noqa: PLC0415
        from esp.broker.share.letter_post import LetterPost  # noqa: PLC0415
        from esp.broker.share.letter_writer import Parts as LetterParts  # noqa: PLC0415
        from esp.broker.share.log_reads import Searching  # noqa: PLC0415

        post = LetterPost(
            self._cache, self.letters.peers, lambda: self.replicas.settings.current, self._create_dead_letter_topic
        )
        letters = LetterParts(post, self.letters.counts)
        parts = Parts(self.persister, Searching(self._env.clock, cpu, searches), self._tasks, turns, letters)
        return ShareLeaders(self._settings, self._cache, self.replicas, self._node.access, parts)

    def _make_hold_questions(self) -> Questions:
        made: Questions = importlib.import_module(_HOLD_QUESTIONS).PositionQuestions(self._services)
        return made

    def _write_markers(
        self, markers: Sequence[tuple[EndMarker, Sequence[TopicPartition]]]
    ) -> list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]:
        """Write the markers of transactions that this node coordinates into partitions that it leads."""
        written: list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]
        written = _load_marker_writer().write_markers(self._services, markers)
        return written

    def _on_leading(self, hosted: HostedPartition) -> None:
        """A replica here begins to lead in a new epoch: if its partition is one of coordinators, this node coordinates."""
        self.groups.on_leading(hosted)
        self.transactions.on_leading(hosted)
        self.share_states.on_leading(hosted)

    def _on_directory_failed(self) -> None:
        """Let the controller know at once, so that others lead what the directory held."""
        self.lifecycle.set_offline_log_dirs(self.replicas.offline_directories)

    def _on_final_ends(self, ends: Sequence[FinalEnd]) -> None:
        """Let the controller know at once, so that topics that are created again go on where these ended."""
        self.lifecycle.report_final_ends(
            FinalEndOfPartition(
                topic=end.topic, topic_id=end.topic_id, partition=end.partition, end_offset=end.end_offset
            )
            for end in ends
        )

    def _is_current(self) -> bool:
        """True if the controller takes this broker for alive, and the metadata as of a moment ago is applied (BRK-9)."""
        raft, metadata = self._node.raft, self._node.metadata
        contact = raft.leader_contact
        timeout_us = self._settings.controller_quorum_fetch_timeout_ms * 1000
        is_known = raft.is_leader or (
            contact is not None
            and contact.is_caught_up(metadata.image.offset + 1, self._env.clock.monotonic_us(), timeout_us)
        )
        return is_known and self.lifecycle.is_confirmed and self.replicas.applied_offset >= metadata.image.offset

    def _address_of(self, node_id: NodeId) -> Address | None:
        """The address of a broker for other brokers, according to the image that clients see now."""
        listener = self._settings.inter_broker_listener_name
        broker = self._cache.image.brokers.get(node_id)
        return None if broker is None or listener is None else broker.endpoints.get(listener)

    async def _until_known(self, epoch: BrokerEpoch) -> None:
        """Wait until the metadata here is as new as this broker's registration (BRK-5)."""
        metadata = self._node.metadata
        arrived = Waiters(self._env.clock)
        metadata.subscribe(lambda _image, _delta: arrived.wake())
        while (known := metadata.image.brokers.get(self._settings.node_id)) is None or known.epoch < epoch:
            await arrived.wait(_METADATA_POLL_US)

    async def _apply_changes(self) -> None:
        cache = self._cache
        while True:
            image, delta = await self._changes.get()
            before = cache.image
            await self.replicas.apply(image, delta, cache.publish)
            if delta.changed_broker_configs:
                self._server.limits = connection_limits(self.replicas.settings.current)
            self.groups.on_metadata(before, image, delta)
            self.transactions.forget_ended()
            self.share_states.on_metadata(image, delta)
            if any(topic_id in image.trashed_topics for topic_id in delta.deleted_topics):
                self.transactions.on_trashed()
            self._liveness.retain(cache.alive)
            self._peers.retain(cache.alive)
            self._other_states.retain(cache.alive)
            self.letters.peers.retain(cache.alive)
            leaving = (image.brokers.get(node_id) for node_id in delta.changed_brokers)
            self.lifecycle.on_metadata_applied(
                is_awaited=any(broker is not None and broker.in_controlled_shutdown for broker in leaving)
            )

    def _mark_running(self, epoch: BrokerEpoch) -> None:
        """From now on the end of this process alone loses nothing of what its registration rests on (BRK-3)."""
        if self._is_recovered:
            for directory in self._node.directories.all:
                if not directory.is_offline:
                    directory.running_marker.write(self._env.host.boot_id, epoch)

    def _registration(self) -> BrokerRegistration:
        directories = self._node.directories
        return BrokerRegistration(
            node_id=self._settings.node_id,
            cluster_id=directories.cluster_id,
            incarnation_id=self._env.random.uuid(),
            endpoints=self._endpoints,
            security_protocols=protocol_numbers(self._endpoints, self._settings.security_protocols),
            features=self._node.features,
            rack=self._settings.broker_rack,
            log_dirs=directories.ids,
            previous_broker_epoch=previous_broker_epoch(
                directories.all,
                self._env.host.boot_id,
                trusts_running_markers=self._settings.running_marker_enable,
            ),
        )


def _is_unfenced(image: ClusterImage, node_id: NodeId) -> bool:
    """True if the broker is registered and not fenced. It need not be registered any more if an operator has unregistered it meanwhile."""
    broker = image.brokers.get(node_id)
    return broker is not None and not broker.fenced


@once
def _load_marker_writer() -> Any:
    return importlib.import_module(_MARKER_WRITER)
