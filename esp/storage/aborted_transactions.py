"""The aborted transactions of one log, searched by offsets in the transaction indexes of its segments (LSO-2).

A marker's entry stands in the marker's segment. The index of the active segment is in memory; that of a sealed one is read when a search
first needs it, and compared with the batches if an earlier process wrote it (:mod:`esp.storage.transaction_proof`). A log without an
aborted transaction, the usual case, is known to be one.
"""

from collections.abc import Generator, Iterable
from contextlib import closing

from esp.ports.cpu import Cpu
from esp.ports.disk import Disk
from esp.storage.producer_state import CompletedTransaction
from esp.storage.segment_files import SegmentFiles
from esp.storage.segment_recovery import NoteRot
from esp.storage.segments import Segments
from esp.storage.transaction_index import AbortedTransaction
from esp.storage.transaction_proof import TransactionProof


class Search:
    """A search. Iterating over it yields the proofs that must be read, and concluded, before it goes on; the result is there at the end.

    A transaction that has records in the range, and whose marker stands in a later segment, was open at that segment's base.

    Args:
        disk: where the log lives.
        segments: the log's.
        start_offset: the first offset of the range.
        end_offset: the offset after the range.
    """

    def __init__(self, disk: Disk, segments: Segments, start_offset: int, end_offset: int) -> None:
        self.found: list[AbortedTransaction] = []
        self._disk = disk
        self._segments = segments
        self._start_offset = start_offset
        self._end_offset = end_offset

    def __iter__(self) -> Generator[TransactionProof, None, None]:
        segments, end_offset = self._segments, self._end_offset
        first = segments.floor(self._start_offset)
        for number in range(first, len(segments)):
            segment = segments[number]
            oldest_open = segment.oldest_open_offset
            is_behind = number > first and segment.base_offset >= end_offset
            if is_behind and oldest_open is not None and oldest_open >= end_offset:
                return
            index = segment.aborted
            if index is None or segment.aborted_checksum is None:
                proof = TransactionProof(self._disk, segments.up_to(number), end_offset if is_behind else None)
                yield proof
                if not proof.is_wanted:
                    return
                index = proof.index
            if index.collect(self._start_offset, end_offset, self.found):
                return


class AbortedTransactions:
    """See the module.

    Args:
        files: the log's.
        note_rot: told of batches that do not match their checksums.
    """

    __slots__ = ("_disk", "_note_rot", "_segments", "_unsynced", "may_exist")

    def __init__(self, files: SegmentFiles, note_rot: NoteRot) -> None:
        self._disk = files.disk
        self._segments = files.segments
        self._unsynced = files.unsynced
        self._note_rot = note_rot
        self.may_exist = False
        """False if no segment has an entry: readers need not search."""

    def add(self, completed: CompletedTransaction) -> None:
        """Take in the end of a transaction by a batch that was appended."""
        index = self._segments.active.aborted
        assert index is not None, "the transaction index of the active segment is in memory"
        index.add(completed)
        self.may_exist |= not completed.is_commit

    def load_blocking(self, unindexed_from: int, ended: Iterable[CompletedTransaction]) -> None:
        """Begin after the log was opened or cut.

        Args:
            unindexed_from: the base of the first segment whose file may lack entries.
            ended: the transactions whose markers stand in that segment or a later one.

        Raises:
            CorruptionError: batches are broken.
            OSError: the device failed.
        """
        segments = self._segments
        for segment in segments:
            if segment.base_offset >= unindexed_from:
                segment.begin_aborted_anew()
        for completed in ended:
            index = segments[segments.floor(completed.last_offset)].aborted
            assert index is not None, "the index is in memory and empty"
            index.add(completed)
        active = segments.active
        if active.aborted is None:
            active.load_aborted_blocking()
        if active.aborted is None:
            with closing(TransactionProof(self._disk, segments.up_to(len(segments) - 1), None)) as proof:
                proof.read_blocking()
                self._conclude(proof)
        self.may_exist = any(segment.aborted is None or segment.aborted.entries for segment in segments)

    def find(self, start_offset: int, end_offset: int) -> list[AbortedTransaction] | None:
        """The transactions with a record or marker in ``[start_offset, end_offset)``, by their markers; None if indexes must be read."""
        if not self.may_exist:
            return []
        search = Search(self._disk, self._segments, start_offset, end_offset)
        for _proof in search:
            return None
        return search.found

    def find_blocking(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Find the transactions of :meth:`find`, reading on the calling thread.

        Raises:
            CorruptionError: batches are broken.
            OSError: the device failed.
        """
        search = Search(self._disk, self._segments, start_offset, end_offset)
        for proof in search:
            with closing(proof):
                proof.read_blocking()
                self._conclude(proof)
        return search.found

    async def find_cold(self, start_offset: int, end_offset: int, cpu: Cpu) -> list[AbortedTransaction]:
        """Find the transactions of :meth:`find`, reading off the loop. If the log is cut meanwhile, the result means nothing."""
        search = Search(self._disk, self._segments, start_offset, end_offset)
        for proof in search:
            with closing(proof):
                cuts = self._unsynced.cuts
                while await cpu.run(proof.step_blocking) and cuts == self._unsynced.cuts:
                    pass
                if cuts != self._unsynced.cuts:
                    break
                self._conclude(proof)
        return search.found

    def _conclude(self, proof: TransactionProof) -> None:
        for error in proof.rot:
            self._note_rot(error)
        is_active = proof.segment is self._segments.active
        proof.conclude(is_active=is_active)
        if not is_active:
            self._segments.keep_aborted(proof.segment)
