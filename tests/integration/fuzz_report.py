"""What a run of hostile clients came to: what was sent, what the node took, what its honest client noticed."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.integration.honest_client import Latency, percentile

MIB: Final = 1024 * 1024

MEMORY_MAX_BYTES: Final = 600 * MIB
"""A bound for the node's own memory under the settings of a run."""


LOG_MAX_BYTES_PER_S: Final = 20_000
"""A bound for what a node logs while it is attacked: a hundred lines in ten seconds of each kind of message (the log's flood filter)."""


class Descriptors(NamedTuple):
    """What a process has open. Files become more with the topics that the attackers create."""

    files: int
    sockets: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """Count those of a process (Linux)."""
        sockets = files = 0
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it has just been closed
                is_socket = str(path.readlink()).startswith("socket:")
                sockets += is_socket
                files += not is_socket
        return cls(files, sockets)


@dataclass
class Tally:
    """What one kind of attack came to."""

    attacks: int = 0
    connections: int = 0
    requests: int = 0


@dataclass
class Phase:
    """A time of a run: in which nobody attacks, or in one way only, or in all ways."""

    name: str
    begun_s: float
    latencies: list[Latency] = field(default_factory=list)
    """The latencies of the honest requests to the node that began in the phase."""
    control: list[Latency] = field(default_factory=list)
    """The latencies of the honest requests to its twin, which is not attacked, on the same machine in the same time."""

    @property
    def of_node_p99_ms(self) -> float:
        """What honest requests took of the node."""
        return percentile([latency.of_node_ms for latency in self.latencies], 99)

    @property
    def times_p99(self) -> float:
        """How many times as long honest requests take in all, at the 99th percentile, as those of the node's twin."""
        control_ms = percentile([latency.ms for latency in self.control], 99)
        return percentile([latency.ms for latency in self.latencies], 99) / control_ms

    @property
    def times_of_node_p99(self) -> float:
        """The same of what they take of the node."""
        control_ms = percentile([latency.of_node_ms for latency in self.control], 99)
        return self.of_node_p99_ms / control_ms if control_ms else float("nan")


@dataclass
class Report:
    """What a run came to."""

    seed: int
    seconds: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    phases: list[Phase] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    """The node's own memory in bytes, now and then: without pages of mapped files, which the kernel takes back as it likes."""
    descriptors: list["Descriptors"] = field(default_factory=list)
    """The node's, now and then; the first before, the last after the attacks."""
    log_bytes: int = 0
    """What the node has logged under attack."""
    crashes: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def under_attack(self) -> Phase:
        """All phases after the first, as one."""
        phases = self.phases[1:]
        return Phase(
            "under attack, in all",
            phases[0].begun_s if phases else float("nan"),
            [latency for phase in phases for latency in phase.latencies],
            [latency for phase in phases for latency in phase.control],
        )

    def __str__(self) -> str:
        answered = sum(len(phase.latencies) for phase in self.phases)
        connections = sum(tally.connections for tally in self.tallies.values())
        return "\n".join(
            (
                f"seed {self.seed}, {self.seconds:.0f} s, {connections} hostile connections",
                *(
                    f"  {tally.attacks} x {name}: {tally.connections} connections, {tally.requests} requests"
                    for name, tally in sorted(self.tallies.items())
                ),
                f"  memory: {self.memory[0] // MIB} MiB before, {max(self.memory) // MIB} MiB at most (bound {MEMORY_MAX_BYTES // MIB})",
                *(
                    f"  open {kind}: {counts[0]} before, {max(counts)} at most, {counts[-1]} after"
                    for kind, counts in zip(Descriptors._fields, zip(*self.descriptors, strict=True), strict=True)
                ),
                f"  log: {self.log_bytes // 1024} KiB",
                f"  an honest client: {answered} requests answered; beside each phase, those to a twin that nobody attacked",
                *(
                    f"    {phase.name}: {described(phase.latencies)}\n"
                    f"      its twin: {described(phase.control)}\n"
                    f"      p99 x {phase.times_p99:.2f} in all, x {phase.times_of_node_p99:.2f} of the node"
                    for phase in (*self.phases, self.under_attack)
                ),
                f"  crashes: {self.crashes}",
                f"  failures: {len(self.failures)}",
                *(f"    {failure}" for failure in self.failures[:20]),
            )
        )


def described(latencies: Sequence[Latency]) -> str:
    """Their distribution in one line."""
    texts = [f"{len(latencies)} requests"]
    for name, values in (
        ("in all", [latency.ms for latency in latencies]),
        ("of the node", [latency.of_node_ms for latency in latencies]),
    ):
        p50, p99, p999 = (percentile(values, percent) for percent in (50, 99, 99.9))
        texts.append(f"{name} p50 {p50:.2f} p99 {p99:.2f} p99.9 {p999:.1f} ms")
    return "; ".join(texts)
