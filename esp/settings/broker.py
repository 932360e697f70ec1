"""A node's own settings, typed, for the code to read. They are read from text by :mod:`esp.settings.node`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from esp.model.delegation_terms import DelegationTerms
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.model.tls import TlsPolicy
from esp.settings.addresses import LOOPBACK_HOSTS, Listener, QuorumServer
from esp.settings.setting import Kind, at_least, one_of, setting
from esp.settings.subjects.access import AccessSettings
from esp.settings.subjects.groups import GroupSettings
from esp.settings.subjects.log import LogSettings
from esp.settings.subjects.network import NetworkSettings
from esp.settings.subjects.quorum import QuorumSettings
from esp.settings.subjects.replication import ReplicationSettings
from esp.settings.subjects.share import ShareSettings
from esp.settings.subjects.throttles import ThrottleSettings
from esp.settings.subjects.topics import TopicDefaults
from esp.settings.subjects.transactions import TransactionSettings

DEFAULT_NODE_ID: Final = NodeId(1)

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
ROLES: Final = (BROKER, CONTROLLER)


@dataclass(frozen=True, slots=True)
class BrokerSettings(
    ShareSettings,
    TransactionSettings,
    GroupSettings,
    LogSettings,
    TopicDefaults,
    ThrottleSettings,
    ReplicationSettings,
    AccessSettings,
    QuorumSettings,
    NetworkSettings,
):
    """A node's effective settings: its file and command line over Kafka's defaults.

    Each setting is declared once, here or in the class of its subject: tables and configurations are made of these fields. A field is
    Kafka's setting of that name with dots as underscores, in Kafka's units (``_ms``: milliseconds, ``_bytes``: bytes), with these
    differences: ``log_retention_ms``, ``log_roll_ms``, ``log_roll_jitter_ms``, ``log_flush_interval_ms`` hold what their families of
    settings (``.ms`` before ``.minutes`` before ``.hours``) come to; ``log_dirs`` holds ``log.dir`` where only that is set;
    ``inter_broker_listener_name`` is always one of the advertised listeners on a node with the broker role, and None on others;
    ``replica_selector_class`` is :data:`~esp.settings.subjects.replication.RACK_AWARE_SELECTOR` or None, ``authorizer_class_name``
    :data:`~esp.settings.subjects.access.STANDARD_AUTHORIZER` or None; ``super_users`` are the principals.

    Without any file a node is broker and controller in one, on the loopback address, and a metadata quorum of its own.
    """

    node_id: NodeId = setting(DEFAULT_NODE_ID, Kind.INT, "The node's number, unique in its cluster.", at_least(0))
    process_roles: tuple[str, ...] = setting(
        ROLES, Kind.LIST, "Roles of the node: broker, controller, or both.", one_of(*ROLES)
    )
    broker_rack: str | None = setting(
        None, Kind.STRING, "The failure domain of the node, for the placement of replicas."
    )
    explicit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The settings that the file or the command line gave, as text: for DescribeConfigs."""

    @property
    def is_broker(self) -> bool:
        """True if the node keeps partitions and serves clients."""
        return BROKER in self.process_roles

    @property
    def is_controller(self) -> bool:
        """True if the node may vote in the metadata quorum and lead it."""
        return CONTROLLER in self.process_roles

    @property
    def is_quorum_of_its_own(self) -> bool:
        """True if the settings make this node the whole metadata quorum: then it formats new directories by itself.

        So it is where they name no other controller: neither as a voter nor as a bootstrap server. A bootstrap server that is this node's
        own controller listener, as in the file that Kafka brings along, is no other.
        """
        if not self.is_controller:
            return False
        if self.controller_quorum_voters:
            return [voter.node_id for voter in self.controller_quorum_voters] == [self.node_id]
        return all(map(self._is_own, self.controller_quorum_bootstrap_servers))

    def _is_own(self, server: QuorumServer) -> bool:
        listeners = (*self.controller_listeners, *self.advertised_controller_listeners)
        return any(
            server.port == listener.port and (server.host == listener.host or server.host in LOOPBACK_HOSTS)
            for listener in listeners
        )

    @property
    def inter_broker_terms(self) -> PeerTerms:
        """The terms of connections to other brokers."""
        return PeerTerms(self.tls.get(self.inter_broker_listener_name or ""), self.inter_broker_login)

    @property
    def controller_terms(self) -> PeerTerms:
        """The terms of connections to controllers."""
        return PeerTerms(self.tls.get(self.controller_listener_names[0]), self.controller_login)

    @property
    def tls_policies(self) -> tuple[TlsPolicy, ...]:
        """The terms of all encrypted connections: those of listeners, and those to identity providers."""
        terms = (
            *(each.oauth for each in self.sasl.values()),
            *(login.oauth for login in (self.inter_broker_login, self.controller_login) if login is not None),
        )
        of_providers = (each.tls for each in terms if each is not None)
        return tuple(dict.fromkeys((*self.tls.values(), *(each for each in of_providers if each is not None))))

    @property
    def delegation_terms(self) -> DelegationTerms:
        """The terms on which this node makes delegation tokens and takes them."""
        return DelegationTerms(
            key=self.delegation_token_secret_key or "",
            accepted_key=self.delegation_token_accepted_secret_key or "",
            max_lifetime_ms=self.delegation_token_max_lifetime_ms,
            expiry_time_ms=self.delegation_token_expiry_time_ms,
            check_interval_ms=self.delegation_token_expiry_check_interval_ms,
        )

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients and other brokers connect to."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the metadata quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)
