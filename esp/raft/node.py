"""A member of the metadata quorum, as a pure state machine: no I/O, time comes as an argument, effects are returned.

The quorum is of one voter, this node: it is its own majority, so it elects itself when it starts and commits what it has flushed.

Invariants: the epoch never goes down (RAFT-2); an epoch that was led before a restart is never led again (RAFT-5); the high watermark never
goes down, never passes what this node has flushed (RAFT-12), and stays unknown until the LeaderChange record of the epoch is below it
(RAFT-13).
"""

from collections.abc import Sequence
from typing import NamedTuple

from esp.model.ids import NO_NODE, LeaderEpoch
from esp.raft.effects import Effects
from esp.raft.quorum import is_majority, majority_offset
from esp.raft.quorum_state import QuorumState
from esp.raft.roles import TRANSITIONS, Role
from esp.raft.voters import KRAFT_VERSION, VoterKey, VoterSet
from esp.records.builder import build_batch
from esp.records.record import NewRecord
from esp.schemas.control_records import ControlEntity, encode_control_record, kraft_version, leader_change


class LogEnd(NamedTuple):
    """Where a log ends: the next offset, and the epoch of the last batch (0 if there is none)."""

    offset: int
    epoch: int


class RaftNode:
    """One voter.

    Args:
        local: this node, with the directory that holds its log.
        voters: the voters by the newest record of them, committed or not (RAFT-40); ``local`` is the only one.
        quorum_state: what the file of that name says; None if there is none yet.
        log_end: where the log ends after recovery.
    """

    def __init__(self, local: VoterKey, voters: VoterSet, quorum_state: QuorumState | None, log_end: LogEnd) -> None:
        assert voters.keys() == {local}, "a quorum of one is its own only voter"
        self.local = local
        self.voters = voters
        state = quorum_state or QuorumState()
        self.epoch = LeaderEpoch(max(state.leader_epoch, log_end.epoch))  # RAFT-4: the log may know of a later epoch
        self.role = Role.UNATTACHED
        if state.leader_epoch == self.epoch and state.leader_id == local.node_id:
            self.role = Role.RESIGNED
        self.log_end_offset = log_end.offset
        """Offset of the next record, appended or about to be."""
        self.epoch_start_offset: int | None = None
        """Offset of the LeaderChange record of the epoch that this node leads."""
        self.high_watermark: int | None = None
        """Everything below is committed; None while that is unknown."""
        self._flushed_offset = 0

    def start(self, now_ms: int) -> Effects:
        """Stand for election, and win it, being the only voter. Called once, before everything else.

        Candidacy and victory come in one step: nothing is seen of the former, so ``quorum-state`` holds the leader from the start, and
        after a crash in between this node comes back resigned.
        """
        self._become(Role.CANDIDATE)
        self.epoch = LeaderEpoch(self.epoch + 1)
        votes = {self.local}
        assert is_majority(len(votes), len(self.voters.keys()))
        self._become(Role.LEADER)
        self.epoch_start_offset = self.log_end_offset
        voter_ids = [key.node_id for key in sorted(self.voters.keys())]
        entities: list[ControlEntity] = [leader_change(self.local.node_id, voter_ids, [key.node_id for key in votes])]
        if self.log_end_offset == 0:  # the log carries on what the 0-0 snapshot says, as Kafka's does
            entities += (kraft_version(KRAFT_VERSION), self.voters.to_record())
        records = [NewRecord(record.value, record.key) for record in map(encode_control_record, entities)]
        return Effects(
            persist=QuorumState(leader_epoch=self.epoch, leader_id=self.local.node_id, voted_id=NO_NODE),
            begin_epoch=self.epoch,
            batch=self._next_batch(records, now_ms, control=True),
        )

    def propose(self, values: Sequence[bytes], now_ms: int) -> Effects:
        """Append one batch of records, which is committed as a whole or not at all. Only the leader does.

        Args:
            values: the records' values, at least one.
            now_ms: their time, milliseconds since the Unix epoch.
        """
        assert self.role is Role.LEADER, f"{self.role} proposes nothing"
        return Effects(batch=self._next_batch([NewRecord(value) for value in values], now_ms, control=False))

    def on_flushed(self, offset: int) -> Effects:
        """The log is on the device up to ``offset`` (exclusive): what is flushed here counts, nothing else does (RAFT-12)."""
        assert self._flushed_offset <= offset <= self.log_end_offset, f"flushed up to {offset} of {self.log_end_offset}"
        assert self.epoch_start_offset is not None, "only the leader has something to flush"
        self._flushed_offset = offset
        candidate = majority_offset([self._flushed_offset])
        if candidate <= self.epoch_start_offset or candidate == self.high_watermark:
            return Effects()
        self.high_watermark = candidate
        return Effects(high_watermark=candidate)

    def _become(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"{self.role} cannot become {role}"
        self.role = role

    def _next_batch(self, records: Sequence[NewRecord], now_ms: int, *, control: bool) -> bytes:
        batch = build_batch(
            records, base_offset=self.log_end_offset, leader_epoch=self.epoch, timestamp_ms=now_ms, control=control
        )
        self.log_end_offset += len(records)
        return batch
