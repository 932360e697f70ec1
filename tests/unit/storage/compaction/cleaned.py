"""Compacted logs for the tests, and the naive model of what must be left of a log: the latest record of each key."""

from collections.abc import Sequence
from typing import Final

from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header
from esp.records.builder import NewRecord, Record, build_batch
from esp.settings.topic import TopicSettings
from esp.storage.compaction.cleaning import clean_blocking
from esp.storage.compaction.round import CleanerLimits, RoundCounts
from esp.storage.log import Log
from tests.unit.storage.helpers import run

COMPACTED: Final = TopicSettings(
    cleanup_policy="compact", segment_bytes=400, min_cleanable_dirty_ratio=0.0, index_interval_bytes=100
)
SMALL: Final = CleanerLimits(map_bytes=1 << 20, chunk_bytes=150)
"""Chunks of one batch or two."""


def put(
    log: Log,
    *pairs: tuple[bytes | None, bytes | None],
    now_ms: int = 1000,
    epoch: int | None = None,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    offset: int | None = None,
) -> None:
    """Append one batch of keys and values at the log end, or at ``offset`` behind it."""
    data = build_batch(
        [NewRecord(value, key, timestamp=now_ms) for key, value in pairs],
        base_offset=log.log_end_offset if offset is None else offset,
        leader_epoch=(log.leader_epochs.latest or 0) if epoch is None else epoch,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )
    log.append(data, read_header(data), now_ms)


def settle(log: Log, now_ms: int = 1000) -> None:
    """Seal the active segment, flush and commit all, so that all of it may be cleaned."""
    log.roll(now_ms)
    log.flush_blocking()
    log.high_watermark = log.log_end_offset


def clean(log: Log, now_ms: int = 2000, limits: CleanerLimits = SMALL) -> RoundCounts | None:
    return clean_blocking(log, now_ms, limits)


def batches_of(log: Log) -> list[bytes]:
    """All batches from the one that holds the log start."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = memoryview(run(log.read_cold(offset, 1 << 20, log.log_end_offset, at_least_one=True)))
        assert data, f"nothing at {offset} of {log.log_end_offset}"
        while data:
            header = read_header(data)
            found.append(bytes(data[: header.size]))
            data = data[header.size :]
            offset = header.next_offset
    return found


def headers_of(log: Log) -> list[BatchHeader]:
    return [read_header(batch) for batch in batches_of(log)]


def records_of(log: Log) -> list[Record]:
    return [record for batch in batches_of(log) for record in iterate_records(batch)]


def latest(records: Sequence[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}
