"""Invariants that must hold in a quorum at every step (RELIABILITY: the invariants of the metadata log)."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from esp.broker.raft.config import quorum_settings
from esp.raft.quorum_state import QuorumState
from esp.raft.voters import VoterKey, VoterSet, is_majority
from esp.settings.broker import BrokerSettings
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.quorum_tier.log import QuorumDisk, StoredBatch

_MASK = (1 << 64) - 1
_CAUGHT_UP_US: Final = quorum_settings(BrokerSettings()).fetch_timeout_us
"""A node that becomes a voter had all of the leader's log that long ago, or later (RAFT-42)."""


def fold(digest: int, batch: StoredBatch) -> int:
    """The digest of a state after one more batch."""
    content = crc32(batch.data, digest & 0xFFFF_FFFF)
    return (digest * 1_000_003 + content + batch.header.leader_epoch) & _MASK


@dataclass(slots=True)
class QuorumChecks:
    """Everything that was ever true, and must stay so."""

    leaders: dict[int, VoterKey] = field(default_factory=dict)
    """The leader of each epoch."""
    committed: dict[int, int] = field(default_factory=lambda: {0: 0})
    """The digest of the state at each committed offset where a batch ends."""
    committed_end: int = 0
    committed_epoch: int = 0
    durability_is_owed: bool = True
    """False once more disks lost what they had synced than is promised against: only RAFT-10 still holds of what was committed."""
    _lives: dict[int, int] = field(default_factory=dict)
    _votes: dict[tuple[VoterKey, int], VoterKey] = field(default_factory=dict)
    _ends: dict[VoterKey, tuple[int, deque[tuple[int, int]]]] = field(default_factory=dict)
    """The last epoch that a member led, and when its log got which end in it."""

    def on_leader(self, key: VoterKey, life: int, epoch: int, disk: QuorumDisk) -> None:
        """A member says that it leads: as the only one in the epoch, and in one life of its process only (RAFT-5)."""
        known = self.leaders.setdefault(epoch, key)
        if known != key:
            self._fail("INV-RAFT-ELECTION", key, f"epoch {epoch} is led by {known} too")
        if self._lives.setdefault(epoch, life) != life:
            self._fail("INV-RAFT-ELECTION", key, f"leads epoch {epoch} again after a restart")
        # One that hears late of its votes may lead an epoch that no majority is in any more: it commits nothing (RAFT-13).
        if not self.durability_is_owed or epoch < self.committed_epoch:
            return
        if disk.end_offset < self.committed_end:
            self._fail("INV-RAFT-COMPLETE", key, f"log ends at {disk.end_offset}, {self.committed_end} is committed")
        last = disk.find_batch_before(self.committed_end)
        epoch_there = disk.start_epoch if last is None else last.header.leader_epoch
        if self.committed_end > disk.start_offset and (last is None or epoch_there != self.committed_epoch):
            self._fail("INV-RAFT-COMPLETE", key, f"another batch before {self.committed_end}")

    def on_persist(self, key: VoterKey, old: QuorumState | None, new: QuorumState) -> None:
        """A member writes its quorum-state."""
        if old is None:
            return
        if new.leader_epoch < old.leader_epoch:
            self._fail("INV-RAFT-EPOCH", key, f"{old} -> {new}")
        if new.leader_epoch == old.leader_epoch:
            if old.leader_id not in {-1, new.leader_id}:
                self._fail("INV-RAFT-ELECTION", key, f"{old} -> {new}")
            if -1 not in {old.voted_id, new.voted_id} and old.voted_id != new.voted_id:
                self._fail("INV-RAFT-VOTE", key, f"{old} -> {new}")

    def on_vote(self, key: VoterKey, epoch: int, candidate: VoterKey, written: QuorumState | None) -> None:
        """A member tells a candidate, or as one itself the others, its vote; ``written`` is its quorum-state then (RAFT-1)."""
        if written is None or (written.leader_epoch, written.voted_id) != (epoch, candidate.node_id):
            is_over = written is not None and written.leader_epoch > epoch
            if not is_over:
                self._fail("INV-RAFT-VOTE", key, f"reports a vote for {candidate.node_id} in epoch {epoch}: {written}")
        known = self._votes.setdefault((key, epoch), candidate)
        if known != candidate:
            self._fail("INV-RAFT-VOTE", key, f"votes for {known.node_id} and {candidate.node_id} in epoch {epoch}")

    def on_told(self, key: VoterKey, epoch: int, offset: int, disk: QuorumDisk) -> None:
        """A leader tells a high watermark, or acts on it: a record of its own epoch must be below (RAFT-13)."""
        last = disk.find_batch_before(offset)
        found = disk.start_epoch if last is None else last.header.leader_epoch
        if found != epoch:
            self._fail("INV-RAFT-COMMIT-EPOCH", key, f"commits {offset}, of epoch {found}, in epoch {epoch}")

    def on_commit(self, key: VoterKey, before: int, after: int, digest: int, disk: QuorumDisk) -> int:
        """A member applies what it says is committed; returns the digest of its state then."""
        if after < before:
            self._fail("INV-RAFT-HW-MONO", key, f"{before} -> {after}")
        if after > disk.end_offset:
            self._fail("INV-ORDER", key, f"{after} of {disk.end_offset}")
        offset = before
        for batch in disk.batches[disk.find_index(before) :]:
            if batch.next_offset > after:
                break
            digest = fold(digest, batch)
            offset = batch.next_offset
            known = self.committed.setdefault(offset, digest)
            if known != digest and self.durability_is_owed:
                self._fail("INV-COMMIT-STABLE", key, f"another history below {offset}")
            if offset > self.committed_end:
                self.committed_end, self.committed_epoch = offset, batch.header.leader_epoch
        if offset != after:
            self._fail("INV-ORDER", key, f"{after}, but a batch ends at {offset}")
        return digest

    def on_evidence(self, key: VoterKey, offset: int, voters: VoterSet, disks: dict[VoterKey, QuorumDisk]) -> None:
        """A leader commits up to ``offset``: a majority of its voters must hold that on synced storage."""
        if not self.durability_is_owed:
            return
        own = disks[key].find_batch_before(offset)
        holders = 0
        for voter in voters.voters:
            disk = disks.get(voter.key)
            if disk is None or disk.synced_offset < offset:
                continue
            batch = disk.find_batch_before(offset)
            is_below_start = batch is None and disk.start_offset >= offset
            holders += is_below_start or (batch is not None and own is not None and batch.data == own.data)
        if not is_majority(holders, len(voters.voters)):
            self._fail("INV-RAFT-EVIDENCE", key, f"{offset} is synced at {holders} voters only")

    def on_snapshot(self, key: VoterKey, offset: int, digest: int) -> None:
        """A member loads a snapshot."""
        if self.durability_is_owed and self.committed.get(offset) != digest:
            self._fail("INV-META-SAME", key, f"another state at {offset}")

    def on_voters(self, key: VoterKey, old: VoterSet, new: VoterSet, *, has_committed: bool) -> None:
        """A leader appends new voters, by one at most, once a record of its own epoch is committed (RAFT-41)."""
        if not has_committed:
            self._fail("INV-RAFT-VOTERS", key, "changes the voters before it has committed anything")
        if len(old.keys() ^ new.keys()) > 1 or not new.voters:
            self._fail("INV-RAFT-VOTERS", key, f"{old.keys()} -> {new.keys()}")

    def on_led_append(self, key: VoterKey, epoch: int, end_offset: int, now_us: int) -> None:
        """A leader's log ends at ``end_offset`` from now on."""
        known = self._ends.get(key)
        if known is None or known[0] != epoch:
            known = self._ends[key] = (epoch, deque())
        ends = known[1]
        ends.append((now_us, end_offset))
        while len(ends) > 1 and ends[1][0] <= now_us - _CAUGHT_UP_US:
            ends.popleft()

    def on_added(self, key: VoterKey, epoch: int, added: VoterKey, end_offset: int, now_us: int) -> None:
        """A leader makes a node a voter whose log ends at ``end_offset``: commits would wait for one that is far behind (RAFT-42)."""
        led_epoch, ends = self._ends.get(key, (epoch, ()))
        due = max((end for at_us, end in ends if at_us <= now_us - _CAUGHT_UP_US), default=0)
        if led_epoch == epoch and end_offset < due:
            self._fail(
                "INV-RAFT-VOTERS", key, f"makes {added.node_id} a voter, which has {end_offset} of {due} (RAFT-42)"
            )

    def on_cut(self, key: VoterKey, voters: VoterSet, disk: QuorumDisk) -> None:
        """A member cut its log: it goes by the voters that are left in it (RAFT-40)."""
        left = disk.history().voters
        if voters != left:
            self._fail("INV-RAFT-VOTERS", key, f"goes by {voters.keys()}, its log says {left.keys()}")

    def _fail(self, invariant: str, key: VoterKey, details: str) -> None:
        raise ViolationError(invariant, f"node {key.node_id}", details)
