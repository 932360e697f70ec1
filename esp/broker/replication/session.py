"""A follower's fetch session at the leader: the partitions that one other broker follows here, on one connection.

It is KIP-227's session with two differences that the follower's side (:mod:`esp.broker.replication.fetcher`) knows. Work is done for
changes only: a request names partitions whose position is a new one, a partition notifies the session when something was appended or
committed, and all others cost nothing. And a partition that was answered with records, an error or a diverging epoch is not read again
until a request names it; so a session keeps, for each partition, the last request and the last answer.

A request that is parked is answered when there are records, or an error; when its time is up; when the next request of the session comes
in, which the follower sends ahead where the state of a partition has changed; and a moment after more was committed, so that consumers of
followers do not wait long, without an answer for each commit. A partition that is throttled
(:mod:`esp.broker.replication.replication_throttle`) is left out of answers until its turn comes; the others are answered as usual.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.replication.replication_throttle import Share, release
from esp.broker.replication.throttles import DirectionThrottles
from esp.broker.request import LATER, Answer, Request, Unanswered
from esp.broker.tasks import Tasks
from esp.model.buffers import Buffer
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.ports.clock import Clock, Timer
from esp.protocol.fetch_codec import FetchPartition, FetchRequest, FetchResult, encode_fetch_response
from esp.protocol.primitives import TopicRef
from esp.replication.partition_leader import PartitionLeader


class SessionPartition:
    """A :class:`~esp.broker.replication.session.ReplicaSession`'s state of one partition.

    ``stated``: the request that named it last has not been looked at yet. ``open``: it may be answered with records.
    ``told``: high watermark and log start of the last answer. ``share``: of the throttle, None while the partition is not throttled.
    """

    __slots__ = ("hosted", "open", "share", "stated", "told", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.hosted: HostedPartition | None = None
        self.stated = True
        self.open = True
        self.told: tuple[int, int] | None = None
        self.share: Share | None = None


COMMITS_DELAY_US: Final = 10_000
"""The time for which a parked request waits for records once something was committed; then the follower is notified of the commit alone."""

_NO_ROOM: Final = FetchResult(b"", -1)
"""Stands for an answer whose first batch is larger than the room that is left."""

FindReplica = Callable[[TopicRef, int], HostedPartition]
PartitionKey = tuple[TopicRef, int]


class Surroundings(NamedTuple):
    """The parts of the node that sessions work with.

    ``find`` returns a replica of this node or raises ApiError; ``may_join`` is called with a partition if a follower may join its in-sync
    set; ``throttles`` limits the bytes that are sent to followers that are not in sync.
    """

    node_id: NodeId
    clock: Clock
    tasks: Tasks
    find: FindReplica
    may_join: Callable[[HostedPartition], None]
    throttles: DirectionThrottles


class _Look(NamedTuple):
    """The result of a look at the partitions: answers, the partitions among them that need the device, and if to answer now or soon.

    ``is_of_now``: nothing can have become due since; not so of a look whose answer had to wait for the device.
    """

    results: dict[PartitionKey, FetchResult]
    cold: list[PartitionKey]
    is_due: bool
    has_news: bool
    is_of_now: bool = True


class ReplicaSession:
    """The leader's side of one follower's fetch session.

    Args:
        around: the parts of the node that it works with.
        replica_id: the follower.
        session_id: 0 for one that ends with its first answer.
        asked: the request that begins it.
        max_bytes: bytes of records in one answer; the first batch comes whole whatever its size.
    """

    def __init__(
        self, around: Surroundings, replica_id: NodeId, session_id: int, asked: FetchRequest, max_bytes: int
    ) -> None:
        self.session_id = session_id
        self.epoch = 1
        """The epoch that the next request must carry."""
        self._around = around
        self._replica_id = replica_id
        self._max_bytes = max_bytes
        self._items: dict[PartitionKey, SessionPartition] = {}
        self._due: dict[PartitionKey, None] = {}
        self._request: Request | None = None
        self._asked = asked
        """The newest request."""
        self._is_full = False
        self._is_reading = False
        self._behind: deque[tuple[Request, FetchRequest]] = deque()
        self._look_timer: Timer | None = None
        self._end_timer: Timer | None = None
        self._news_timer: Timer | None = None
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    # Requests.

    def handle(self, request: Request, asked: FetchRequest, *, full: bool = False) -> Answer:
        """Answer now or later; see :meth:`esp.broker.connections.dispatcher.Dispatcher.dispatch`.

        Args:
            request: the request to be answered.
            asked: its body.
            full: it begins the session, and is answered at once, so that the follower knows the session.
        """
        if self.is_closed:
            code = ErrorCode.fetch_session_id_not_found
            return encode_fetch_response(request.api_version, request.correlation_id, (), error_code=code)
        if self._is_reading:  # its answer stands before this one's in any case
            self._behind.append((request, asked))
            return LATER
        if self._request is not None:
            self._reply(self._look())
        if self._items and asked.replica_epoch != self._asked.replica_epoch:
            self._restate()
        self._request = request
        self._asked = asked
        self._is_full = full
        for topic, partition in asked.forgotten:
            self._drop((topic, partition))
        for wanted in asked.partitions:
            key = (wanted.topic, wanted.partition)
            item = self._items.get(key)
            if item is None:
                self._items[key] = SessionPartition(wanted)
            else:
                if item.open:  # named without a cause: an answer that is on its way answers an older position, and is dropped (LOG-5)
                    item.told = None
                item.wanted = wanted
                item.stated = item.open = True
            self._due.pop(key, None)
            self._due[key] = None
        look = self._look()
        if look.cold:
            self._read_cold(look)
            return LATER
        if look.is_due or full or asked.max_wait_ms <= 0:
            return self._encode(look)
        self._end_timer = self._around.clock.call_later_us(asked.max_wait_ms * 1000, self._answer)
        request.on_abandoned = self.close
        if look.has_news:
            self._answer_soon()
        return LATER

    def _restate(self) -> None:
        """Take over the positions of a follower that was registered anew: the same process stands where it stood (ISR-5)."""
        for key, item in self._items.items():
            if item.open:
                item.stated = True
                self._due[key] = None

    def close(self) -> None:
        """End the session; a parked request is answered, which goes nowhere if its connection has ended."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._request is not None and not self._is_reading:
            self._reply(_Look({}, [], is_due=True, has_news=False))
        self._stop_timers()
        for item in self._items.values():
            self._let_go(item)
        self._items.clear()
        self._due.clear()

    def _drop(self, key: PartitionKey) -> None:
        item = self._items.pop(key, None)
        self._due.pop(key, None)
        if item is not None:
            self._let_go(item)

    def _let_go(self, item: SessionPartition) -> None:
        if item.hosted is not None:
            item.hosted.unwatch(self)
        release(item)

    # What partitions tell (esp.broker.replication.hosted_partition.Watcher).

    def on_change(self, hosted: HostedPartition) -> None:
        """See :class:`esp.broker.replication.hosted_partition.Watcher`."""
        item = self._items.get(hosted.key)
        if item is not None and item.open:
            self._due[hosted.key] = None
            if self._request is not None and self._look_timer is None and not self._is_reading:
                self._look_timer = self._around.clock.call_later_us(0, self._look_again)

    def on_commit(self, hosted: HostedPartition) -> None:
        """See :class:`esp.broker.replication.hosted_partition.Watcher`."""
        item = self._items.get(hosted.key)
        if item is not None and item.open and (item.share is None or not item.share.is_waiting):
            self._due[hosted.key] = None
            if self._request is not None and not self._is_reading:
                self._answer_soon()

    def _answer_soon(self) -> None:
        if self._news_timer is None:
            self._news_timer = self._around.clock.call_later_us(COMMITS_DELAY_US, self._answer)

    def _look_again(self) -> None:
        self._look_timer = None
        if self._request is None or self._is_reading:
            return
        look = self._look()
        if look.cold:
            self._read_cold(look)
        elif look.is_due:
            self._reply(look)
        elif look.has_news:
            self._answer_soon()

    def _answer(self) -> None:
        """Time is up: answer with what there is."""
        if self._request is None or self._is_reading:
            return
        look = self._look()
        if look.cold:
            self._read_cold(look)
        else:
            self._reply(look)

    # Answers.

    def _look(self) -> _Look:
        """Look at what is due, in the order in which it became so, until the answer is full."""
        results: dict[PartitionKey, FetchResult] = {}
        cold: list[PartitionKey] = []
        total = 0
        is_due = has_news = False
        for key in tuple(self._due):
            item = self._items.get(key)
            if item is None:  # a look at another one may have ended this one
                continue
            if total >= self._max_bytes:
                is_due = True
                break
            result, is_cold = self._look_at(item, total)
            if result is None:
                self._due.pop(key, None)
                continue
            if result is _NO_ROOM:  # it stays due
                is_due = True
                continue
            results[key] = result
            if is_cold:
                cold.append(key)
                total += max(1, min(item.wanted.partition_max_bytes, self._max_bytes - total))
            elif result.records:
                total += len(result.records)
            elif result.error_code or result.diverging_epoch is not None:
                is_due = True
            elif item.told != (result.high_watermark, result.log_start_offset):
                has_news = True
            elif not self._is_full:
                del results[key]
                self._due.pop(key, None)
        return _Look(results, cold, is_due or (total > 0 and total >= self._asked.min_bytes), has_news)

    def _look_at(self, item: SessionPartition, total: int) -> tuple[FetchResult | None, bool]:
        """The answer for one partition, None for none yet, and whether its records have to be read from the device."""
        topic, partition, offset, most, leader_epoch, log_start, last_epoch, *_ = item.wanted
        replica_id, replica_epoch = self._replica_id, self._asked.replica_epoch
        try:
            hosted = self._around.find(topic, partition)
            self._watch(item, hosted)
            leader = hosted.leading(leader_epoch)
            log = hosted.log
            if item.stated:
                known = log.high_watermark
                now_us = self._around.clock.monotonic_us()
                offsets = leader.on_follower_fetch(
                    now_us, replica_id, replica_epoch, leader_epoch, offset, last_epoch, log_start
                )
                item.stated = False
                if log.high_watermark != known:
                    hosted.committed()
                if hosted.log_start_waiters:
                    hosted.log_starts_changed()
                if leader.can_join_isr(replica_id, now_us):
                    self._around.may_join(hosted)
            else:
                offsets = leader.check_follower_fetch(replica_id, replica_epoch, leader_epoch, offset, last_epoch)
            if offsets.diverging_epoch >= 0:
                diverging = (offsets.diverging_epoch, offsets.diverging_end_offset)
                return FetchResult(topic, partition, diverging_epoch=diverging), False
            committed, end = offsets.high_watermark, offsets.log_end_offset
            records: Buffer | None = b""
            if offset < end and item.open:
                most = min(most, self._max_bytes - total)
                if self._around.throttles.is_active or item.share is not None:
                    most = self._allowed(item, hosted, leader, most)
                    if not most and self.session_id and not self._is_full:
                        return None, False
                if most:
                    records = log.read(offset, most, end, at_least_one=not total)
                    if total and records is not None and not records:
                        return _NO_ROOM, False
                    if item.share is not None and records is not None:
                        item.share.settle(len(records))
            known_records = b"" if records is None else records
            result = FetchResult(topic, partition, 0, committed, committed, offsets.log_start_offset, known_records)
        except READ_ERRORS as error:
            code = code_of(error)
            if code is ErrorCode.unknown_leader_epoch and self.session_id and item.hosted is not None:
                return None, False  # the follower knows newer metadata: the partition tells when it is here too
            return FetchResult(topic, partition, code), False
        return result, records is None

    def _allowed(self, item: SessionPartition, hosted: HostedPartition, leader: PartitionLeader, most: int) -> int:
        """The number of bytes of a partition that the throttle allows the follower, at most ``most``; 0: none before :meth:`_on_turn`."""
        around, state = self._around, leader.state
        if around.throttles.is_active and not leader.is_awaited(self._replica_id, around.clock.monotonic_us()):
            listed = hosted.log.settings.leader_replication_throttled_replicas
            throttle = around.throttles.find(hosted, state, listed, around.node_id, self._replica_id)
            if throttle is not None:
                return throttle.claim(item, partial(self._on_turn, hosted.key), most)
        release(item)
        return most

    def _on_turn(self, key: PartitionKey) -> None:
        """The throttle may let a partition have something now."""
        self._due[key] = None
        if self._look_timer is not None:
            self._look_timer.cancel()
        self._look_again()

    def _watch(self, item: SessionPartition, hosted: HostedPartition) -> None:
        if item.hosted is not hosted:
            if item.hosted is not None:
                item.hosted.unwatch(self)
            item.hosted = hosted
            hosted.watch(self)

    def _read_cold(self, look: _Look) -> None:
        self._is_reading = True
        self._stop_timers()
        for key in look.results:  # a change while the device works makes them due anew
            self._due.pop(key, None)
        self._around.tasks.start(self._read_and_reply(look), name=f"cold fetch of replica {self._replica_id}")

    async def _read_and_reply(self, look: _Look) -> None:
        """Read what is not in the page cache off the loop, then answer."""
        results = look.results
        total = sum(len(result.records or b"") for result in results.values())
        for key in look.cold:
            item, result = self._items.get(key), results[key]
            if item is None or item.hosted is None:
                continue
            offset, most = item.wanted.fetch_offset, item.wanted.partition_max_bytes
            if item.share is not None and item.share.reserved:
                most = min(most, item.share.reserved)
            try:
                item.hosted.leading(item.wanted.current_leader_epoch)
                records = await item.hosted.log.read_cold(
                    offset, min(most, self._max_bytes - total), item.hosted.log.log_end_offset, at_least_one=not total
                )
                item.hosted.leading(item.wanted.current_leader_epoch)
                total += len(records)
                if item.share is not None:
                    item.share.settle(len(records))
                results[key] = result._replace(records=records)
            except READ_ERRORS as error:
                results[key] = FetchResult(result.topic, result.partition, code_of(error))
        self._is_reading = False
        self._reply(look._replace(is_of_now=False))
        while self._behind and not self._is_reading:
            request, asked = self._behind.popleft()
            answer = self.handle(request, asked)
            if not isinstance(answer, Unanswered):
                request.reply(answer)

    def _reply(self, look: _Look) -> None:
        request = self._request
        assert request is not None
        request.on_abandoned = None
        request.reply(self._encode(look))

    def _encode(self, look: _Look) -> Sequence[Buffer]:
        """The answer's buffers; the follower is taken to know what stands in them."""
        request = self._request
        assert request is not None
        self._stop_timers()
        self._request = None
        for key, result in look.results.items():
            item = self._items.get(key)
            if item is None:
                continue
            item.told = None if result.error_code else (result.high_watermark, result.log_start_offset)
            if result.records or result.error_code or result.diverging_epoch is not None:
                item.open = False  # the follower states it again
                self._due.pop(key, None)
            elif look.is_of_now:
                self._due.pop(key, None)
        results = list(look.results.values())
        if not self.session_id:
            self.close()
        return encode_fetch_response(request.api_version, request.correlation_id, results, session_id=self.session_id)

    def _stop_timers(self) -> None:
        for timer in (self._look_timer, self._end_timer, self._news_timer):
            if timer is not None:
                timer.cancel()
        self._look_timer = self._end_timer = self._news_timer = None
