"""Runs in which committed offsets expire: a short retention, and wall clocks that all go ahead at once (KIP-211)."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.settings.broker import BrokerSettings

SHARE: Final = 0.4
"""The share of the runs with groups in which offsets expire."""

RETENTION_MINUTES: Final = 1
"""``offsets.retention.minutes``: the least that an operator can set, which is more than what a run takes; so the clocks go ahead."""

LAPSE_MEAN_S: Final = (4.0, 12.0)
"""Least and most seconds between two lapses, on the average."""

LAPSES_S: Final = ((10.0, 50.0), (61.0, 120.0), (61.0, 120.0), (1_000.0, 3_000.0))
"""Ranges of the seconds by which the clocks go ahead: less than the retention, a little more, and much more."""

RECESS_MEAN_S: Final = 10.0
"""The mean time until all members of a group leave, or die, together."""

RECESS_S: Final = (2.0, 8.0)
"""The time for which a group then has no members."""

LAST_LAPSE_S: Final = 7 * 3600.0
"""The lapse in which everything expires in the end: more than a wall clock ever jumped ahead in the run, and the retention."""


@dataclass(frozen=True, slots=True)
class ExpiryProfile:
    """The expiry of a run's committed offsets."""

    check_interval_ms: int
    """``offsets.retention.check.interval.ms``."""
    lapse_mean_s: float
    """Mean seconds between two lapses."""
    reads_part: bool
    """True if the groups are subscribed to the first topic only, and offsets of the others are committed all the same."""

    @classmethod
    def draw(cls, rng: Random) -> "ExpiryProfile | None":
        """The profile of a run with groups; None where offsets do not expire."""
        if rng.random() >= SHARE:
            return None
        return cls(
            check_interval_ms=rng.choice((200, 1_000)),
            lapse_mean_s=rng.uniform(*LAPSE_MEAN_S),
            reads_part=rng.random() < 0.5,
        )

    def applied_to(self, settings: BrokerSettings, groups: Sequence[str]) -> BrokerSettings:
        """A node's settings in such a run with these groups."""
        return dataclasses.replace(
            settings,
            offsets_retention_exempt_groups=find_exempt(groups),
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=self.check_interval_ms,
        )


def find_exempt(groups: Sequence[str]) -> tuple[str, ...]:
    """The groups whose offsets stay although those of others expire: the last of several."""
    return tuple(groups[-1:]) if len(groups) > 1 else ()


def draw_lapse_s(rng: Random) -> float:
    """The seconds by which the wall clocks go ahead in one lapse."""
    return rng.uniform(*rng.choice(LAPSES_S))
