"""The fate of each batch when a log is copied: it stays whole, or with fewer records, or as a header, or goes (CLEAN-2, CLEAN-5)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Set
from operator import attrgetter
from typing import Final, NamedTuple

from esp.model.calendar import LATEST_MS
from esp.model.errors import CorruptionError
from esp.records.batch import DECOMPRESSED_LIMIT
from esp.records.batch_header import DELETE_HORIZON_BIT, HEADER_SIZE, BatchHeader
from esp.records.compression import decompress
from esp.records.keyed import Kept, choose_records, empty_batch, pick_records, rebuild_batch
from esp.records.transaction_marker import Marker, find_marker
from esp.storage.compaction.survivors import Survivors
from esp.storage.transaction_index import AbortedTransaction

GONE: Final = b""
"""The fate of a batch of which nothing stays."""

ANY_BATCH: Final = -1
"""Stands for the end of the first of a producer's last batches: any of its batches may be one of them."""


class Aborted:
    """The aborted transactions of a log, to be asked for single batches.

    Args:
        transactions: all that have records in the part that is asked about.
    """

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for transaction in sorted(transactions, key=attrgetter("first_offset")):
            self._by_producer.setdefault(transaction.producer_id, []).append(transaction)

    def has(self, header: BatchHeader) -> bool:
        """True if a transactional batch belongs to one of them; those of one producer follow one another."""
        own = self._by_producer.get(header.producer_id, ())
        number = bisect_right(own, header.base_offset, key=attrgetter("first_offset")) - 1
        return number >= 0 and header.base_offset < own[number].last_offset


class PassedTransactions:
    """The transactions of a log while its batches are passed from the first one on.

    A transaction counts with the records that were found, though the round may leave none of them: a segment that cannot be replaced keeps
    its own.

    Args:
        open_at_start: the producers with a transaction that is open in the producer snapshot with which the log begins. A replica that
            starts from that snapshot has to find a marker, or the header of one.
    """

    def __init__(self, open_at_start: Iterable[int]) -> None:
        self.ended: list[AbortedTransaction] = []
        """Aborted ones with records, in the order of their markers."""
        self._awaited = dict.fromkeys(open_at_start)
        self._first_offsets: dict[int, int] = {}

    def is_awaited(self, producer_id: int) -> bool:
        """True, once for each producer, if its first marker has to be found."""
        is_awaited = producer_id in self._awaited
        self._awaited.pop(producer_id, None)
        return is_awaited

    def on_records(self, header: BatchHeader) -> None:
        """A batch with records was found."""
        self._first_offsets.setdefault(header.producer_id, header.base_offset)

    def on_marker(self, header: BatchHeader, marker: Marker | None) -> bool:
        """A transaction is over; returns whether records of it were found. ``marker`` is None for the header that is left of one."""
        first_offset = self._first_offsets.pop(header.producer_id, None)
        if first_offset is None:
            return False
        if marker is not None and not marker.is_commit:
            stable = min(self._first_offsets.values(), default=header.next_offset)
            self.ended.append(AbortedTransaction(header.producer_id, first_offset, header.base_offset, stable))
        return True


class Opened(NamedTuple):
    """The records of a batch: they stand in ``data`` from ``position`` to ``end``."""

    data: bytes
    position: int
    end: int


def open_batch(header: BatchHeader, chunk: bytes, index: int) -> Opened:
    """Return the records of the batch that stands in ``chunk`` at ``index``, without a copy where they are not compressed.

    Raises:
        CorruptionError: they cannot be decompressed, or take too much memory then.
    """
    if not header.codec:
        return Opened(chunk, index + HEADER_SIZE, index + header.size)
    data = decompress(header.codec, memoryview(chunk)[index + HEADER_SIZE : index + header.size], DECOMPRESSED_LIMIT)
    return Opened(data, 0, len(data))


class Fates:
    """Decides about the batches of a log, which are asked about once each and in their order.

    A batch stays, if need be without records, where nothing else says what it says: it is the first of its leader epoch, so that a replica
    that copies the log learns where epochs begin; or it is one of the last five of its producer below the end: the sequence goes on behind
    them, and a repeated one is known as such (PROD-5). Kafka leaves the last batch of all alone: if that one is not committed and is cut,
    the producer's sequence is lost.

    Of an aborted transaction no record stays. A marker stays as long as a record of its transaction was found in the same round, then for
    ``delete.retention.ms``, as a tombstone does: a replica that has the records, and was away meanwhile, still learns what became of them
    (CLEAN-3). What is left of the last marker of a producer says its epoch.

    Args:
        keys: those of the dirty part, which supersede all records before it.
        survivors: the records of the dirty part that nothing supersedes, by batch.
        end_offset: the end of that part; batches from there on stay as they are.
        malformed: the base offsets of batches of the dirty part that stay without being understood.
        now_ms: wall time.
        delete_retention_ms: the time that a tombstone stays after the first round that finds nothing older of its key.
        last_of_producers: the end of the first of the last batches below ``end_offset``, by producer that the log knows.
        last_markers: the offset of the last marker below ``end_offset``, by producer, as far as it is known.
        aborted: the aborted transactions of the log.
        open_at_start: see :class:`PassedTransactions`.
    """

    def __init__(
        self,
        keys: Set[bytes],
        survivors: Survivors,
        end_offset: int,
        *,
        malformed: Set[int],
        now_ms: int,
        delete_retention_ms: int,
        last_of_producers: Mapping[int, int],
        last_markers: Mapping[int, int],
        aborted: Aborted,
        open_at_start: Iterable[int],
    ) -> None:
        self._keys = keys
        self._malformed = malformed
        self._survivors = survivors
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, LATEST_MS)
        self._last_of_producers = last_of_producers
        self._last_markers = last_markers
        self._aborted = aborted
        self._passed = PassedTransactions(open_at_start)
        self.markers_dropped = 0
        """Markers of which nothing is left but their headers, or not even these."""
        self._leader_epoch = -1

    def decide(self, header: BatchHeader, chunk: bytes, index: int, *, is_end: bool) -> bytes | None:
        """Return the bytes of the batch from now on: None if they stay, nothing (:data:`GONE`) if it goes.

        Args:
            header: the batch's.
            chunk: holds it, whole and sound.
            index: the position there at which it begins.
            is_end: whether a segment will end with it: then a part of it stays, so that the segment ends where the next one begins.
        """
        is_first_of_epoch = header.leader_epoch != self._leader_epoch
        self._leader_epoch = header.leader_epoch
        if header.base_offset >= self._end_offset:
            return None
        if header.is_control:
            return self._decide_marker(header, chunk, index, must_stay=is_first_of_epoch or is_end)
        last = self._last_of_producers.get(header.producer_id)
        is_last_of_producer = last is not None and header.last_offset >= last
        must_stay = is_first_of_epoch or is_end or is_last_of_producer
        if not header.record_count:
            return None if must_stay else GONE
        if header.is_transactional and header.producer_id >= 0:  # without a producer it is in no transaction
            self._passed.on_records(header)
            if self._aborted.has(header):
                return empty_batch(header) if must_stay else GONE
        if header.base_offset in self._malformed:
            return None
        surviving = self._survivors.find(header)
        if surviving is not None and not surviving:
            return empty_batch(header) if must_stay else GONE
        try:
            opened = open_batch(header, chunk, index)
            kept = self._choose(header, opened, surviving)
            if not kept.records:
                return empty_batch(header) if must_stay else GONE
            return self._rebuild(header, opened, kept)
        except CorruptionError:  # its producer wrote it so, as its checksum is right: keys or timestamps are not known
            return None

    def _rebuild(self, header: BatchHeader, opened: Opened, kept: Kept) -> bytes | None:
        """Return the batch with the records that stay, at least one; None if it stays as it is. Raises CorruptionError."""
        sets_horizon = kept.has_tombstones and not header.attributes & DELETE_HORIZON_BIT
        if kept.ranges is None:
            if not sets_horizon:
                return None
            kept = Kept(kept.records, [(opened.position, opened.end)], has_tombstones=True)
        return rebuild_batch(header, opened.data, kept, self._horizon_ms if sets_horizon else None)

    def _choose(self, header: BatchHeader, opened: Opened, surviving: list[int] | None) -> Kept:
        """Find the records that stay: ``surviving`` are twice the offsets of those that nothing supersedes, None before the dirty part.

        Raises CorruptionError.
        """
        drops_tombstones = self._is_past_horizon(header)
        has_gaps = header.record_count <= header.last_offset_delta
        if surviving is None or has_gaps or drops_tombstones:
            return choose_records(*opened, header, self._keys, surviving, drops_tombstones=drops_tombstones)
        numbers = [(doubled >> 1) - header.base_offset for doubled in surviving]
        return pick_records(*opened, header, numbers)

    def _decide_marker(self, header: BatchHeader, chunk: bytes, index: int, *, must_stay: bool) -> bytes | None:
        producer_id = header.producer_id
        last = self._last_markers.get(producer_id, ANY_BATCH)
        is_last_of_producer = producer_id in self._last_of_producers and header.base_offset >= last
        must_stay |= self._passed.is_awaited(producer_id) or is_last_of_producer
        if not header.record_count:
            self._passed.on_marker(header, None)
            return None if must_stay else GONE
        marker = find_marker(chunk[index : index + header.size])
        if marker is None:  # of a kind that is not known here: it stays, whatever it says
            return None
        had_records = self._passed.on_marker(header, marker)
        if not had_records and self._is_past_horizon(header):
            self.markers_dropped += 1
            return empty_batch(header) if must_stay else GONE
        if had_records or header.attributes & DELETE_HORIZON_BIT:
            return None
        record = Kept(header.record_count, [(index + HEADER_SIZE, index + header.size)], has_tombstones=False)
        return rebuild_batch(header, chunk, record, self._horizon_ms)

    def take_aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions with records whose markers were passed since the last call, in the order of these."""
        found, self._passed.ended = self._passed.ended, []
        return found

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return bool(header.attributes & DELETE_HORIZON_BIT) and header.base_timestamp <= self._now_ms
