"""What each program of the ecosystem gets for its run, and what comes out of it."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import SHORT_RUN_OPTIONS, KafkaTools
from tests.ecosystem.killer import Killer, NodeVictim
from tests.ecosystem.program import Program

NODE_KILL_EVERY_S: Final = 10.0
KILLS_GRACE_S: Final = 240.0
"""On top of the pauses between kills: starts of programs and nodes, and replicas that catch up."""


@dataclass
class Outcome:
    """A row of the report."""

    program: str
    kills: int
    records: int
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Stage:
    """A running cluster, and the program's surroundings.

    Attributes:
        product: what the cluster's nodes are, of :data:`tests.ecosystem.clusters.PRODUCTS`.
        cluster: the cluster under test.
        broker_tools: the jars of Kafka's broker and tools.
        jars: the jars of the ecosystem.
        directory: for files of the program.
        kills: the number of times that processes of the program are killed.
        kill_nodes: True if the cluster's nodes are killed in turn as well.
    """

    product: str
    cluster: Cluster
    broker_tools: KafkaTools
    jars: KafkaTools
    directory: Path
    kills: int
    kill_nodes: bool
    programs: list[Program] = field(default_factory=list)

    @property
    def replication_factor(self) -> int:
        """The number of replicas that topics get."""
        return min(3, len(self.cluster.nodes))

    def program(self, main_class: str, arguments: Sequence[str], name: str) -> Program:
        """Return a program of the ecosystem that is not started yet; it is gone when the stage ends."""
        return self._java(self.jars, main_class, arguments, name)

    def tool(self, tool: str, arguments: Sequence[str], name: str) -> Program:
        """Return one of Kafka's tools likewise."""
        return self._java(self.broker_tools, tool, arguments, name)

    def module(self, module: str, arguments: Sequence[str], name: str) -> Program:
        """Return a module of Python's, run as a program, likewise."""
        return self._kept([sys.executable, "-m", module, *arguments], name)

    def _java(self, jars: KafkaTools, main_class: str, arguments: Sequence[str], name: str) -> Program:
        return self._kept(jars.command(main_class, *arguments, heap="384m", options=SHORT_RUN_OPTIONS), name)

    def _kept(self, command: Sequence[str], name: str) -> Program:
        program = Program(command, directory=self.directory, name=name)
        self.programs.append(program)
        return program

    @property
    def node_kills_wanted(self) -> int:
        """The number of kills of nodes that a run lasts for at least: each node once."""
        return len(self.cluster.nodes) if self.kill_nodes else 0

    @contextlib.contextmanager
    def node_kills(self) -> Iterator[Killer]:
        """Kill the nodes in turn while the body runs, if that is asked for."""
        victims = [NodeVictim(self.cluster, number) for number in self.cluster.nodes] if self.kill_nodes else []
        with Killer(victims, NODE_KILL_EVERY_S) as killer:
            yield killer

    def own_ends(self, programs: Sequence[Program]) -> list[str]:
        """Return the ends of programs that no kill explains, as violations; with nodes killed a program may give up."""
        if self.kill_nodes:
            return []
        ends = {program.name: program.own_ends + (not program.is_running) for program in programs}
        return [f"{name} ended by itself ({count} times)" for name, count in ends.items() if count]

    def close(self) -> None:
        """End all programs."""
        for program in self.programs:
            program.kill()

    @property
    def output(self) -> str:
        """The end of what programs and nodes wrote."""
        return "\n".join([*(program.output for program in self.programs), self.cluster.output])
