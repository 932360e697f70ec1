"""One ShareFetch from its first look to its answer.

It looks at its session's partitions again whenever something may have become free for it: records were committed, a lock or a session has
ended, records were released, the start offset has moved (KAFKA-19227). Nothing is acquired before it will be answered: locks do not run
while a request waits for more. What it acquires, it acquires in one go, and answers at once.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.request import Request
from esp.broker.share.leaders import ShareLeaders
from esp.broker.share.led_partition import LedSharePartition, Wanted
from esp.broker.share.log_reads import ReadBatches
from esp.broker.share.requests import Answers, PartitionAnswer, ShareFetch
from esp.model.errors import ApiError, ErrorCode
from esp.share.sessions import ShareSession, WantedPartition


class _Read(NamedTuple):
    """Batches that were read for a share partition, and not acquired yet."""

    partition: WantedPartition
    share: LedSharePartition
    batches: ReadBatches


class PendingShareFetch:
    """See the module.

    Args:
        leaders: the node's share partitions.
        request: the request.
        asked: what it asks for.
        session: its session.
    """

    def __init__(self, leaders: ShareLeaders, request: Request, asked: ShareFetch, session: ShareSession) -> None:
        self._leaders: Final = leaders
        self._request: Final = request
        self._asked: Final = asked
        self._session: Final = session
        self._max_bytes: Final = min(asked.max_bytes, leaders.max_bytes)
        self._news: Final = asyncio.Event()
        self._shares: Final[dict[WantedPartition, LedSharePartition]] = {}
        self._answers: Answers = {}
        self._is_late = asked.max_wait_ms <= 0

    async def run(self) -> Answers:
        """The answers about the partitions that have something to answer; none once they are not waited for."""
        timer = self._leaders.clock.call_later_us(max(0, self._asked.max_wait_ms) * 1000, self._time_out)
        self._request.on_abandoned = self._news.set
        self._session.at_end[self._news.set] = None
        try:
            self._obtain()
            while self._is_wanted:
                self._news.clear()
                was_late = self._is_late
                reads = await self._read()
                size = sum(len(read.batches.records) for read in reads)
                is_due = bool(self._answers) or was_late or size >= self._asked.min_bytes
                if is_due and self._is_wanted:
                    has_moved = self._acquire(reads)
                    if self._answers or was_late or (not has_moved and self._asked.min_bytes <= 0):
                        break
                    if has_moved:  # past offsets at which there is nothing
                        await asyncio.sleep(0)
                        continue
                await self._news.wait()
        finally:
            timer.cancel()
            self._request.on_abandoned = None
            self._session.at_end.pop(self._news.set, None)
            for share in self._shares.values():
                share.forget(self._news.set)
        return self._answers

    @property
    def _is_wanted(self) -> bool:
        """False if nothing may be acquired any more: what came after the end of connection or session would not be released."""
        return not (self._session.has_ended or self._request.is_abandoned)

    def _time_out(self) -> None:
        self._is_late = True
        self._news.set()

    def _obtain(self) -> None:
        for partition in self._session:
            try:
                share = self._leaders.obtain(self._request, self._session.key, partition)
            except ApiError as error:
                self._answers[partition] = PartitionAnswer(error=error.code)
            else:
                self._shares[partition] = share
                share.wait(self._news.set)

    async def _read(self) -> Sequence[_Read]:
        """Read what is free; each partition has an equal part of the bytes."""
        free: list[tuple[WantedPartition, LedSharePartition, int]] = []
        for partition, share in self._shares.items():
            offset = share.find_fetch_offset()
            if offset is not None:
                free.append((partition, share, offset))
            elif share.error is not None and share.error is not ErrorCode.none:
                self._answers[partition] = PartitionAnswer(error=share.error)
        reads: list[_Read] = []
        size, size_each = 0, self._max_bytes // max(1, len(free))
        for partition, share, offset in free:
            try:
                batches = await share.read(offset, size_each, at_least_one=not size)
            except READ_ERRORS as error:
                code = code_of(error)
                if code is ErrorCode.offset_out_of_range:  # the log start has passed it: the next look begins there
                    self._news.set()
                else:
                    self._answers[partition] = PartitionAnswer(error=code)
                continue
            reads.append(_Read(partition, share, batches))
            size += len(batches.records)
        return reads

    def _acquire(self, reads: Sequence[_Read]) -> bool:
        """Acquire of what was read; True if anything is different now."""
        asked = self._asked
        room = asked.max_records
        has_moved = False
        for partition, share, batches in reads:
            if room <= 0:
                break
            try:
                self._leaders.find(self._request, partition)  # it may be older than a rule
            except ApiError as error:
                self._answers[partition] = PartitionAnswer(error=error.code)
                continue
            before = share.find_fetch_offset()
            wanted = Wanted(self._session.key.member_id, room, asked.batch_size, asked.mode)
            acquired = share.acquire(batches, wanted)
            has_moved |= bool(acquired) or share.find_fetch_offset() != before
            if acquired:
                records = batches.slice_of(acquired[0].start_offset, acquired[-1].end_offset)
                self._answers[partition] = PartitionAnswer(records=records, acquired=acquired)
                self._session.gave_records(partition)
                room -= sum(piece.end_offset - piece.start_offset for piece in acquired)
        return has_moved
