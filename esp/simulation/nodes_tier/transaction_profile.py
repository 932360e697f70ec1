"""The transactional producers of a run, and the settings with which their transactions end within seconds."""

import dataclasses
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.settings.broker import BrokerSettings

TRANSACTIONS_SHARE: Final = 0.2
"""Of all runs."""

TRANSACTIONAL_TOPIC: Final = "transactional"
"""The topic to which all transactional producers write, and no other one does."""

ABORT_INTERVAL_MS: Final = 500
"""``transaction.abort.timed.out.transaction.cleanup.interval.ms``: shorter than any operator's, so that transactions time out in a run."""

LEVEL: Final = 2
"""The level of ``transaction.version`` to which the cluster is raised at the beginning."""


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


@dataclass(frozen=True, slots=True)
class TransactionProfile:
    """The transactions of a run, and the topics in which they live."""

    ids: tuple[TransactionalIdProfile, ...]
    partitions: int
    """Of the topic that is written to."""
    replication_factor: int
    segment_ms: int
    state_partitions: int
    """``transaction.state.log.num.partitions``."""
    min_insync_replicas: int
    """Of both topics."""

    @classmethod
    def draw(cls, rng: Random, brokers: int, copies: int) -> "TransactionProfile | None":
        """The transactions of a cluster of so many brokers, in which a partition has at most so many copies; None for most runs."""
        if rng.random() >= TRANSACTIONS_SHARE:
            return None
        return cls(
            ids=tuple(_draw_id(rng, f"txn-{number}") for number in range(rng.choice((1, 2, 2, 3)))),
            partitions=rng.choice((1, 2, 3)),
            replication_factor=copies,
            segment_ms=rng.choice((1_000, 5_000, 3_600_000)),
            state_partitions=rng.choice((1, 1, 2)),
            min_insync_replicas=min(2, brokers, copies),
        )

    def applied_to(self, settings: BrokerSettings) -> BrokerSettings:
        """A node's settings in such a run."""
        return dataclasses.replace(
            settings,
            transaction_state_log_num_partitions=self.state_partitions,
            transaction_state_log_min_isr=self.min_insync_replicas,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=ABORT_INTERVAL_MS,
        )


def _draw_id(rng: Random, name: str) -> TransactionalIdProfile:
    return TransactionalIdProfile(
        name=name,
        version=rng.choice((1, 2, 2)),
        timeout_s=rng.choice((2.0, 4.0, 8.0)),
        pause_s=rng.choice((0.05, 0.3, 1.0)),
        life_s=rng.choice((2.0, 6.0, 20.0)),
        zombie_share=rng.choice((0.0, 0.5, 1.0)),
    )
