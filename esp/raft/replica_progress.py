"""How far another member's log is, as its leader knows: from its fetches in this epoch, and from nothing else."""

from dataclasses import dataclass

from esp.raft.messages import BeginQuorumEpochRequest


@dataclass(slots=True)
class ReplicaProgress:
    """One replica. Times are monotonic microseconds, None before the first such event."""

    log_end_offset: int = -1
    """Up to here its log is the leader's and, a voter's, on its device (RAFT-11); -1 before its first fetch."""
    last_fetch_us: int | None = None
    last_caught_up_us: int | None = None
    """The last time at which it had everything that the leader had (ISR-2)."""
    last_contact_us: int | None = None
    """The last fetch of any kind."""
    leader_end_offset: int = -1
    """The leader's log end at the last fetch."""
    begin_request: BeginQuorumEpochRequest | None = None
    """In flight."""
    begin_at_us: int = 0
    """Not told of the epoch again before."""
    has_begun: bool = False
    """Whether it knows of the epoch."""

    def on_contact(self, now_us: int) -> None:
        """It asked for something in this epoch, so it knows of it."""
        self.last_contact_us = now_us
        self.has_begun = True

    def on_fetch(self, now_us: int, offset: int, leader_end_offset: int) -> None:
        """It fetches at ``offset``, where its log was found to be a prefix of the leader's.

        A fetch that was overtaken by a later one takes nothing back: what was durable there stays so.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_us = now_us
        elif offset >= self.leader_end_offset >= 0 and self.last_fetch_us is not None:
            self.last_caught_up_us = max(self.last_caught_up_us or 0, self.last_fetch_us)
        self.log_end_offset = max(self.log_end_offset, offset)
        self.last_fetch_us = now_us
        self.leader_end_offset = leader_end_offset

    def next_begin_us(self, interval_us: int) -> int:
        """When it is to be told of the epoch: until it knows, and then whenever it has not fetched for ``interval_us`` (RAFT-9)."""
        if not self.has_begun or self.last_contact_us is None:
            return self.begin_at_us
        return max(self.begin_at_us, self.last_contact_us + interval_us)
