"""Moves of log starts in a run: retention by time and by size within seconds, and records that a client deletes (KIP-107)."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.replication.log_holds import is_pattern
from esp.settings.broker import BrokerSettings

MOVING_SHARE: Final = 0.4
"""The share of the runs in which log starts move."""

_RETENTION: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"retention.ms": "3000"},
    {"retention.bytes": "3000"},
    {"retention.ms": "8000", "retention.bytes": "1000"},
)


HOLD_GROUPS: Final = "retention.hold.groups"

_HOLDING_SHARE: Final = 0.4
"""The share of the runs in which groups hold topics, among those in which retention moves log starts and offsets do not expire."""

_ABSENT: Final = "absent"
"""A group that never commits."""

_CAPS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {},
    {"retention.hold.max.ms": "8000"},
    {"retention.hold.max.bytes": "6000"},
    {"retention.hold.max.ms": "0"},
)


def draw_holds(rng: Random, groups: Sequence[str]) -> Mapping[str, str]:
    """The settings of topics that some of these groups hold, or one that never commits; none in part of the runs."""
    if rng.random() >= _HOLDING_SHARE:
        return {}
    names = rng.choice((_ABSENT, *groups, ",".join(groups) or _ABSENT, "*"))
    return {HOLD_GROUPS: names, **rng.choice(_CAPS)}


def find_exact_holders(configs: Mapping[str, str]) -> tuple[str, ...]:
    """The groups that may hold topics which come and go, by the settings of the first topic: those named there, and one that never commits.

    None where no group holds the first topic. Patterns are left out: they mean groups that have committed.
    """
    names = configs.get(HOLD_GROUPS)
    if names is None:
        return ()
    exact = [name for name in names.split(",") if not is_pattern(name)]
    return tuple(dict.fromkeys((*exact, _ABSENT)))


@dataclass(frozen=True, slots=True)
class LogStartProfile:
    """See the fields; the settings are those of the topics that the run begins with."""

    topic_configs: Mapping[str, str]
    check_interval_ms: int
    """``log.retention.check.interval.ms``."""
    checkpoint_interval_ms: int
    """``log.flush.start.offset.checkpoint.interval.ms``: log starts of followers are on their devices so late."""
    deletes_records: bool

    @classmethod
    def draw(cls, rng: Random) -> "LogStartProfile | None":
        """The profile of a run; None where log starts stay."""
        if rng.random() >= MOVING_SHARE:
            return None
        retention = rng.choice(_RETENTION)
        return cls(
            {**retention, "segment.ms": rng.choice(("500", "2000")), "file.delete.delay.ms": rng.choice(("0", "2000"))},
            check_interval_ms=rng.choice((500, 2_000)),
            checkpoint_interval_ms=rng.choice((1_000, 60_000)),
            deletes_records=not retention or rng.random() < 0.7,
        )

    @property
    def has_retention(self) -> bool:
        """True if records go by time or size."""
        return any(name in self.topic_configs for name in ("retention.ms", "retention.bytes"))

    def applied_to(self, settings: BrokerSettings) -> BrokerSettings:
        """A node's settings in such a run."""
        return dataclasses.replace(
            settings,
            log_initial_task_delay_ms=500,
            log_retention_check_interval_ms=self.check_interval_ms,
            log_flush_start_offset_checkpoint_interval_ms=self.checkpoint_interval_ms,
        )
