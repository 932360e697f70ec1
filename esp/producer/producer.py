"""The producer of one topic: records become batches, batches become requests to the leaders of their partitions.

The caller tells it of the leaders, the producer id, the answers and the time, and sends the requests that it asks for.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.producer.batch import RECORD_OVERHEAD, Batch, OpenBatch, ProducerIdentity, record_size
from esp.producer.lane import Lane
from esp.producer.partitioner import StickyPartition, partition_of_key
from esp.producer.policy import Policy
from esp.records.batch_header import HEADER_SIZE
from esp.records.builder import NewRecord

NO_LEADER: Final = -1

_APPENDED: Final = frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number})
_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.network_exception,
    }
)
_RETRIED: Final = _LEADER_MOVED | {
    ErrorCode.corrupt_message,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.broker_not_available,
    ErrorCode.throttling_quota_exceeded,
}
_NOT_APPENDED: Final = frozenset({ErrorCode.corrupt_message, ErrorCode.not_enough_replicas})
"""Errors that say that nothing of the batch was appended. A leader that resigns answers batches that it has appended with some others."""


class Request(NamedTuple):
    """Batches for one broker, at most one of a partition."""

    node_id: int
    batches: tuple[Batch, ...]


class PartitionAnswer(NamedTuple):
    """A broker's answer for one batch."""

    code: int
    message: str | None = None


class Producer:
    """Sends records to one topic.

    Args:
        policy: its settings.
        below: a random integer that is less than its argument, and not negative; chooses partitions.
    """

    def __init__(self, policy: Policy, below: Callable[[int], int]) -> None:
        self.identity: ProducerIdentity | None = None
        """The newest one that a broker has handed out; the caller sets it when :attr:`needs_identity`."""
        self.needs_leaders = False
        """True if a leader is unknown or has moved; cleared by :meth:`on_leaders`."""
        self.unacknowledged_bytes = 0
        """Bytes of records that the producer holds."""
        self.acknowledged = 0
        """The number of records that the broker has."""
        self.refused = 0
        """The number of records that were given up."""
        self.refusal: PartitionAnswer | None = None
        """The reason for which the first of them was."""
        self._policy = policy._replace(batch_size=min(policy.batch_size, policy.request_size_max) - HEADER_SIZE)
        self._sticky = StickyPartition(below)
        self._leaders: dict[int, int] = {}
        self._partitions: list[int] = []
        self._available: list[int] = []
        self._busy: dict[int, Lane] = {}
        """The partitions that have unacknowledged records."""
        self._idle: dict[int, Lane] = {}
        self._in_flight: Counter[int] = Counter()

    @property
    def is_done(self) -> bool:
        """True if the fate of all records is known."""
        return not self._busy

    @property
    def has_partitions(self) -> bool:
        """True if the topic is known; records can be added then."""
        return bool(self._partitions)

    @property
    def needs_identity(self) -> bool:
        """True if batches wait for a producer id, or for another one."""
        return any(lane.needs_identity(self.identity) for lane in self._busy.values())

    def on_leaders(self, leaders: Mapping[int, int]) -> None:
        """Learn the leader of each partition, ``NO_LEADER`` where there is none."""
        self.needs_leaders = False
        if leaders != self._leaders:
            self._leaders = dict(leaders)
            self._partitions = sorted(leaders)
            self._available = [each for each in self._partitions if leaders[each] != NO_LEADER]

    def add_values(self, values: Sequence[bytes], now_ms: float, timestamp_ms: int) -> None:
        """Take records that are a value and nothing else.

        Args:
            values: in order.
            now_ms: the time on a clock that never goes back.
            timestamp_ms: the time since the Unix epoch.
        """
        ends = list(accumulate(map(len, values), initial=0))
        count = len(values)
        start = 0
        while start < count:
            lane = self._lane(self._sticky.get(self._partitions, self._available))
            if lane.open is not None and lane.open.records:
                self._close(lane)
            open_ = self._open(lane, now_ms, timestamp_ms)
            # The last end whose records, with what stands around each of them, still fit.
            limit = self._policy.batch_size - open_.size + ends[start] + RECORD_OVERHEAD * start
            fitting = range(start, count + 1)
            end = start + bisect_right(fitting, limit, key=lambda each: ends[each] + RECORD_OVERHEAD * each) - 1
            if end <= start and not len(open_):
                end = start + 1  # it is larger than a batch
            if end > start:
                size = ends[end] - ends[start] + RECORD_OVERHEAD * (end - start)
                open_.values += values[start:end]
                open_.size += size
                self.unacknowledged_bytes += size
                start = end
            if start < count:
                self._close(lane)
                self._sticky.move(self._partitions, self._available)

    def add(self, record: NewRecord, now_ms: float, timestamp_ms: int) -> None:
        """Take a record; for times see :meth:`add_values`."""
        size = record_size(record)
        lane = self._lane_of(record)
        if lane.open is not None and (lane.open.values or lane.open.size + size > self._policy.batch_size):
            self._close(lane)
            if record.key is None:
                self._sticky.move(self._partitions, self._available)
            lane = self._lane_of(record)
            if lane.open is not None and lane.open.values:
                self._close(lane)
                lane = self._lane_of(record)
        open_ = self._open(lane, now_ms, timestamp_ms)
        open_.records.append(record)
        open_.size += size
        self.unacknowledged_bytes += size

    def close_batches(self, opened_before_ms: float) -> None:
        """Let no more records into the batches that were begun at that time or before."""
        for lane in list(self._busy.values()):
            if lane.open is not None and lane.open.created_ms <= opened_before_ms:
                self._close(lane)
                self._sticky.move(self._partitions, self._available)

    def next_close_ms(self) -> float | None:
        """The time at which an open batch will have waited for long enough; None if there is none."""
        opened = [lane.open.created_ms for lane in self._busy.values() if lane.open is not None]
        return min(opened) + self._policy.linger_ms if opened else None

    def take_requests(self, now_ms: float) -> list[Request]:
        """Return the requests to be sent now; each is answered by :meth:`on_answer` or :meth:`on_lost`."""
        self.close_batches(now_ms - self._policy.linger_ms)
        requests: list[Request] = []
        while taken := self._take_round(now_ms):
            requests += taken
        return requests

    def _take_round(self, now_ms: float) -> list[Request]:
        """A batch of each partition, as far as there are batches, and their leaders take requests."""
        by_node: dict[int, list[Batch]] = {}
        room: dict[int, int] = {}
        for lane in list(self._busy.values()):
            self._give_up(lane, lane.expire(now_ms), _EXPIRED)
            node_id = self._leaders.get(lane.partition, NO_LEADER)
            if node_id == NO_LEADER:
                self.needs_leaders = True
            elif self._in_flight[node_id] < self._policy.in_flight_max:
                left = room.setdefault(node_id, self._policy.request_size_max)
                batch = lane.take(now_ms, self.identity, left)
                if batch is not None:
                    room[node_id] = left - batch.size
                    by_node.setdefault(node_id, []).append(batch)
        for node_id in by_node:
            self._in_flight[node_id] += 1
        return [Request(node_id, tuple(batches)) for node_id, batches in by_node.items()]

    def on_answer(self, request: Request, answers: Mapping[int, PartitionAnswer], now_ms: float) -> None:
        """The broker has answered; a partition that its answer does not name was not answered."""
        self._in_flight[request.node_id] -= 1
        for batch in request.batches:
            self._judge(batch, answers.get(batch.partition, _NO_ANSWER), now_ms)

    def on_lost(self, request: Request, now_ms: float, *, was_sent: bool) -> None:
        """The connection ended before an answer, or the request was not sent at all."""
        self._in_flight[request.node_id] -= 1
        self.needs_leaders = True
        for batch in request.batches:
            lane = self._busy[batch.partition]
            self._give_up(lane, lane.on_retry(batch, now_ms, is_uncertain=was_sent), _NO_ANSWER)

    def _judge(self, batch: Batch, answer: PartitionAnswer, now_ms: float) -> None:
        lane = self._busy[batch.partition]
        code = answer.code
        if code in _APPENDED:
            self.acknowledged += batch.record_count
            given_up = lane.on_appended(batch)
            self._release(lane, (batch,))
        elif code in _TOO_LARGE:
            given_up = lane.on_too_large(batch)
        elif code == ErrorCode.out_of_order_sequence_number and not lane.is_next(batch):
            given_up = lane.on_retry(batch, now_ms, is_uncertain=False)
        elif code in _RETRIED:
            self.needs_leaders |= code in _LEADER_MOVED
            given_up = lane.on_retry(batch, now_ms, is_uncertain=code not in _NOT_APPENDED)
        else:
            given_up = lane.on_refused(batch)
        self._give_up(lane, given_up, answer)

    def _give_up(self, lane: Lane, batches: Sequence[Batch], reason: PartitionAnswer) -> None:
        self._release(lane, batches)
        for batch in batches:
            self._refuse(batch.record_count, reason)

    def _refuse(self, record_count: int, reason: PartitionAnswer) -> None:
        self.refused += record_count
        self.refusal = self.refusal or reason

    def _release(self, lane: Lane, batches: Iterable[Batch]) -> None:
        """The fate of the batches is known."""
        self.unacknowledged_bytes -= sum(each.size for each in batches)
        self._let_rest(lane)

    def _let_rest(self, lane: Lane) -> None:
        if lane.is_idle and self._busy.pop(lane.partition, None) is not None:
            self._idle[lane.partition] = lane

    def _lane_of(self, record: NewRecord) -> Lane:
        if record.key is None:
            return self._lane(self._sticky.get(self._partitions, self._available))
        return self._lane(self._partitions[partition_of_key(record.key, len(self._partitions))])

    def _lane(self, partition: int) -> Lane:
        lane = self._busy.get(partition)
        if lane is None:
            lane = self._idle.pop(partition) if partition in self._idle else Lane(partition, self._policy)
            self._busy[partition] = lane
        return lane

    def _open(self, lane: Lane, now_ms: float, timestamp_ms: int) -> OpenBatch:
        if lane.open is None:
            lane.open = OpenBatch(now_ms, timestamp_ms)
        return lane.open

    def _close(self, lane: Lane) -> None:
        """Make a batch of the open one; a record that is larger than a request is refused here."""
        open_, lane.open = lane.open, None
        assert open_ is not None
        size = open_.size
        if len(open_) == 1 and size > self._policy.request_size_max:
            text = f"a record of {size} bytes is larger than max.request.size, {self._policy.request_size_max}"
            self._refuse(1, PartitionAnswer(ErrorCode.message_too_large, text))
            self.unacknowledged_bytes -= size
            self._let_rest(lane)
            return
        batch = open_.close(lane.partition, self._policy.codec)
        self.unacknowledged_bytes += batch.size - size
        lane.add(batch)


_EXPIRED: Final = PartitionAnswer(ErrorCode.request_timed_out, "not acknowledged within delivery.timeout.ms")
_NO_ANSWER: Final = PartitionAnswer(ErrorCode.network_exception, "the broker did not answer")
