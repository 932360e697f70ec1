"""The voters by the offset of their record: the newest counts even uncommitted, and truncation restores the one before (RAFT-40)."""

from typing import NamedTuple

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.voters_record.v0.data import VotersRecord

from esp.model.buffers import Buffer
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterSet
from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader
from esp.schemas.control_records import decode_control_record


class _Entry(NamedTuple):
    """The voters from a batch on."""

    base_offset: int
    end_offset: int
    voters: VoterSet
    kraft_version: int


class VoterHistory:
    """Voters and ``kraft.version`` along the log.

    Args:
        voters: the voters before the first record of the log: from the newest snapshot, or the static ones, or empty if none are known.
        kraft_version: 0 for static voters.
    """

    def __init__(self, voters: VoterSet, kraft_version: int) -> None:
        self._entries = [_Entry(-1, 0, voters, kraft_version)]

    @property
    def voters(self) -> VoterSet:
        """The newest voters, committed or not."""
        return self._entries[-1].voters

    @property
    def kraft_version(self) -> int:
        """1 if the voters stand in the log (KIP-853)."""
        return self._entries[-1].kraft_version

    @property
    def end_offset(self) -> int:
        """The end of the batch that named the newest voters: they are committed once the high watermark is there."""
        return self._entries[-1].end_offset

    @property
    def former_voters(self) -> VoterSet:
        """The voters before the newest, as far as log and snapshot have them."""
        return self._entries[-2].voters if len(self._entries) > 1 else VoterSet(())

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """Voters and ``kraft.version`` as the log below ``end_offset`` names them: the ones for a snapshot that ends there."""
        entry = next(entry for entry in reversed(self._entries) if entry.base_offset < end_offset)
        return entry.voters, entry.kraft_version

    def replay(self, batch: Buffer, header: BatchHeader) -> None:
        """Take note of a batch; only control batches can name voters.

        Raises:
            CorruptionError: a control record cannot be read.
        """
        if not header.is_control:
            return
        assert header.base_offset >= self.end_offset, "batches follow one another"
        voters, kraft_version = self.voters, self.kraft_version
        for record in iterate_records(batch):
            entity = decode_control_record(record.key, record.value)
            if isinstance(entity, VotersRecord):
                voters = VoterSet.from_record(entity)
            elif isinstance(entity, KRaftVersionRecord):
                kraft_version = entity.k_raft_version
        if (voters, kraft_version) != (self.voters, self.kraft_version):
            self._entries.append(_Entry(header.base_offset, header.next_offset, voters, kraft_version))

    def truncate_to(self, end_offset: int) -> None:
        """Forget records at ``end_offset`` or later."""
        while self._entries[-1].base_offset >= end_offset:
            self._entries.pop()
            assert self._entries, "the voters of snapshot or format stay (RAFT-40)"

    def restart_at(self, snapshot_id: SnapshotId, voters: VoterSet, kraft_version: int) -> None:
        """The log begins anew with the voters of a snapshot."""
        self._entries = [_Entry(-1, snapshot_id.end_offset, voters, kraft_version)]
