"""The fate of each batch when a log is copied: it stays whole, or with fewer records, or as a header, or goes (CLEAN-2, CLEAN-5)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from esp.model.errors import CorruptionError
from esp.records.batch import DECOMPRESSED_LIMIT
from esp.records.batch_header import DELETE_HORIZON_BIT, HEADER_SIZE, BatchHeader
from esp.records.compression import decompress
from esp.records.keyed import Kept, choose_records, empty_batch, rebuild_batch
from esp.storage.transaction_index import AbortedTransaction

GONE: Final = b""
"""The fate of a batch of which nothing stays."""

ANY_BATCH: Final = -1
"""In place of the end of the first of a producer's last batches: any of its batches may be one of them."""


class Aborted:
    """The aborted transactions of a log, to be asked for single batches.

    Args:
        transactions: all that have records in the part that is asked about.
    """

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for transaction in transactions:
            self._by_producer.setdefault(transaction.producer_id, []).append(transaction)

    def has(self, header: BatchHeader) -> bool:
        """True if a transactional batch belongs to one of them."""
        return any(
            each.first_offset <= header.base_offset < each.last_offset
            for each in self._by_producer.get(header.producer_id, ())
        )


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

    Batches of transactions stay as they are, and so do markers: the transactions that are read off the log remain the same (CLEAN-3). Kafka
    removes superseded and aborted records, and markers in the end.

    Args:
        latest: twice the latest offset of each key of the dirty part.
        end_offset: the end of that part; batches from there on stay as they are.
        now_ms: wall time.
        delete_retention_ms: for how long a tombstone stays after the first round that finds nothing older of its key.
        last_of_producers: of each producer that the log knows, the end of the first of its last batches below ``end_offset``.
    """

    def __init__(
        self,
        latest: Mapping[bytes, int],
        end_offset: int,
        *,
        now_ms: int,
        delete_retention_ms: int,
        last_of_producers: Mapping[int, int],
    ) -> None:
        self._latest = latest
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._last_of_producers = last_of_producers
        self._leader_epoch = -1

    def decide(self, header: BatchHeader, chunk: bytes, index: int, *, is_end: bool) -> bytes | None:
        """Return the bytes of the batch from now on: None if they stay, nothing (:data:`GONE`) if it goes.

        Args:
            header: the batch's.
            chunk: holds it, whole and sound.
            index: where it begins there.
            is_end: whether a segment will end with it: then a part of it stays, so that the segment ends where the next one begins.
        """
        is_first_of_epoch = header.leader_epoch != self._leader_epoch
        self._leader_epoch = header.leader_epoch
        if header.base_offset >= self._end_offset or header.is_control or header.is_transactional:
            return None
        last = self._last_of_producers.get(header.producer_id)
        is_last_of_producer = last is not None and header.last_offset >= last
        must_stay = is_first_of_epoch or is_end or is_last_of_producer
        if not header.record_count:
            return None if must_stay else GONE
        try:
            opened = open_batch(header, chunk, index)
            kept = choose_records(*opened, header, self._latest, drops_tombstones=self._is_past_horizon(header))
        except CorruptionError:  # its producer wrote it so, as its checksum is right: its keys cannot be known
            return None
        if not kept.records:
            return empty_batch(header) if must_stay else GONE
        sets_horizon = kept.has_tombstones and not header.attributes & DELETE_HORIZON_BIT
        if kept.ranges is None:
            if not sets_horizon:
                return None
            kept = Kept(kept.records, [(opened.position, opened.end)], has_tombstones=True)
        return rebuild_batch(header, opened.data, kept, self._horizon_ms if sets_horizon else None)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return bool(header.attributes & DELETE_HORIZON_BIT) and header.base_timestamp <= self._now_ms
