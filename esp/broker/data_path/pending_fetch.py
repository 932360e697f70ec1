"""One fetch request from its first look at the logs to its answer.

It is answered once: at the first look if that finds enough; else when more was committed or the time is up; or, if it needs bytes
that are not in the page cache, after they were read off the loop.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from esp.broker.data_path.fetch_sessions import FetchSession, Told
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.request import Request
from esp.broker.turns.turns import Turns
from esp.model.buffers import Buffer
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import NodeId
from esp.ports.clock import Clock, Timer
from esp.ports.cpu import Cpu
from esp.protocol.fetch_codec import NO_SESSION, FetchPartition, FetchResult, encode_fetch_response_in_slices
from esp.protocol.produce_codec import TopicRef
from esp.protocol.progress import AT_ONCE_ELEMENTS, SLICE_ELEMENTS, Progress, SlicedWork, whole
from esp.records.batch_header import find_end_offset
from esp.replication.read_replica import preferred_read_replica
from esp.storage.log import Log
from esp.storage.transaction_index import AbortedTransaction

FindReplica = Callable[[TopicRef, int], HostedPartition]
"""Returns a replica of this node, or raises ApiError."""

PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most that is read of one partition for an answer, unless its first batch is larger. To look whether so much of a file is in the page
cache takes a tenth of a millisecond or more of the loop, and a client may ask for gigabytes again and again."""

_NO_RECORDS: Final = b""
_NOT_ELSEWHERE: Final = -1


def _no_rack(_node: NodeId) -> None:
    """No broker is near."""


def _no_session(_session_id: int) -> None:
    """There are no sessions."""


class ConsumerReads(NamedTuple):
    """From where a consumer may read.

    ``find`` looks a replica up, ``is_current`` says whether this node knows what it leads, ``rack_of`` where a broker is that could be
    fetched from instead.
    """

    find: FindReplica
    is_current: Callable[[], bool]
    from_followers: bool = False
    rack_id: str = ""
    rack_of: Callable[[NodeId], str | None] = _no_rack


class _ColdSearch(NamedTuple):
    """A search for aborted transactions off the loop; see :meth:`esp.storage.log.Log.find_aborted_transactions`."""

    log: Log
    start_offset: int
    end_offset: int


class _ColdRead(NamedTuple):
    """Bytes that are to be read off the loop; see :meth:`esp.storage.log.Log.read_cold`."""

    log: Log
    offset: int
    max_bytes: int
    end_offset: int
    at_least_one: bool


_Aborted = list[AbortedTransaction]
_Reading = Generator[_ColdRead | _ColdSearch | None, Buffer | _Aborted | None, None]
"""Reads a request's partitions. Yields None after each slice, and what it cannot read itself, to be sent the result or thrown the error."""


class PendingFetch:
    """Reads the wanted partitions, in order, and makes the answer.

    Args:
        reads: what may be read.
        request: what is to be answered.
        wanted: the partitions, in the order in which they are to be read.
        session: that the answer belongs to, or None.
        incremental: whether the answer leaves out partitions without news.
        min_bytes: the answer waits for that many bytes of records.
        cpu: searches for aborted transactions off the loop.
        read_committed: whether records of undecided transactions are left out, and aborted transactions named (LSO-2).
        close_session: forgets a session of which the client has not been told.
        max_bytes: bytes of records after which no further partition is read; the first batch comes whole whatever its size (KIP-74).
    """

    __slots__ = (
        "_close_session",
        "_cpu",
        "_incremental",
        "_is_satisfied",
        "_max_bytes",
        "_min_bytes",
        "_parked_on",
        "_read_committed",
        "_reads",
        "_request",
        "_results",
        "_session",
        "_timer",
        "_wanted",
        "is_cold",
    )

    def __init__(
        self,
        reads: ConsumerReads,
        request: Request,
        wanted: Sequence[FetchPartition],
        session: FetchSession[FetchPartition] | None,
        *,
        incremental: bool,
        min_bytes: int,
        max_bytes: int,
        cpu: Cpu,
        read_committed: bool = False,
        close_session: Callable[[int], None] = _no_session,
    ) -> None:
        self._close_session = close_session
        self._reads = reads
        self._cpu = cpu
        self._read_committed = read_committed
        self._request = request
        self._wanted = wanted
        self._session = session
        self._incremental = incremental
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._results: list[FetchResult] = []
        self._is_satisfied = False
        """True if these need not wait any longer."""
        self._parked_on: dict[HostedPartition, None] = {}
        self._timer: Timer | None = None
        self.is_cold = False
        """True if the last :meth:`read` stopped at bytes that are not in the page cache."""

    def __len__(self) -> int:
        return len(self._wanted)

    def read(self) -> bool:
        """Look at every partition as it is now; True if the answer need not wait any longer."""
        for _ in self._reading(in_slices=False):
            self.is_cold = True
            return False
        return self._is_satisfied

    async def read_slowly(self, turns: Turns) -> bool:
        """As :meth:`read`, waiting for the device where it must, and after each slice until it is this request's turn again."""
        reading = self._reading(in_slices=True)
        try:
            awaited = next(reading)
            while True:
                if awaited is None:
                    await turns.wait()
                    awaited = next(reading)
                    continue
                found: Buffer | _Aborted
                try:
                    if isinstance(awaited, _ColdSearch):
                        log, start_offset, end_offset = awaited
                        found = await log.find_aborted_transactions(start_offset, end_offset, self._cpu)
                    else:
                        log, offset, max_bytes, end_offset, at_least_one = awaited
                        found = await log.read_cold(offset, max_bytes, end_offset, at_least_one=at_least_one)
                except READ_ERRORS as error:
                    awaited = reading.throw(error)
                else:
                    awaited = reading.send(found)
        except StopIteration:
            return self._is_satisfied

    def _reading(self, *, in_slices: bool) -> _Reading:
        """Look at every partition, in order; written once, its waiting left to the caller, in the manner of :mod:`esp.storage.steps`.

        Args:
            in_slices: whether to yield after each slice, and to leave all reading to the caller, as bytes that are not in the page cache.
        """
        results: list[FetchResult] = []
        total = 0
        is_due = False
        read_committed = self._read_committed
        for item in self._wanted:
            if in_slices and len(results) % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
                yield None
            try:
                hosted, result = self._look_up(item)
                left = self._max_bytes - total
                if result.preferred_read_replica != _NOT_ELSEWHERE or result.diverging_epoch is not None:
                    is_due = True
                elif item.fetch_offset < (
                    end_offset := result.last_stable_offset if read_committed else result.high_watermark
                ) and (left > 0 or not total):
                    log, offset = hosted.log, item.fetch_offset
                    max_bytes = min(left, item.partition_max_bytes, PARTITION_BYTES_MAX)
                    records = None if in_slices else log.read(offset, max_bytes, end_offset, at_least_one=not total)
                    if records is None:
                        read = yield _ColdRead(log, offset, max_bytes, end_offset, not total)
                        assert not isinstance(read, list | None), "the bytes that are read for it are sent"
                        records = read
                    aborted: Sequence[tuple[int, int]] | None = () if read_committed else None
                    if read_committed and log.aborted.may_exist:
                        found = _find_at_once(log, offset, records)
                        if found is None:
                            again = _ColdRead(log, offset, max_bytes, end_offset, not total)
                            records, found = yield from self._searching(again, records)
                        aborted = [(entry.producer_id, entry.first_offset) for entry in found]
                    total += len(records)
                    if len(records) > PARTITION_BYTES_MAX // 2:
                        is_due = True  # the client may wait for more than is read at once
                    result = FetchResult(*result[:6], records, aborted)
                elif read_committed:
                    result = result._replace(aborted_transactions=())
            except READ_ERRORS as error:
                is_due = True
                result = FetchResult(item.topic, item.partition, self._code(error))
            results.append(result)
        self._results = results
        self._is_satisfied = is_due or total >= self._min_bytes or not results

    def _searching(
        self, read: _ColdRead, records: Buffer
    ) -> Generator[_ColdRead | _ColdSearch, Buffer | _Aborted | None, tuple[Buffer, _Aborted]]:
        """The records of a read, and the aborted transactions that overlap them, for which indexes must be read.

        Compaction takes the records of a transaction that was aborted, and with the last one its entry. If it did so while the entries were
        searched for, the records are read again, as they are of the log before it.
        """
        log = read.log
        while True:
            cuts = log.cuts
            found = yield _ColdSearch(log, read.offset, find_end_offset(records))
            assert isinstance(found, list), "the transactions that are searched for it are sent"
            if cuts == log.cuts:
                return records, found
            again = yield read
            assert not isinstance(again, list | None), "the bytes that are read for it are sent"
            records = again
            known = _find_at_once(log, read.offset, records)
            if known is not None:
                return records, known

    def _look_up(self, item: FetchPartition) -> tuple[HostedPartition, FetchResult]:
        """The replica, and what an answer says of it without records: one consistent moment, taken before the read (TRUNC-3.8)."""
        reads = self._reads
        hosted = reads.find(item.topic, item.partition)
        follower = hosted.follower
        if follower is not None and reads.from_followers:
            offsets = follower.check_consumer_fetch(
                item.current_leader_epoch, item.fetch_offset, item.last_fetched_epoch
            )
            nearer = None
        else:
            leader = hosted.leading(item.current_leader_epoch)
            offsets = leader.check_consumer_fetch(item.current_leader_epoch, item.fetch_offset, item.last_fetched_epoch)
            nearer = None
            if reads.rack_id:
                nearer = preferred_read_replica(leader, item.fetch_offset, reads.rack_id, reads.rack_of)
        committed, stable, log_start, _, diverging_epoch, diverging_end = offsets
        result = FetchResult(item.topic, item.partition, 0, committed, stable, log_start, _NO_RECORDS)
        if diverging_epoch >= 0:
            return hosted, result._replace(diverging_epoch=(diverging_epoch, diverging_end))
        return hosted, result if nearer is None else result._replace(preferred_read_replica=nearer)

    async def read_cold_and_reply(self, turns: Turns) -> None:
        """Read where the device is needed too, and answer with what there is."""
        await self.read_slowly(turns)
        self._request.reply(self.encode())

    def replicas(self) -> Iterator[HostedPartition]:
        """The replicas of the wanted partitions that are here."""
        for item in self._wanted:
            with suppress(ApiError):
                yield self._reads.find(item.topic, item.partition)

    def _code(self, error: ApiError | CorruptionError | OSError) -> ErrorCode:
        """Kafka's code for an error. Only a leader that has not been replaced can say that an offset does not exist (BRK-9)."""
        code = code_of(error)
        if code is ErrorCode.offset_out_of_range and not self._reads.is_current():
            return ErrorCode.not_leader_or_follower
        return code

    def park(self, clock: Clock, wait_ms: int) -> None:
        """Answer when :meth:`read` is satisfied, or after ``wait_ms``."""
        self._timer = clock.call_later_us(wait_ms * 1000, self._time_out)
        self._request.on_abandoned = self._stop_waiting
        for hosted in self.replicas():
            if hosted not in self._parked_on:
                self._parked_on[hosted] = None
                hosted.wait(self._look_again)

    def _look_again(self) -> None:
        # A partition that went cold meanwhile is read at the time-out at the latest, by the client's next request.
        if self.read():
            self._end()

    def _time_out(self) -> None:
        self.read()
        self._end()

    def _end(self) -> None:
        self._stop_waiting()
        self._request.reply(self.encode())

    def _stop_waiting(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._timer = None  # it refers to this
        for hosted in self._parked_on:
            hosted.forget(self._look_again)

    def encode(self) -> Sequence[Buffer]:
        """The answer's buffers, of what was read last; the session now takes the client to know what stands in them."""
        return whole(self.encode_in_slices())

    def encode_in_slices(self) -> SlicedWork[Sequence[Buffer]]:
        """As :meth:`encode`, yielding after each slice."""
        request = self._request
        session = self._session
        results = self._results
        meter = request.client.meter
        throttle_ms = 0
        if meter is not None:
            size = sum(len(result.records) for result in results if result.records)
            throttle_ms, is_sent = meter.charge_fetch(size)
            if not is_sent:
                return (yield from self._throttled(throttle_ms))
        if session is None:
            return (
                yield from encode_fetch_response_in_slices(
                    request.api_version, request.correlation_id, results, throttle_ms=throttle_ms
                )
            )
        shown = []
        progress = Progress(AT_ONCE_ELEMENTS)
        for result in results:
            if progress.count_one():
                yield
            key = (result.topic, result.partition)
            told = tuple.__new__(Told, result[3:6])  # high watermark, last stable offset, log start
            with_records = bool(result.records)
            is_redirected = result.preferred_read_replica != _NOT_ELSEWHERE or result.diverging_epoch is not None
            if (
                not self._incremental
                or with_records
                or result.error_code
                or is_redirected
                or session.has_news(key, told)
            ):
                shown.append(result)
                session.answered(key, told, with_records=with_records)
        return (
            yield from encode_fetch_response_in_slices(
                request.api_version,
                request.correlation_id,
                shown,
                session_id=session.session_id or NO_SESSION,
                throttle_ms=throttle_ms,
            )
        )

    def _throttled(self, throttle_ms: int) -> SlicedWork[Sequence[Buffer]]:
        """The answer to a client that is over its quota: no partitions, and nothing that its session would take it to know (KIP-219)."""
        session_id = NO_SESSION
        if self._session is not None:
            if self._incremental:
                session_id = self._session.session_id
            else:  # a client takes no session from an answer without partitions
                self._close_session(self._session.session_id)
        return (
            yield from encode_fetch_response_in_slices(
                self._request.api_version,
                self._request.correlation_id,
                (),
                session_id=session_id,
                throttle_ms=throttle_ms,
            )
        )


def _find_at_once(log: Log, offset: int, records: Buffer) -> list[AbortedTransaction] | None:
    """The aborted transactions that overlap what was read from ``offset`` on; None if indexes must be read to know them."""
    return log.aborted.find(offset, find_end_offset(records)) if records else []
