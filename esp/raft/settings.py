"""The timing of the quorum, by Kafka's settings ``controller.quorum.*``."""

from dataclasses import dataclass
from typing import Final

_PACE_FLOOR_US: Final = 1000
"""Shares of a timeout are never shorter, so that a test's tiny timeouts make no busy loop."""


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """Timeouts in microseconds."""

    election_timeout_us: int
    """``controller.quorum.election.timeout.ms``: how long a round of votes may take. Drawn from once to twice this (RAFT-8)."""
    fetch_timeout_us: int
    """``controller.quorum.fetch.timeout.ms``: how long a follower hears nothing before it asks for an election."""
    retry_backoff_us: int
    """``controller.quorum.retry.backoff.ms``: the pause before a request that failed is sent again."""
    fetch_max_wait_ms: int = 500
    """The time for which a leader may hold back the answer to a fetch, there being nothing new."""
    fetch_max_bytes: int = 8 * 1024 * 1024
    """The most bytes of a fetch, but one batch at least; also the size of a snapshot's piece."""

    @property
    def check_quorum_timeout_us(self) -> int:
        """The time for which a leader leads without a majority that fetches (RAFT-7)."""
        return self.fetch_timeout_us * 3 // 2

    @property
    def begin_epoch_interval_us(self) -> int:
        """The interval at which a leader reminds voters that do not fetch (RAFT-9)."""
        return self.fetch_timeout_us // 2

    @property
    def first_delay_us(self) -> int:
        """The limit of the random delay before a follower acts on the end of its leader's process, lest all followers act at once."""
        return max(self.election_timeout_us // 40, _PACE_FLOOR_US)

    @property
    def round_backoff_us(self) -> int:
        """The unit of the random pause between two rounds of votes; it doubles with each round that failed."""
        return max(self.election_timeout_us // 50, _PACE_FLOOR_US)
