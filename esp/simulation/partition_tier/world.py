"""The world of one run, as the actors in it see it that are not nodes: producers, administrators."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from esp.model.ids import NodeId
from esp.simulation.partition_tier.checks import PartitionChecks
from esp.simulation.partition_tier.controller import PartitionController
from esp.simulation.partition_tier.decisions import DecidingController
from esp.simulation.partition_tier.node import PartitionNode
from esp.simulation.partition_tier.profile import PartitionProfile


class PartitionWorld(Protocol):
    """A partition's brokers, its controller, and the network between them and their clients."""

    random: Random
    profile: PartitionProfile
    now_us: int
    is_calm: bool
    """True if there are no more faults."""
    is_quiet: bool
    """True if there is no more load."""
    checks: PartitionChecks
    controller: PartitionController | DecidingController

    @property
    def nodes(self) -> Sequence[PartitionNode]:
        """The brokers, by their ids."""

    def later(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call ``action`` after so much simulated time."""

    def delay_us(self) -> int:
        """The time for which a message is under way."""

    def arrive(
        self, node: PartitionNode, incarnation: int, action: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        """Something reaches a process, if that still runs."""

    def pause(self, node: PartitionNode, duration_us: int) -> None:
        """Let a node stand still for a while."""

    def cut_off(self, node: NodeId, duration_us: int) -> None:
        """Let neither clients nor other nodes reach a node for a while, nor it them; the controller and it hear one another."""

    def is_cut_off(self, node: NodeId) -> bool:
        """True if clients do not reach a node."""

    def note(self, line: str) -> None:
        """A line of the trace, if one is kept."""
