"""The kind of run that a seed of :mod:`esp.simulation.quorum_tier.cluster` makes."""

from dataclasses import dataclass
from random import Random
from typing import Final

SECOND_US: Final = 1_000_000
KINDS = ("kill", "power", "outage", "stop", "pause", "cut", "cut one way", "lose disk", "snapshot", "add", "remove")
"""The faults, and what operators do."""


@dataclass(frozen=True, slots=True)
class QuorumProfile:
    """The kind of run that a seed makes; times in microseconds, rates per second."""

    voters: int = 3
    observers: int = 1
    """Nodes without the controller role."""
    spares: int = 1
    """Controllers that do not vote at first."""
    kraft_version: int = 1
    faults_per_s: float = 0.5
    kinds: tuple[str, ...] = KINDS
    loss: float = 0.01
    doubled: float = 0.02
    delay_max_us: int = 3_000
    spike_probability: float = 0.01
    spike_max_us: int = SECOND_US
    flush_us_max: int = 8_000
    propose_interval_us: int = 100_000
    targeted: float = 0.0
    """Probability of a fault at the moments where one hurts most: see :mod:`esp.simulation.quorum_tier.cluster`."""
    rolls_back: bool = False
    """True if a majority of the voters loses synced records, which is beyond the promise."""
    loses_leader: bool = False
    """True if in the end, when all is well again, the leader is cut off for a while."""

    def find_interval_us(self, *, is_calm: bool) -> int:
        """Between proposals. When no faults come any more, the check is only whether every member gets on: a few show that."""
        return max(self.propose_interval_us, SECOND_US) if is_calm else self.propose_interval_us

    @classmethod
    def drawn(cls, random: Random) -> "QuorumProfile":
        """A random one: about half of the kinds of faults are off."""
        flavour = random.random()
        if flavour < 0.25:
            return cls.with_new_voters(random)
        if flavour < 0.4:
            return cls.with_aimed_faults(random)
        kinds = tuple(kind for kind in KINDS if random.random() < 0.6)
        kraft_version = int(random.random() < 0.85)
        return cls(
            voters=random.choice((1, 2, 3, 3, 3, 4, 5)),
            observers=random.choice((0, 1, 1)),
            spares=random.choice((0, 1, 2)) if kraft_version else 0,
            kraft_version=kraft_version,
            faults_per_s=random.choice((0.1, 0.3, 1.0, 3.0)),
            kinds=kinds or ("kill",),
            loss=random.choice((0, 0.01, 0.1)),
            doubled=random.choice((0, 0.05)),
            spike_probability=random.choice((0, 0.02, 0.1)),
            flush_us_max=random.choice((2_000, 8_000, 200_000)),
            propose_interval_us=random.choice((50_000, 200_000, 1_000_000)),
            targeted=random.choice((0, 0.1, 0.5)),
            rolls_back=random.random() < 0.15,
            loses_leader=random.random() < 0.2,
        )

    @classmethod
    def with_new_voters(cls, random: Random) -> "QuorumProfile":
        """A random one in which the voters change all the time, so that commits fall between changes; the leader is removed as well."""
        return cls(
            voters=random.choice((3, 3, 5)),
            observers=0,
            spares=random.choice((0, 1, 2)),
            faults_per_s=random.choice((1, 3)),
            kinds=random.choice((("add", "remove"), ("add", "remove", "kill"), ("add", "remove", "snapshot", "pause"))),
            loss=random.choice((0, 0.01)),
            doubled=random.choice((0, 0.05)),
            spike_probability=random.choice((0.02, 0.1)),
            flush_us_max=random.choice((8_000, 200_000)),
            propose_interval_us=50_000,
            targeted=random.choice((0, 0.1)),
        )

    @classmethod
    def with_aimed_faults(cls, random: Random) -> "QuorumProfile":
        """A random one in which hardly an election passes without a fault or a snapshot, and few faults come otherwise."""
        return cls(
            voters=random.choice((3, 5)),
            spares=0,
            faults_per_s=random.choice((0.3, 1)),
            kinds=random.choice((("kill",), ("kill", "pause", "cut"))),
            spike_probability=random.choice((0.01, 0.1)),
            spike_max_us=SECOND_US // 3,
            propose_interval_us=50_000,
            targeted=0.9,
        )
