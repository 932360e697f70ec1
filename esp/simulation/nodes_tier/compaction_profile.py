"""Compaction in a run: a topic of few keys whose log the cleaner goes through every second, on each replica by itself."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.settings.broker import BrokerSettings

COMPACTED: Final = "compacted"
"""The topic: its records have keys, its batches change, and offsets are missing in it."""

COMPACTING_SHARE: Final = 0.3
"""The share of the runs in which a topic is compacted."""

CHANGING_SHARE: Final = 0.4
"""The share of these in which a client changes the policy of the topic, and the age from which on records are compacted."""

DELETE_RETENTION_MS: Final = 3_000

_RETENTION: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {},
    {"cleanup.policy": "compact,delete", "retention.ms": "8000"},
    {"cleanup.policy": "compact,delete", "retention.bytes": "4000"},
)


@dataclass(frozen=True, slots=True)
class CompactionProfile:
    """See the fields."""

    topic_configs: Mapping[str, str]
    keys: int
    tombstone_share: float
    """The share of the records that are tombstones."""
    backoff_ms: int
    """``log.cleaner.backoff.ms``."""
    map_bytes: int
    """``log.cleaner.dedupe.buffer.size``: room for a few keys, or for all."""
    delete_retention_ms: int = DELETE_RETENTION_MS
    """``delete.retention.ms``."""
    changes_policy: bool = False
    """True if the topic's policy and ``min.compaction.lag.ms`` change during the run."""

    @classmethod
    def draw(cls, rng: Random) -> "CompactionProfile | None":
        """The profile of a run; None where no topic is compacted."""
        return None if rng.random() >= COMPACTING_SHARE else cls.draw_one(rng)

    @classmethod
    def draw_one(cls, rng: Random) -> "CompactionProfile":
        """The profile of a topic that is compacted."""
        retention = rng.choice(_RETENTION)
        configs = {
            "cleanup.policy": "compact",
            **retention,
            "segment.ms": rng.choice(("300", "1000", "3000")),
            "min.cleanable.dirty.ratio": rng.choice(("0.0", "0.01", "0.3")),
            "min.compaction.lag.ms": rng.choice(("0", "0", "1000")),
            "delete.retention.ms": str(DELETE_RETENTION_MS),
            "file.delete.delay.ms": rng.choice(("0", "2000")),
        }
        return cls(
            configs,
            keys=rng.choice((3, 8, 30)),
            tombstone_share=rng.choice((0.05, 0.2, 0.5)),
            backoff_ms=rng.choice((200, 1_000)),
            map_bytes=rng.choice((1_300, 1_300, 1 << 20)),
            changes_policy=rng.random() < CHANGING_SHARE,
        )

    def with_delete_retention(self, retention_ms: int) -> "CompactionProfile":
        """The same with another ``delete.retention.ms``."""
        configs = {**self.topic_configs, "delete.retention.ms": str(retention_ms)}
        return dataclasses.replace(self, topic_configs=configs, delete_retention_ms=retention_ms)

    def applied_to(self, settings: BrokerSettings) -> BrokerSettings:
        """A node's settings in such a run."""
        return dataclasses.replace(
            settings,
            log_initial_task_delay_ms=500,
            log_retention_check_interval_ms=min(settings.log_retention_check_interval_ms, 1_000),
            log_cleaner_backoff_ms=self.backoff_ms,
            log_cleaner_dedupe_buffer_size=self.map_bytes,
        )
