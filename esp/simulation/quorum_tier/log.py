"""The disk of one quorum member in memory: metadata log, ``quorum-state``, snapshots, and what of them survives a loss of power."""

import json
import uuid
from bisect import bisect_left
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.model.ids import DirectoryId, NodeId
from esp.raft.log_outline import LogOutline
from esp.raft.quorum_state import QuorumState
from esp.raft.snapshot import SnapshotId
from esp.raft.voter_history import VoterHistory
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.records.batch_header import BatchHeader

_find_next_offset: Final = itemgetter(2)


class StoredBatch(NamedTuple):
    """A batch in the log."""

    data: bytes
    header: BatchHeader
    next_offset: int
    """The end of the batch."""


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A whole snapshot: the digest of the state that it holds, and the voters."""

    snapshot_id: SnapshotId
    digest: int
    voters: VoterSet
    kraft_version: int

    def encode(self) -> bytes:
        """The bytes that are fetched."""
        voters = [
            [voter.key.node_id, str(voter.key.directory_id), [list(endpoint) for endpoint in voter.endpoints]]
            for voter in self.voters.voters
        ]
        return json.dumps([*self.snapshot_id, self.digest, voters, self.kraft_version]).encode()

    @classmethod
    def decode(cls, data: bytes) -> "StoredSnapshot":
        """The snapshot that was fetched; ValueError if the bytes are not whole."""
        end_offset, epoch, digest, voters, kraft_version = json.loads(data)
        voter_set = VoterSet(
            tuple(
                Voter(
                    VoterKey(NodeId(node_id), DirectoryId(uuid.UUID(directory_id))),
                    tuple(VoterEndpoint(*endpoint) for endpoint in endpoints),
                )
                for node_id, directory_id, endpoints in voters
            )
        )
        return cls(SnapshotId(end_offset, epoch), digest, voter_set, kraft_version)


@dataclass(slots=True)
class QuorumDisk:
    """One directory. The log begins where ``snapshot``, if there is one below it, ends."""

    directory_id: DirectoryId
    first_voters: VoterSet
    first_kraft_version: int
    quorum_state: QuorumState | None = None
    batches: list[StoredBatch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    synced_offset: int = 0
    start_epoch: int = 0
    snapshot: StoredSnapshot | None = None
    committed_offset: int = 0
    """The checkpoint of the high watermark: what the member has known to be committed of what is synced."""
    cuts: int = 0
    """The number of times that the log was cut: a flush that began before says nothing of what came after."""

    def append(self, data: Buffer, header: BatchHeader) -> None:
        """Append a batch, into the page cache."""
        assert header.base_offset == self.end_offset, "the log has no gaps"
        self.batches.append(StoredBatch(bytes(data), header, header.next_offset))
        self.end_offset = header.next_offset

    def truncate_to(self, end_offset: int) -> None:
        """Cut the log."""
        while self.batches and self.batches[-1].header.base_offset >= end_offset:
            self.batches.pop()
        self.end_offset = self.batches[-1].header.next_offset if self.batches else self.start_offset
        assert self.end_offset == end_offset, "the log is cut between batches"
        self.synced_offset = min(self.synced_offset, end_offset)
        self.cuts += 1

    def restart_at(self, snapshot: StoredSnapshot) -> None:
        """Let the log begin anew at the end of a snapshot."""
        self.batches.clear()
        self.snapshot = snapshot
        self.start_offset = self.end_offset = self.synced_offset = snapshot.snapshot_id.end_offset
        self.start_epoch = snapshot.snapshot_id.epoch
        self.cuts += 1

    def drop_before(self, snapshot: StoredSnapshot) -> None:
        """Remove what a new snapshot holds."""
        self.snapshot = snapshot
        self.start_offset, self.start_epoch = snapshot.snapshot_id
        self.batches = [batch for batch in self.batches if batch.header.base_offset >= self.start_offset]
        self.synced_offset = max(self.synced_offset, self.start_offset)

    def lose_power(self, random: Random) -> None:
        """Keep what is synced, and a random part, from the front, of what is not."""
        unsynced = [index for index, batch in enumerate(self.batches) if batch.header.next_offset > self.synced_offset]
        if unsynced:
            kept = random.choice(unsynced)
            del self.batches[kept:]
            self.end_offset = self.batches[-1].header.next_offset if self.batches else self.start_offset

    def roll_back(self, random: Random) -> None:
        """Lose synced records too, as a disk does that is restored from a copy."""
        if self.batches:
            del self.batches[random.randrange(len(self.batches)) :]
            self.end_offset = self.batches[-1].header.next_offset if self.batches else self.start_offset
            self.synced_offset = min(self.synced_offset, self.end_offset)
            self.committed_offset = min(self.committed_offset, self.end_offset)

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Whole batches from ``offset`` on, one at least."""
        batches: list[bytes] = []
        size = 0
        for batch in self.batches[self.find_index(offset) :]:
            size += len(batch.data)
            if batch.next_offset > end_offset or (batches and size > max_bytes):
                break
            batches.append(batch.data)
        return b"".join(batches)

    def find_index(self, offset: int) -> int:
        """The index in ``batches`` of the batch with ``offset``."""
        return bisect_left(self.batches, offset + 1, key=_find_next_offset)

    def find_batch_before(self, end_offset: int) -> StoredBatch | None:
        """The batch that ends there."""
        batches = self.batches
        if batches and batches[-1].next_offset == end_offset:
            return batches[-1]
        index = self.find_index(end_offset - 1)
        return batches[index] if index < len(batches) and batches[index].next_offset == end_offset else None

    def outline(self) -> LogOutline:
        """The log as the core sees it at its start."""
        epochs: list[tuple[int, int]] = []
        for batch in self.batches:
            if not epochs or batch.header.leader_epoch > epochs[-1][0]:
                epochs.append((batch.header.leader_epoch, batch.header.base_offset))
        return LogOutline(
            start_offset=self.start_offset,
            start_epoch=self.start_epoch,
            end_offset=self.end_offset,
            flushed_offset=self.synced_offset,
            epochs=epochs,
            snapshot_id=None if self.snapshot is None else self.snapshot.snapshot_id,
        )

    def history(self) -> VoterHistory:
        """The voters by snapshot and log."""
        snapshot = self.snapshot
        if snapshot is None:
            history = VoterHistory(self.first_voters, self.first_kraft_version)
        else:
            history = VoterHistory(VoterSet(()), 0)
            history.restart_at(snapshot.snapshot_id, snapshot.voters, snapshot.kraft_version)
        for batch in self.batches:
            if batch.header.is_control:
                history.replay(batch.data, batch.header)
        return history
