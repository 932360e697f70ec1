from collections import defaultdict, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import ErrorCode
from esp.producer.batch import ProducerIdentity
from esp.producer.partitioner import partition_of_key
from esp.producer.policy import Policy
from esp.producer.producer import NO_LEADER, PartitionAnswer, Producer, Request
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord
from tests.unit.producer.broker import PartitionLog

NODE = 7
SMALL = Policy(batch_size=150, linger_ms=5)


def first_of(_limit: int) -> int:
    return 0


def ready_producer(policy: Policy = SMALL, partitions: int = 1) -> Producer:
    producer = Producer(policy, first_of)
    producer.on_leaders(dict.fromkeys(range(partitions), NODE))
    producer.identity = ProducerIdentity(1, 0)
    return producer


def answer(producer: Producer, request: Request, code: ErrorCode = ErrorCode.none, now_ms: float = 10) -> None:
    producer.on_answer(request, {each.partition: PartitionAnswer(code) for each in request.batches}, now_ms)


def values_of(request: Request) -> list[bytes | None]:
    return [record.value for each in request.batches for record in iterate_records(each.data)]


def sequences_of(requests: list[Request]) -> list[tuple[int, int]]:
    headers = [read_header(batch.data) for request in requests for batch in request.batches]
    return [(header.producer_id, header.base_sequence) for header in headers]


class Link:
    """A connection to a broker that fails in every way that Produce has to bear, and the producer at its other end."""

    def __init__(self, producer: Producer, batch_bytes_max: int) -> None:
        self.logs: dict[int, PartitionLog] = defaultdict(lambda: PartitionLog(batch_bytes_max))
        self.now_ms = 0.0
        self._producer = producer
        self._identities = 1
        self._under_way: deque[Request] = deque()
        self._late: list[Request] = []
        """Requests on connections that the producer gave up, which the broker has still to read."""

    def send(self) -> None:
        if self._producer.needs_identity:
            self._producer.identity = ProducerIdentity(self._identities, 0)
            self._identities += 1
        self._under_way += self._producer.take_requests(self.now_ms)

    def serve(self, code: ErrorCode = ErrorCode.none) -> None:
        """Serve the next request: append, or refuse its batches for now without appending them."""
        if self._under_way:
            request = self._under_way.popleft()
            self._producer.on_answer(
                request,
                {
                    each.partition: self.logs[each.partition].append(each.data)
                    if code is ErrorCode.none
                    else PartitionAnswer(code)
                    for each in request.batches
                },
                self.now_ms,
            )

    def resign(self) -> None:
        """Append, and answer as a leader that has resigned meanwhile."""
        if self._under_way:
            request = self._under_way.popleft()
            self._append(request)
            answer(self._producer, request, ErrorCode.not_leader_or_follower, self.now_ms)

    def cut(self, appended: int, late: int) -> None:
        """End the connection: the broker appended the first requests, will read the next ones late, and never got the rest."""
        requests, self._under_way = list(self._under_way), deque()
        for request in requests[:appended]:
            self._append(request)
        self._late += requests[appended : appended + late]
        for request in requests:
            self._producer.on_lost(request, self.now_ms, was_sent=True)

    def read_late(self) -> None:
        if self._late:
            self._append(self._late.pop(0))

    def finish(self) -> None:
        """From now on nothing fails."""
        self._producer.close_batches(float("inf"))
        for _ in range(2000):
            if self._producer.is_done:
                break
            self.send()
            self.serve()
            self.now_ms += 50
        while self._late:
            self.read_late()

    def _append(self, request: Request) -> None:
        for each in request.batches:
            self.logs[each.partition].append(each.data)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from((1, 10, 60, 200)), min_size=1, max_size=12)),
    st.tuples(st.just("send")),
    st.tuples(st.just("serve")),
    st.tuples(st.just("serve"), st.sampled_from((ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower))),
    st.tuples(st.just("resign")),
    st.tuples(st.just("cut"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("read_late")),
    st.tuples(st.just("pass"), st.sampled_from((1, 6, 120))),
)


class History:
    """Plays steps, and knows for each value when it was added."""

    def __init__(self, steps: list[tuple], batch_bytes_max: int, policy: Policy = SMALL) -> None:
        self.producer = ready_producer(policy, partitions=2)
        self.producer.identity = None
        self.link = Link(self.producer, batch_bytes_max)
        self.added: list[bytes] = []
        for name, *arguments in steps:
            if name == "add":
                values = [b"%06d" % (len(self.added) + number) + b"x" * size for number, size in enumerate(*arguments)]
                self.producer.add_values(values, self.link.now_ms, 1)
                self.added += values
            elif name == "pass":
                self.link.now_ms += arguments[0]
            else:
                getattr(self.link, name)(*arguments)
        self.link.finish()
        assert self.producer.is_done
        self.logs = [log.values for log in self.link.logs.values()]


@given(st.lists(STEPS, max_size=60))
def test_every_value_is_appended_once_and_in_order_whatever_fails(steps):
    history = History(steps, batch_bytes_max=10_000)
    assert all(log == sorted(log) for log in history.logs)
    assert sorted(value for log in history.logs for value in log) == history.added
    assert (history.producer.acknowledged, history.producer.refused) == (len(history.added), 0)
    assert history.producer.unacknowledged_bytes == 0


@given(st.lists(STEPS, max_size=60))
def test_values_that_are_refused_for_good_take_none_with_them_twice(steps):
    history = History(steps, batch_bytes_max=180)  # a value of 200 bytes is too large, and so are some batches
    assert all(log == sorted(log) for log in history.logs)
    appended = [value for log in history.logs for value in log]
    assert len(appended) == len(set(appended))
    producer = history.producer
    assert producer.acknowledged + producer.refused == len(history.added)
    assert producer.acknowledged <= len(appended) <= len(history.added)
    assert producer.unacknowledged_bytes == 0


@given(st.lists(st.tuples(st.just("add"), st.lists(st.sampled_from((1, 60, 200)), min_size=1, max_size=9)), max_size=9))
def test_values_that_are_refused_for_good_are_the_only_ones_if_all_is_answered(steps):
    history = History(steps, batch_bytes_max=180)
    too_large = [value for value in history.added if len(value) > 200]
    assert history.producer.refused == len(too_large)
    assert sorted(value for log in history.logs for value in log) == [
        value for value in history.added if value not in too_large
    ]


@given(st.lists(STEPS, max_size=60))
def test_batches_that_grow_too_old_are_counted_and_never_doubled(steps):
    history = History(steps, batch_bytes_max=10_000, policy=SMALL._replace(delivery_timeout_ms=100))
    assert all(log == sorted(set(log)) for log in history.logs)
    producer = history.producer
    assert producer.acknowledged + producer.refused == len(history.added)
    assert producer.acknowledged <= sum(map(len, history.logs)) <= len(history.added)


def test_the_first_batch_of_an_identity_goes_alone_and_then_as_many_as_may():
    producer = ready_producer()
    producer.add_values([b"x" * 60] * 20, 0, 1)
    producer.close_batches(0)
    [first] = producer.take_requests(0)
    assert producer.take_requests(0) == []
    answer(producer, first)
    requests = producer.take_requests(0)
    assert sequences_of(requests) == [(1, number) for number in range(1, 6)]
    answer(producer, requests[0])
    assert sequences_of(producer.take_requests(0)) == [(1, 6)]


def test_batches_to_be_sent_again_go_one_at_a_time_with_their_sequences():
    producer = ready_producer()
    producer.add_values([b"x" * 60] * 4, 0, 1)
    producer.close_batches(0)
    answer(producer, *producer.take_requests(0))
    requests = producer.take_requests(0)
    for request in requests:
        producer.on_lost(request, 0, was_sent=True)
    assert producer.needs_leaders
    assert producer.take_requests(99) == []
    again = producer.take_requests(100)
    assert sequences_of(again) == [(1, 1)]
    assert producer.take_requests(100) == []
    answer(producer, again[0], ErrorCode.duplicate_sequence_number)
    assert sequences_of(producer.take_requests(100)) == [(1, 2)]


def test_batch_that_is_too_large_for_the_topic_is_split_under_its_sequences():
    producer = ready_producer(Policy())
    producer.add_values([b"a", b"b", b"c"], 0, 1)
    producer.close_batches(0)
    answer(producer, *producer.take_requests(0), ErrorCode.message_too_large)
    [first] = producer.take_requests(10)
    assert (values_of(first), sequences_of([first])) == ([b"a"], [(1, 0)])
    answer(producer, first)
    [second] = producer.take_requests(10)
    assert (values_of(second), sequences_of([second])) == ([b"b", b"c"], [(1, 1)])


def test_later_batches_go_on_under_another_identity_when_one_is_refused():
    producer = ready_producer()
    producer.add_values([b"x" * 60, b"y" * 60], 0, 1)
    producer.close_batches(0)
    answer(producer, *producer.take_requests(0), ErrorCode.invalid_record)
    assert producer.take_requests(10) == []
    assert producer.needs_identity
    producer.identity = ProducerIdentity(2, 0)
    [request] = producer.take_requests(10)
    assert sequences_of([request]) == [(2, 0)]
    answer(producer, request)
    assert (producer.acknowledged, producer.refused, producer.refusal) == (
        1,
        1,
        PartitionAnswer(ErrorCode.invalid_record),
    )


def test_sequences_wrap():
    producer = ready_producer()
    producer.add_values([b"first"], 0, 1)
    producer.close_batches(0)
    answer(producer, *producer.take_requests(0))
    producer._idle[0]._next_sequence = 0x7FFF_FFFF
    producer.add_values([b"x" * 10] * 2 + [b"y" * 90], 0, 1)
    producer.close_batches(0)
    assert sequences_of(producer.take_requests(0)) == [(1, 0x7FFF_FFFF), (1, 1)]


def test_retries_end():
    producer = ready_producer(SMALL._replace(retries=1))
    producer.add_values([b"a"], 0, 1)
    producer.close_batches(0)
    for now_ms in (0, 100):
        answer(producer, *producer.take_requests(now_ms), ErrorCode.not_enough_replicas, now_ms)
    assert producer.is_done
    assert producer.refused == 1


def test_a_record_that_is_larger_than_a_request_is_refused_and_the_others_are_not():
    producer = ready_producer(Policy(request_size_max=1000))
    producer.add_values([b"a", b"b" * 1001, b"c"], 0, 1)
    producer.close_batches(0)
    sent = []
    while requests := producer.take_requests(0):
        sent += [value for request in requests for value in values_of(request)]
        for request in requests:
            answer(producer, request)
    assert sent == [b"a", b"c"]
    assert producer.refused == 1
    assert producer.refusal.code == ErrorCode.message_too_large
    assert "max.request.size" in producer.refusal.message
    assert producer.unacknowledged_bytes == 0


def test_open_batches_wait_for_as_long_as_they_may_linger():
    producer = ready_producer()
    assert producer.next_close_ms() is None
    producer.add_values([b"a"], 100, 1)
    assert producer.next_close_ms() == 105
    assert producer.take_requests(104) == []
    [request] = producer.take_requests(105)
    assert read_header(request.batches[0].data).max_timestamp == 1


def test_batches_are_never_larger_than_they_may_be():
    producer = ready_producer(Policy(batch_size=500))
    values = [b"v" * (number * 7 % 90) for number in range(300)]
    producer.add_values(values, 0, 1)
    producer.close_batches(0)
    sizes = []
    while requests := producer.take_requests(0):
        for request in requests:
            sizes.append(len(request.batches[0].data))
            answer(producer, request)
    assert max(sizes) <= 500
    assert sorted(sizes)[len(sizes) // 2] > 350


def test_records_with_a_key_go_to_its_partition_and_others_stick_to_one_for_a_batch():
    producer = ready_producer(Policy(batch_size=200), partitions=8)
    keys = [b"k%d" % number for number in range(40)]
    for key in keys:
        producer.add(NewRecord(b"v", key), 0, 1)
    producer.close_batches(0)
    found = {}
    while requests := producer.take_requests(0):
        for request in requests:
            for batch in request.batches:
                found |= {record.key: batch.partition for record in iterate_records(batch.data)}
            answer(producer, request)
    assert found == {key: partition_of_key(key, 8) for key in keys}
    producer.add_values([b"x" * 50] * 9, 0, 1)
    producer.close_batches(0)
    batches = [batch for request in producer.take_requests(0) for batch in request.batches]
    assert len({batch.partition for batch in batches}) > 1
    assert [batch.record_count for batch in batches] == [2, 2, 2, 2, 1]


def test_what_has_no_leader_waits_for_one():
    producer = ready_producer()
    producer.on_leaders({0: NO_LEADER})
    producer.add_values([b"a"], 0, 1)
    assert producer.take_requests(10) == []
    assert producer.needs_leaders
    producer.on_leaders({0: 3})
    assert not producer.needs_leaders
    [request] = producer.take_requests(10)
    assert request.node_id == 3


@pytest.mark.parametrize("code", [ErrorCode.topic_authorization_failed, ErrorCode.out_of_order_sequence_number])
def test_refusal_of_the_first_batch_is_told(code):
    producer = ready_producer()
    producer.add_values([b"a"], 0, 1)
    producer.close_batches(0)
    answer(producer, *producer.take_requests(0), code)
    assert (producer.refused, producer.refusal.code) == (1, code)


def test_producer_without_an_id_sends_without_sequences():
    producer = Producer(SMALL._replace(is_idempotent=False), first_of)
    producer.on_leaders({0: NODE})
    producer.add_values([b"x" * 60] * 3, 0, 1)
    producer.close_batches(0)
    assert not producer.needs_identity
    assert sequences_of(producer.take_requests(0)) == [(-1, -1)] * 3


def send_one(producer: Producer, link: Link, now_ms: float, value: bytes) -> None:
    link.now_ms = now_ms
    producer.add_values([value], now_ms, 1)
    producer.close_batches(now_ms)
    link.send()


@pytest.mark.parametrize("fault", ["cut", "resign"])
def test_batch_behind_one_of_unknown_fate_is_given_up_with_it_if_its_own_is_unknown(fault):
    producer = ready_producer(SMALL._replace(delivery_timeout_ms=1000))
    link = Link(producer, 10_000)
    send_one(producer, link, 0, b"known")
    link.serve()
    send_one(producer, link, 10, b"old")
    send_one(producer, link, 500, b"young")
    if fault == "cut":
        link.cut(appended=2, late=0)
    else:
        link.resign()
        link.resign()
    send_one(producer, link, 1010, b"new")  # now the old one expires
    link.finish()
    assert link.logs[0].values == [b"known", b"old", b"young", b"new"]
    assert (producer.acknowledged, producer.refused) == (2, 2)


def test_batch_behind_one_of_unknown_fate_is_sent_if_its_own_is_known():
    producer = ready_producer(SMALL._replace(delivery_timeout_ms=1000))
    link = Link(producer, 10_000)
    send_one(producer, link, 0, b"known")
    link.serve()
    send_one(producer, link, 10, b"old")
    send_one(producer, link, 500, b"young")
    link.resign()
    link.serve(ErrorCode.not_enough_replicas)
    link.now_ms = 1010  # now the old one expires
    link.finish()
    assert link.logs[0].values == [b"known", b"old", b"young"]
    assert (producer.acknowledged, producer.refused) == (2, 1)
