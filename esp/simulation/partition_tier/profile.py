"""The kind of run that a seed of the protocol tier makes."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from esp.simulation.streams import stream

SECOND_US: Final = 1_000_000
KINDS: Final = ("kill", "power-loss", "disk-swap", "pause", "cut", "stop")
"""Faults: killed; power lost; back with an empty disk; standing still; cut off; shut down cleanly."""

MOVING_SHARE: Final = 0.2
"""The share of the runs in which replicas come and go."""

MINIMUMS_SHARE: Final = 0.3
"""The share of the runs in which the minimum of in-sync replicas is changed."""

HASTY_SHARE: Final = 0.3
"""The share of the runs in which a replica that lags leaves the in-sync set soon."""

SLICED_SHARE: Final = 0.3
"""The share of the runs in which the product's own controller decides in slices, among those in which it decides."""

STRANDING_SHARE: Final = 0.1
"""The share of the runs in which leaders come to nothing."""

TAIL_LOSING_SHARE: Final = 0.05
"""The share of the runs in which followers lose their last records just when the leader changes."""

LAG_TIME_MAX_US: Final = 3 * SECOND_US

SESSION_US: Final = 2_500_000
"""``broker.session.timeout.ms``."""


@dataclass(frozen=True, slots=True)
class PartitionProfile:
    """The kind of run that a seed makes; times in microseconds, rates per second."""

    replicas: int = 3
    min_insync_replicas: int = 2
    flush_every_batch: bool = False
    unclean_allowed: bool = False
    faults_per_s: float = 0.5
    kinds: tuple[str, ...] = KINDS
    loss: float = 0.01
    delay_max_us: int = 5_000
    spike_probability: float = 0.02
    spike_max_us: int = 2 * SECOND_US
    targeted: float = 0.05
    """Probability of a fault just while the ISR changes."""
    slow_metadata_us: int = 0
    """The delay with which metadata may reach a broker, besides that of messages."""
    produce_interval_us: int = 200_000
    corruption: float = 0.0
    """Probability that a fetched answer has a wrong byte."""
    batches_per_fetch: int = 8
    deletes: bool = True
    """True if leaders let go of old records."""
    tells_high_watermark: bool = True
    """True if a fetch that commits something is answered at once."""
    decides: bool = False
    """True if the product's own controller decides (:mod:`esp.simulation.partition_tier.decisions`)."""
    decides_in_slices: bool = False
    """True if that controller decides in two slices, up to half a second apart, where a broker with very many partitions leaves."""
    ends_deaf: bool = False
    """True if in the end, when all is well again, one follower hears nothing of its leader for a while."""
    spares: int = 0
    """Brokers besides those that have replicas. With any, replicas come and go, and the product's own controller decides."""
    streams: bool = False
    """True if that follower comes back while records keep coming."""
    lag_time_max_us: int = LAG_TIME_MAX_US
    """``replica.lag.time.max.ms``."""
    minimums: tuple[int, ...] = ()
    """The values that ``min.insync.replicas`` takes during the run, the first value among them; it does not change if there are none."""
    has_own_minimum: bool = True
    """True if the topic has a minimum of its own; else that of all topics is changed."""

    strands: float = 0.0
    """Probability that a leader that was just elected stands still at once (:mod:`esp.simulation.partition_tier.stranded_leaders`)."""

    loses_tails: bool = False
    """True if followers lose their last records just when the leader changes (KAFKA-7128)."""

    def with_minimums(self, random: Random) -> "PartitionProfile":
        """In some of the runs, the same with an administrator that changes the minimum, and metadata that come late."""
        if random.random() >= MINIMUMS_SHARE or self.streams:
            return self
        minimums = random.choice(((1, 2), (1, 2), (2, 3), (1, 2, 3)))
        return replace(
            self,
            minimums=minimums,
            min_insync_replicas=random.choice(minimums),
            has_own_minimum=random.random() < 0.5,
            slow_metadata_us=random.choice((0, SECOND_US // 2, 3 * SECOND_US)),
        )

    def with_haste(self, random: Random) -> "PartitionProfile":
        """In some of the runs, the same with a short time for lagging."""
        if random.random() >= HASTY_SHARE:
            return self
        return replace(self, lag_time_max_us=random.choice((4, 8, 15)) * SECOND_US // 10)

    def with_strandings(self, random: Random) -> "PartitionProfile":
        """In some of the runs, the same with leaders that come to nothing, and with messages that come much later than others."""
        if random.random() >= STRANDING_SHARE or self.streams:
            return self
        return replace(
            self,
            strands=0.5,
            kinds=tuple(sorted({"kill", *self.kinds})),
            faults_per_s=random.choice((0.3, 1.0)),
            spike_probability=0.1,
        )

    def with_lost_tails(self, random: Random) -> "PartitionProfile":
        """In some of the runs, the same with three replicas or more, and with power losses only, at changes of the leader."""
        if random.random() >= TAIL_LOSING_SHARE or self.streams or self.strands:
            return self
        return replace(
            self,
            loses_tails=True,
            replicas=max(3, self.replicas),
            min_insync_replicas=2,
            minimums=(),
            flush_every_batch=False,
            kinds=("power-loss",),
            targeted=1.0,
            faults_per_s=0.3,
        )

    def with_moves(self, random: Random) -> "PartitionProfile":
        """In some of the runs, the same with brokers to spare and an administrator that moves the replicas about."""
        if random.random() >= MOVING_SHARE or self.streams:
            return self
        return replace(self, spares=random.choice((1, 1, 2)), decides=True, ends_deaf=False)

    @classmethod
    def of_seed(cls, seed: int, random: Random) -> "PartitionProfile":
        """Return the profile of a seed; ``random`` is the stream of the run itself, of which its first part is drawn."""
        profile = cls.drawn(random).with_moves(stream("partition moves", seed))
        profile = profile.with_minimums(stream("partition minimums", seed)).with_haste(stream("haste", seed))
        profile = profile.with_strandings(stream("stranded leaders", seed)).with_lost_tails(stream("lost tails", seed))
        return replace(profile, decides_in_slices=stream("decisions in slices", seed).random() < SLICED_SHARE)

    @classmethod
    def drawn(cls, random: Random) -> "PartitionProfile":
        """A random one: about half of the kinds of faults are off."""
        if random.random() < 0.04:
            return cls.with_a_stream(random)
        kinds = tuple(kind for kind in KINDS if random.random() < 0.6)
        replicas = random.choice((2, 3, 3, 3, 4))
        return cls(
            replicas=replicas,
            min_insync_replicas=random.choice((1, 2, 2, 2)),
            flush_every_batch=random.random() < 0.15,
            unclean_allowed=random.random() < 0.1,
            faults_per_s=random.choice((0.1, 0.3, 1.0)),
            kinds=kinds or ("kill",),
            loss=random.choice((0, 0.01, 0.1)),
            spike_probability=random.choice((0, 0.02, 0.1)),
            targeted=random.choice((0, 0.1, 0.5)),
            produce_interval_us=random.choice((50_000, 200_000, 800_000)),
            corruption=random.choice((0, 0, 0.02)),
            batches_per_fetch=random.choice((1, 2, 8)),
            deletes=random.random() < 0.4,
            tells_high_watermark=random.random() < 0.5,
            slow_metadata_us=random.choice((0, 0, 0, 3 * SECOND_US)),
            decides=random.random() < 0.4,
            ends_deaf=random.random() < 0.1,
        )

    @classmethod
    def with_a_stream(cls, random: Random) -> "PartitionProfile":
        """A random one with few faults, at whose end a follower has to catch up with a leader that commits alone, and never rests."""
        return cls(
            replicas=2,
            min_insync_replicas=1,
            faults_per_s=0.1,
            kinds=("kill", "pause"),
            decides=random.random() < 0.4,
            batches_per_fetch=64,
            deletes=False,
            ends_deaf=True,
            streams=True,
        )
