"""The transactional producers of a run, and the settings with which their transactions end within seconds."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.settings.broker import BrokerSettings
from esp.simulation.nodes_tier.compaction_profile import CompactionProfile
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.streams import stream
from esp.transactions.transaction import EPOCH_MAX

TRANSACTIONS_SHARE: Final = 0.2
"""The share of all runs that have transactions."""

OFFSETS_SHARE: Final = 0.5
"""The share of the transactional ids whose transactions commit offsets of a group, too."""

TRANSACTIONAL_TOPIC: Final = "transactional"
"""The topic to which all transactional producers write, and no other one does."""

ABORT_INTERVAL_MS: Final = 500
"""``transaction.abort.timed.out.transaction.cleanup.interval.ms``: shorter than any operator's, so that transactions time out in a run."""

REMOVE_INTERVAL_MS: Final = 1_000
"""``transaction.remove.expired.transaction.cleanup.interval.ms``, for the same reason."""

EXPIRATION_MS: Final = 3_000
"""``transactional.id.expiration.ms`` where ids expire: longer than most pauses between transactions, shorter than many a time-out."""

EXPIRING_SHARE: Final = 0.3
"""The share of the runs with transactions in which ids expire that are not used for a while."""

EXHAUSTED_SHARE: Final = 0.25
"""The share of them in which the epochs of new ids begin just below the last one."""

COMPACTED_SHARE: Final = 0.4
"""The share of them in which the coordinators' logs are compacted during the run."""

COMPACTED_DATA_SHARE: Final = 0.4
"""The share of them in which the topic of the transactional producers is compacted, and its records have a few keys."""

MARKERS_STAY_MS: Final = 7 * 24 * 3_600_000
"""``delete.retention.ms`` of that topic where it is replicated: longer than any replica is away, by clocks that jump, too (decision 45)."""

FAULTS_SHARE: Final = 0.5
"""The share of them in which a fault that is aimed at coordinators comes, for each such fault."""

FAULTS_MEAN_S: Final[Mapping[FaultKind, tuple[float, float]]] = {
    FaultKind.AT_DECISION: (2, 15),
    FaultKind.LOST_MARKER_ANSWERS: (2, 15),
    FaultKind.STALE_COORDINATOR: (4, 20),
}
"""Least and most seconds between two of them, on the average."""

ALONE_SHARE: Final = 0.06
"""The share of all runs in which next to nothing but transactions goes on, so that much becomes of them in little time."""

ALONE_CHAOS_S: Final = (15.0, 25.0)
"""Least and most seconds for which faults come in such a run."""

DELAY_ALONE_S: Final = 4.0
"""Mean seconds between two of the times at which all that goes to and from a node is late, in such a run."""

STATE_CONFIGS: Final[Mapping[str, str]] = {"segment.ms": "700", "min.cleanable.dirty.ratio": "0.1"}
"""The settings of the coordinators' topic where its logs are compacted."""

STATE_BACKOFF_MS: Final = 500
"""``log.cleaner.backoff.ms`` there."""

LEVEL: Final = 2
"""The level of ``transaction.version`` to which a cluster is raised that begins below it."""

LOWER_LEVEL: Final = 1
"""The level at which transactions run for a while in some of these clusters."""

RISING_SHARE: Final = 0.5
"""The share of the runs in which a cluster that begins below LEVEL is raised to it while transactions run, and not before the first one."""

RISE_S: Final = (1.0, 12.0)
"""Least and most seconds after the first transaction at which it is raised then."""

FIRST_LEVELS: Final = (LEVEL, LEVEL, 0, 1)
"""The levels with which clusters begin, one as likely as the other: half of them as new ones do, the others as those that are upgraded."""


@dataclass(frozen=True, slots=True)
class TransactionalIdProfile:
    """One transactional id; times in seconds."""

    name: str
    version: int
    """The version of the protocol that its clients use, 1 or 2 (KIP-890)."""
    timeout_s: float
    """``transaction.timeout.ms``."""
    pause_s: float
    """Mean time between two transactions."""
    life_s: float
    """Mean time until another instance of the application takes the id over."""
    zombie_share: float
    """The share of the instances that live on when another one has taken over."""
    commits_offsets: bool = False
    """True if each transaction commits an offset of a group, too."""


@dataclass(frozen=True, slots=True)
class TransactionProfile:
    """The transactions of a run, and the topics in which they live."""

    ids: tuple[TransactionalIdProfile, ...]
    partitions: int
    """The number of partitions of the topic that is written to."""
    replication_factor: int
    segment_ms: int
    state_partitions: int
    """``transaction.state.log.num.partitions``."""
    min_insync_replicas: int
    """``min.insync.replicas`` of both topics."""
    first_epoch: int = 0
    """The epoch of a new id's producer: near the last one in some runs, so that epochs are exhausted (TXN-3)."""
    expires: bool = False
    """True if ids expire that are not used for some seconds."""
    compacts: bool = False
    """True if the coordinators' logs are compacted."""
    compaction: CompactionProfile | None = None
    """The compaction of the topic that is written to; None where its records have no keys."""
    is_alone: bool = False
    """True if next to nothing else goes on in the run."""
    rises_s: float | None = None
    """Seconds from the first transaction until a cluster that begins below LEVEL is raised to it; None: it is raised before."""

    @classmethod
    def draw(cls, rng: Random, brokers: int, copies: int) -> "TransactionProfile | None":
        """The transactions of a cluster of so many brokers, in which a partition has at most so many copies; None for most runs."""
        return None if rng.random() >= TRANSACTIONS_SHARE else cls._draw(rng, brokers, copies)

    @classmethod
    def _draw(cls, rng: Random, brokers: int, copies: int) -> "TransactionProfile":
        return cls(
            ids=tuple(_draw_id(rng, f"txn-{number}") for number in range(rng.choice((1, 2, 2, 3)))),
            partitions=rng.choice((1, 2, 3)),
            replication_factor=copies,
            segment_ms=rng.choice((1_000, 5_000, 3_600_000)),
            state_partitions=rng.choice((1, 1, 2)),
            min_insync_replicas=min(2, brokers, copies),
        )

    @classmethod
    def draw_of(cls, seed: int, brokers: int, copies: int) -> "TransactionProfile | None":
        """The transactions of a seed's run, with what was added to :meth:`draw` later and has streams of its own."""
        is_alone = stream("transactions alone", seed).random() < ALONE_SHARE
        rng = stream("transactions", seed)
        drawn = cls.draw(rng, brokers, copies)
        if drawn is None and is_alone:
            drawn = cls._draw(rng, brokers, copies)
        if drawn is None:
            return None
        last = stream("last epochs", seed)
        compaction = stream("compaction of transactions", seed)
        rise = stream("rise of the level of transactions", seed)
        return dataclasses.replace(
            drawn,
            first_epoch=EPOCH_MAX - last.randint(0, 2) if last.random() < EXHAUSTED_SHARE else 0,
            expires=stream("expiry of transactional ids", seed).random() < EXPIRING_SHARE,
            compacts=stream("compaction of coordinators' logs", seed).random() < COMPACTED_SHARE,
            compaction=(_draw_compaction(compaction, copies) if compaction.random() < COMPACTED_DATA_SHARE else None),
            is_alone=is_alone,
            rises_s=rise.uniform(*RISE_S) if rise.random() < RISING_SHARE else None,
        )

    def draw_faults(self, seed: int) -> dict[FaultKind, float]:
        """The faults that are aimed at coordinators, with the mean seconds between two of a kind."""
        rng = stream("faults of coordinators", seed)
        means_s = {}
        for kind, (low, high) in FAULTS_MEAN_S.items():
            is_on, mean_s = rng.random() < FAULTS_SHARE, low * (high / low) ** rng.random()
            if is_on or self.is_alone:
                means_s[kind] = mean_s
        return means_s

    def without_offsets(self) -> "TransactionProfile":
        """The same, without offsets in the transactions: those of a group without members expire where any do."""
        return dataclasses.replace(self, ids=tuple(dataclasses.replace(one, commits_offsets=False) for one in self.ids))

    def applied_to(self, settings: BrokerSettings) -> BrokerSettings:
        """A node's settings in such a run."""
        found = dataclasses.replace(
            settings,
            transaction_state_log_num_partitions=self.state_partitions,
            transaction_state_log_min_isr=self.min_insync_replicas,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=ABORT_INTERVAL_MS,
        )
        if self.expires:
            found = dataclasses.replace(
                found,
                transactional_id_expiration_ms=EXPIRATION_MS,
                transaction_remove_expired_transaction_cleanup_interval_ms=REMOVE_INTERVAL_MS,
            )
        if self.compaction is not None:
            found = self.compaction.applied_to(found)
        if self.compacts:
            found = dataclasses.replace(found, log_cleaner_backoff_ms=STATE_BACKOFF_MS)
        return found


def _draw_compaction(rng: Random, copies: int) -> CompactionProfile:
    """The compaction of the topic that is written to. Markers go only in runs in which no replica misses them, as none is away."""
    drawn = CompactionProfile.draw_one(rng)
    return drawn if copies == 1 else drawn.with_delete_retention(MARKERS_STAY_MS)


def _draw_id(rng: Random, name: str) -> TransactionalIdProfile:
    return TransactionalIdProfile(
        name=name,
        version=rng.choice((1, 2, 2)),
        timeout_s=rng.choice((2.0, 4.0, 8.0)),
        pause_s=rng.choice((0.05, 0.3, 1.0)),
        life_s=rng.choice((2.0, 6.0, 20.0)),
        zombie_share=rng.choice((0.0, 0.5, 1.0)),
        commits_offsets=rng.random() < OFFSETS_SHARE,
    )
