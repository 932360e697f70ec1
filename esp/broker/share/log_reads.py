"""Reads of a log for a share group: whole record batches, with the ones among them that are not for delivery."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.buffers import Buffer
from esp.model.errors import ApiError, ErrorCode
from esp.ports.clock import Clock
from esp.ports.cpu import Cpu
from esp.records.batch_header import BatchHeader, read_header
from esp.share.acquiring import FetchedBatch
from esp.share.group_settings import ShareGroupSettings
from esp.storage.log import Log
from esp.storage.transaction_index import AbortedTransaction


class ReadBatches(NamedTuple):
    """Whole batches that stand end to end."""

    fetch_offset: int
    """The offset for which they were read; the first batch may begin before it."""
    records: Buffer
    batches: tuple[FetchedBatch, ...]
    positions: tuple[int, ...]
    """The place in the bytes at which each of them begins."""
    is_cut: bool = False
    """True if there were more behind those that were wanted."""

    def slice_of(self, start_offset: int, end_offset: int) -> Buffer:
        """The bytes of the batches that have offsets of a range, and of those between them."""
        first = next(place for place, batch in enumerate(self.batches) if batch.end_offset > start_offset)
        after = [position for position, batch in self.located() if batch.start_offset >= end_offset]
        end = min(after, default=len(self.records))
        return memoryview(self.records)[self.positions[first] : end]

    def located(self) -> Sequence[tuple[int, FetchedBatch]]:
        """The batches with their places in the bytes."""
        return tuple(zip(self.positions, self.batches, strict=True))


class Searching(NamedTuple):
    """The parts that searches in logs need."""

    clock: Clock
    cpu: Cpu
    """Opens batches off the loop."""
    searches: asyncio.Semaphore
    """Held by each search in a log."""


def visible_end(log: Log, settings: ShareGroupSettings) -> int:
    """The offset after the last record that members may get."""
    return log.last_stable_offset if settings.is_read_committed else log.high_watermark


class Range(NamedTuple):
    """The offsets that are wanted of a log."""

    offset: int
    end_offset: int
    """No batch that begins here or later is read, except for the first one. It bounds the time that a read takes."""


async def read_batches(
    hosted: HostedPartition,
    wanted: Range,
    max_bytes: int,
    settings: ShareGroupSettings,
    cpu: Cpu,
    *,
    at_least_one: bool,
) -> ReadBatches:
    """Read the batches that members may get from an offset on, waiting for the device where it must.

    Args:
        hosted: the replica.
        wanted: the offsets.
        max_bytes: the most that is read.
        settings: the group's.
        cpu: searches for aborted transactions off the loop.
        at_least_one: whether the first batch comes whole, whatever its size.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE.
        CorruptionError: the log is broken there.
        OSError: the device failed.
    """
    offset = wanted.offset
    while True:
        log = hosted.log
        end_offset, cuts = visible_end(log, settings), log.cuts
        records = log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)
        if records is None:
            records = await log.read_cold(offset, max_bytes, end_offset, at_least_one=at_least_one)
        headers, size = _headers(records, wanted.end_offset)
        aborted: Sequence[AbortedTransaction] = ()
        if headers and settings.is_read_committed and log.aborted.may_exist:
            first, last = offset, headers[-1][1].next_offset
            found = log.aborted.find(first, last)
            aborted = await log.find_aborted_transactions(first, last, cpu) if found is None else found
        if cuts == log.cuts and log is hosted.log:  # else compaction may have taken a transaction between the two reads
            batches = tuple(
                FetchedBatch(header.base_offset, header.next_offset, is_deliverable=_is_deliverable(header, aborted))
                for _position, header in headers
            )
            positions = tuple(position for position, _header in headers)
            return ReadBatches(offset, memoryview(records)[:size], batches, positions, size < len(records))


async def find_first_offset(hosted: HostedPartition, settings: ShareGroupSettings, searching: Searching) -> int:
    """The offset at which a group begins that has none yet.

    Raises:
        ApiError: OFFSET_NOT_AVAILABLE, this leader does not know yet how far the log is committed.
        CorruptionError: the log is broken.
        OSError: the device failed.
    """
    log = hosted.log
    if settings.offset_reset == "earliest":
        return log.log_start_offset
    duration_ms = settings.reset_duration_ms
    if duration_ms is not None:
        async with searching.searches:
            since_ms = max(0, searching.clock.wall_ms() - duration_ms)
            found = await log.find_offset_by_timestamp(since_ms, searching.cpu)
        if found is not None:
            return found.offset
    if not hosted.leading().is_high_watermark_current:
        raise ApiError(ErrorCode.offset_not_available)
    return visible_end(hosted.log, settings)


def _headers(records: Buffer, end_offset: int) -> tuple[list[tuple[int, BatchHeader]], int]:
    """The headers of the first batch and of those behind it that begin before an offset, with their places, and where they end."""
    headers: list[tuple[int, BatchHeader]] = []
    position = 0
    while position < len(records):
        header = read_header(records, position)
        if headers and header.base_offset >= end_offset:
            break
        headers.append((position, header))
        position += header.size
    return headers, position


def _is_deliverable(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    if header.is_control:
        return False
    return not header.is_transactional or not any(
        entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset < entry.last_offset
        for entry in aborted
    )
