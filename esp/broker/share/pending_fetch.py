"""One ShareFetch from its first look to its answer.

It looks at its session's partitions again whenever something may have become free for it: records were committed, a lock or a session has
ended, records were released, the start offset has moved (KAFKA-19227). A look is at those of which there is news. Nothing is acquired
before it will be answered: locks do not run while a request waits for more. What it acquires is answered at once.

A session may have thousands of partitions; they are obtained, looked at and acquired from in slices, in turns with other long work.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.request import Request
from esp.broker.share.leaders import ShareLeaders
from esp.broker.share.led_partition import LedSharePartition, Wanted
from esp.broker.share.log_reads import Range, ReadBatches
from esp.broker.share.requests import Answers, PartitionAnswer, ShareFetch
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.progress import Progress
from esp.share.sessions import INITIAL_EPOCH, ShareSession, WantedPartition

_AT_ONCE: Final = 16
"""The partitions before the first turn: some hundred microseconds."""


class _Read(NamedTuple):
    """Batches that were read for a share partition, and not acquired yet."""

    partition: WantedPartition
    share: LedSharePartition
    batches: ReadBatches


class _Reads(NamedTuple):
    """The result of a look."""

    reads: Sequence[_Read]
    is_enough: bool
    """True if it is not worth waiting for more."""
    has_more: bool
    """True if partitions are left that were not read."""


class PendingShareFetch:
    """See the module.

    Args:
        leaders: the node's share partitions.
        request: the request.
        asked: what it asks for.
        session: its session.
    """

    def __init__(self, leaders: ShareLeaders, request: Request, asked: ShareFetch, session: ShareSession) -> None:
        self.throttle_ms = 0
        """The time for which its client is throttled, once :meth:`run` has returned."""
        self._leaders: Final = leaders
        self._request: Final = request
        self._asked: Final = asked
        self._session: Final = session
        meter = request.client.meter
        quota_bytes = None if meter is None else meter.fetch_bytes_max()
        max_bytes = min(asked.max_bytes, leaders.max_bytes)
        self._max_bytes: Final = max_bytes if quota_bytes is None else min(max_bytes, quota_bytes)
        self._min_bytes: Final = min(asked.min_bytes, self._max_bytes)
        self._news: Final = asyncio.Event()
        self._shares: Final[dict[WantedPartition, LedSharePartition]] = {}
        self._waiters: Final[dict[WantedPartition, Callable[[], None]]] = {}
        self._fresh: dict[WantedPartition, None] = {}
        """The partitions that the next look is at."""
        self._answers: Answers = {}
        self._is_late = asked.max_wait_ms <= 0

    async def run(self) -> Answers:
        """The answers about the partitions that have something to answer; none once they are not waited for."""
        timer = self._leaders.clock.call_later_us(max(0, self._asked.max_wait_ms) * 1000, self._time_out)
        self._request.on_abandoned = self._news.set
        self._session.at_end[self._news.set] = None
        try:
            await self._obtain()
            while self._is_wanted:
                self._news.clear()
                was_late = self._is_late
                reads, is_enough, has_more = await self._read()
                is_due = bool(self._answers) or was_late or is_enough
                if is_due and self._is_wanted:
                    has_moved = await self._acquire(reads)
                    if self._answers or was_late or (not has_moved and self._min_bytes <= 0):
                        break
                    if has_moved or has_more:  # past offsets at which there is nothing, or there are other partitions
                        await asyncio.sleep(0)
                        continue
                await self._news.wait()
        finally:
            timer.cancel()
            self._request.on_abandoned = None
            self._session.at_end.pop(self._news.set, None)
            for found, waiter in self._waiters.items():
                self._shares[found].forget(waiter)
        return self._answers

    @property
    def _is_wanted(self) -> bool:
        """False if nothing may be acquired any more: what came after the end of connection or session would not be released."""
        return not (self._session.has_ended or self._request.is_abandoned)

    def _time_out(self) -> None:
        self._is_late = True
        self._news.set()

    def _look_again(self, wanted: WantedPartition) -> None:
        self._fresh[wanted] = None
        self._news.set()

    async def _obtain(self) -> None:
        progress = Progress(_AT_ONCE)
        opens_session = self._asked.acknowledging.epoch == INITIAL_EPOCH
        for wanted in tuple(self._session):
            if progress.count_one():
                await self._leaders.turns.wait()
                if not self._is_wanted:
                    return
            try:
                share = self._leaders.obtain(self._request, self._session.key, wanted, opens_session=opens_session)
            except ApiError as error:
                self._answers[wanted] = PartitionAnswer(error=error.code)
            else:
                self._shares[wanted] = share
                self._waiters[wanted] = partial(self._look_again, wanted)
                self._fresh[wanted] = None
                share.wait(self._waiters[wanted])

    async def _find_free(self) -> list[tuple[WantedPartition, LedSharePartition, Range]]:
        """The partitions that have something free, with the offsets that are to be read."""
        free = []
        fresh, self._fresh = self._fresh, {}
        progress = Progress(_AT_ONCE)
        for wanted in fresh:
            if progress.count_one():
                await self._leaders.turns.wait()
            share = self._shares[wanted]
            where = share.find_fetch_range(self._asked.max_records)
            if where is not None:
                free.append((wanted, share, where))
                self._fresh[wanted] = None  # until it is acquired it is there at the next look too
            elif share.error is not None and share.error is not ErrorCode.none:
                self._answers[wanted] = PartitionAnswer(error=share.error)
        return free

    async def _read(self) -> _Reads:
        """Read what is free until it is enough; each partition has an equal part of the bytes."""
        free = await self._find_free()
        reads: list[_Read] = []
        size, count, size_each = 0, 0, self._max_bytes // max(1, len(free))
        progress = Progress(_AT_ONCE)
        is_enough = size >= self._min_bytes
        for wanted, share, where in free:
            if not self._is_wanted or (is_enough and count >= self._asked.max_records):
                return _Reads(reads, is_enough, has_more=self._asked.max_records > 0)
            if progress.count_one():
                await self._leaders.turns.wait()
            try:
                batches = await share.read(where, size_each, at_least_one=not size)
            except READ_ERRORS as error:
                code = code_of(error)
                if code is ErrorCode.offset_out_of_range:  # the log start has passed it: the next look begins there
                    self._look_again(wanted)
                else:
                    self._answers[wanted] = PartitionAnswer(error=code)
                continue
            reads.append(_Read(wanted, share, batches))
            size += len(batches.records)
            count += sum(batch.end_offset - max(batch.start_offset, where.offset) for batch in batches.batches)
            is_enough = is_enough or size >= self._min_bytes or batches.is_cut
        return _Reads(reads, is_enough, has_more=False)

    async def _acquire(self, reads: Sequence[_Read]) -> bool:
        """Acquire of what was read; True if anything is different now."""
        asked = self._asked
        room, size = asked.max_records, 0
        has_moved = False
        progress = Progress(_AT_ONCE)
        for wanted, share, batches in reads:
            if progress.count_one():
                await self._leaders.turns.wait()
            if room <= 0 or not self._is_wanted:
                break
            try:
                self._leaders.find(self._request, wanted)  # it may be older than a rule
            except ApiError as error:
                self._answers[wanted] = PartitionAnswer(error=error.code)
                continue
            before = share.find_fetch_offset()
            wish = Wanted(self._session.key.member_id, room, asked.batch_size, asked.mode)
            acquired = share.acquire(batches, wish)
            has_moved |= bool(acquired) or share.find_fetch_offset() != before
            if acquired:
                records = batches.slice_of(acquired[0].start_offset, acquired[-1].end_offset)
                self._answers[wanted] = PartitionAnswer(records=records, acquired=acquired)
                self._session.gave_records(wanted)
                room -= sum(piece.end_offset - piece.start_offset for piece in acquired)
                size += len(records)
        meter = self._request.client.meter
        if size and meter is not None:
            self.throttle_ms = meter.charge_sent(size)
        return has_moved
