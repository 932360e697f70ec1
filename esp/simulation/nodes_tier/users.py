"""The users of a run: an administrator that changes their credentials, and the checker of the nodes' metadata."""

from esp.simulation.checkers.credential_checker import CredentialChecker
from esp.simulation.nodes_tier.cluster import bootstrap_addresses, node_host
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.history import History
from esp.simulation.workload.user_setter import UserSetter

_NAME = "user setter"


class Users:
    """The administrator begins only in a run with users.

    Args:
        world: the cluster in which it lives.
        history: counts what it met with.
    """

    def __init__(self, world: World, history: History) -> None:
        self.checker = CredentialChecker()
        self._world = world
        self._history = history
        self._setter: UserSetter | None = None

    def begin(self) -> None:
        """Set the administrator to work, if there are users in this run."""
        world = self._world
        if not world.profile.has_users:
            return
        client = ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), _NAME, world.random(f"client {_NAME}")
        )
        self._setter = UserSetter(
            client,
            world.random(_NAME),
            self._history,
            self.checker,
            self._node_at,
            lambda: tuple(world.nodes.values()),
        )
        world.spawn(self._setter.run())

    def calm(self) -> None:
        """Change no more users."""
        if self._setter is not None:
            self._setter.is_stopping = True

    def _node_at(self, host: str) -> SimulatedNode:
        return next(node for number, node in self._world.nodes.items() if node_host(number) == host)
