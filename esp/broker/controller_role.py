"""The controller role of a node: it votes, and leads the cluster when it is elected.

Its listeners serve as soon as the quorum is joined; requests that need the active controller are refused while that is another one. A
controller registers itself with the active one, itself or another, so that the metadata names all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from esp.broker.authorization.loading import make_gate
from esp.broker.connections.connection_limits import connection_limits
from esp.broker.connections.dispatcher import Dispatcher, MakeDispatcher
from esp.broker.connections.server import Server
from esp.broker.controller.config import controller_config
from esp.broker.controller.driver import ControllerDriver
from esp.broker.controller.registrar import ControllerRegistrar
from esp.broker.controller.services import ControllerServices
from esp.broker.controller_client.channel import ControllerChannel
from esp.broker.formatting import first_metadata_blocking
from esp.broker.limits import REAL_LIMITS, NodeLimits
from esp.broker.live_settings import LiveSettings
from esp.broker.quotas.switch import QuotaSwitch
from esp.broker.running_node import RunningNode
from esp.broker.tasks import Tasks
from esp.controller.brokers import ControllerRegistration, protocol_numbers
from esp.controller.features import find_unsupported
from esp.controller.image import ClusterDelta, ClusterImage, FeatureRange
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.registry import ListenerKind
from esp.raft.voters import VoterEndpoint
from esp.settings.addresses import Listener
from esp.settings.broker import BrokerSettings


@dataclass(frozen=True, slots=True)
class RunningController:
    """The parts of a controller that exist from its start."""

    driver: ControllerDriver
    channel: ControllerChannel
    """By which it registers itself."""


class ControllerRole:
    """The controller of one node.

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
        self._env = env
        self._settings = settings
        self._limits = limits
        self._tasks = Tasks(env.host)
        self.dispatcher = make_dispatcher(ListenerKind.CONTROLLER, None, self._tasks, env.clock)
        """Answers what is sent to the controller listeners, and what this node's own broker asks."""
        self.listening: list[Address] = []
        """The addresses of the controller listeners, once they are bound."""
        self.server = Server(env, self.dispatcher, connection_limits(settings))
        self.running: RunningController | None = None
        """None until :meth:`start`."""
        self._endpoints: tuple[VoterEndpoint, ...] = ()

    async def bind(self) -> tuple[VoterEndpoint, ...]:
        """Bind the listeners, and return where other controllers find them; what is sent there waits for :meth:`start`.

        Raises:
            OperatorError: an address cannot be bound.
        """
        told = {listener.name: listener for listener in self._settings.advertised_controller_listeners}
        for listener in self._settings.controller_listeners:
            bound = await self.server.listen(
                listener.name,
                Address(listener.host, listener.port),
                self._settings.tls.get(listener.name),
                self._settings.sasl.get(listener.name),
            )
            self.listening.append(bound)
            self._endpoints += (self._endpoint(told.get(listener.name, listener), bound),)
        return self._endpoints

    def _endpoint(self, told: Listener, bound: Address) -> VoterEndpoint:
        return VoterEndpoint(told.name, told.host or self._env.host.name, told.port or bound.port)

    def start(self, node: RunningNode) -> None:
        """Be ready to lead, and serve; the node does not take part in the quorum yet."""
        env, settings = self._env, self._settings
        cluster_id, raft, metadata = node.directories.cluster_id, node.raft, node.metadata
        metadata.subscribe(lambda image, _delta: self._require_features(image, node.features))
        first = first_metadata_blocking(env, node.directories.metadata.path)
        limits = self._limits
        config = controller_config(
            settings, cluster_id, node.features, first, limits.batch_records_max, limits.slice_changes_max
        )
        quotas = QuotaSwitch()
        quotas.start(env.clock, settings, self._tasks, self.server.clients)
        metadata.subscribe(quotas.follow)
        metadata.subscribe(self._follow_limits)
        driver = ControllerDriver(env, config, raft, metadata, self._tasks)
        driver.start()
        self.dispatcher.provide(
            ControllerServices(
                env=env,
                node_id=settings.node_id,
                cluster_id=cluster_id,
                settings=settings,
                raft=raft,
                metadata=metadata,
                controller=driver,
                access=node.access,
                answer_enclosed=self.dispatcher.answer_enclosed,
                quotas=quotas,
                features=node.features,
            ),
            gate=make_gate(ListenerKind.CONTROLLER, node.access, lambda: metadata.image),
        )
        channel = ControllerChannel(
            env,
            settings.node_id,
            raft,
            self.dispatcher,
            client_id=f"controller-{settings.node_id}-registration",
            terms=settings.controller_terms,
        )
        self.running = RunningController(driver, channel)
        ControllerRegistrar(env, self._tasks, channel, metadata, self._registration(node.features)).start()
        self.server.open(lambda: metadata.image, settings.delegation_terms)

    def _registration(self, features: Mapping[str, FeatureRange]) -> ControllerRegistration:
        addresses = {endpoint.listener: Address(endpoint.host, endpoint.port) for endpoint in self._endpoints}
        return ControllerRegistration(
            node_id=self._settings.node_id,
            incarnation_id=self._env.random.uuid(),
            endpoints=addresses,
            security_protocols=protocol_numbers(addresses, self._settings.security_protocols),
            features=features,
        )

    def _follow_limits(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Hold new connections against the limits of other settings of nodes."""
        if delta.changed_broker_configs:
            live = LiveSettings(self._settings.node_id, self._settings)
            live.update(image)
            self.server.limits = connection_limits(live.current)

    def _require_features(self, image: ClusterImage, features: Mapping[str, FeatureRange]) -> None:
        """A controller that was not registered, or not as it is now, when a level was raised, can lead the cluster no more (KIP-584)."""
        for problem in find_unsupported(image.features, features):
            self._env.host.fatal(f"{problem}; use the release that the other nodes use, or a newer one")

    def stop(self) -> None:
        """Decide nothing more. What others ask of the quorum is still answered."""
        assert self.running is not None, "only a controller that has started is stopped"
        self.running.channel.close()
        self.running.driver.close()

    async def close(self) -> None:
        """End all connections, and what was still at work for them."""
        await self.server.close()
        await self._tasks.stop()
