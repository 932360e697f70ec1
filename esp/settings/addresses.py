"""The addresses in a node's settings: listeners, and the members of the metadata quorum."""

from typing import Final, NamedTuple

from esp.model.ids import NodeId
from esp.settings.setting import INT_MAX

ANY_PORT: Final = 0
"""As a listener's port: whichever is free."""

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's, each at its own number; listeners are named after them unless the settings say otherwise."""

DEFAULT_LISTENER: Final = "PLAINTEXT"
DEFAULT_CONTROLLER_LISTENER: Final = "CONTROLLER"

METRICS: Final = "METRICS"
"""The name of the metrics' listener, if it speaks TLS: for settings that are its own."""


class Listener(NamedTuple):
    """One entry of ``listeners`` or ``advertised.listeners``: its name, and the host and port behind ``name://``.

    An empty host means every address of the machine in ``listeners``, and the machine's own name in ``advertised.listeners``.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{_bracketed(self.host)}:{self.port}"


class ListenerLimits(NamedTuple):
    """The limits of one listener: ``listener.name.NAME.max.connections`` and ``listener.name.NAME.max.connection.creation.rate``."""

    max_connections: int = INT_MAX
    creation_rate: int = INT_MAX


class QuorumVoter(NamedTuple):
    """One entry of ``controller.quorum.voters``: a controller's number, and where it listens for the others."""

    node_id: NodeId
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{_bracketed(self.host)}:{self.port}"


class QuorumServer(NamedTuple):
    """One entry of ``controller.quorum.bootstrap.servers``: where some controller of the cluster can be asked for the leader."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


class MetricsListener(NamedTuple):
    """``metrics.listener``: where this node tells Prometheus of itself; port 0 is any."""

    host: str
    port: int
    is_encrypted: bool = False

    def __str__(self) -> str:
        return f"{'SSL://' if self.is_encrypted else ''}{_bracketed(self.host)}:{self.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
