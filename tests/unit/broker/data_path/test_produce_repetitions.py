"""Requests that repeat earlier ones, compared with a node each of whose requests takes the ordinary way."""

import asyncio
import struct
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.broker.data_path.produce_repetitions import PARTITIONS_MAX
from esp.model.errors import ErrorCode
from esp.protocol.messages import encode_request
from esp.protocol.registry import ApiKey, ListenerKind
from esp.records.builder import NewRecord, build_batch
from esp.settings.addresses import MetricsListener
from tests.unit.broker.conversation import (
    create_topic,
    delete_topic,
    fetch_later,
    metadata,
    of_one_partition,
    produce,
    produce_request,
)
from tests.unit.broker.simulated_node import ADDRESS, records, simulated, values

MEASURED = MetricsListener("127.0.0.1", 9308)
SIZES = (1, 30, 64, 66, 67, 200, 16_300, 20_000)
"""Sizes of values, in bytes: about where the sizes of the records become two and three bytes long."""


def frame_of(parts, *, version=12, correlation_id=5, client_id="test", acks=-1, **options):
    request = produce_request(parts, version=version, acks=acks, **options)
    return encode_request(ApiKey.PRODUCE, version, correlation_id, client_id, request)


def framed(body):
    return struct.pack(">i", len(body)) + body


def shortcuts_of(node):
    return [session.client.shortcut for session in node.server._sessions if session.client.shortcut is not None]


async def remembered(node, **options):
    """What a connection remembers that has produced one record to partition 0 of topic t."""
    client = await node.client()
    await create_topic(client, **options)
    await produce(client, "t", records(b"a"))
    (shortcut,) = shortcuts_of(node)
    return client, shortcut


def answer_to(shortcut, frame):
    return shortcut.answer(memoryview(bytearray(frame)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("version", range(9, 14))
@simulated()
async def test_another_batch_for_the_same_partition_is_answered_by_the_short_way(node, version, acks, size):
    client = await node.client()
    topic_id = await create_topic(client)
    topic = topic_id if version >= 13 else "t"
    await produce(client, topic, records(b"a"), version=version, acks=acks)
    (shortcut,) = shortcuts_of(node)
    batch = records(b"x" * size, b"y")
    assert answer_to(shortcut, frame_of([(topic, 0, batch)], version=version, acks=acks)) is not None
    assert node.log("t").log_end_offset == 3
    answer = await produce(client, topic, batch, version=version, acks=acks)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 3)


@simulated()
async def test_what_is_no_plain_repetition_goes_the_ordinary_way_untouched(node):
    _, shortcut = await remembered(node, partitions=2)
    batch = records(b"b")
    plain = frame_of([("t", 0, batch)])
    body = plain[4:]
    size = len(body) - 3 - len(batch) - 1
    assert body[size] == len(batch) + 1
    others = {
        "client": frame_of([("t", 0, batch)], client_id="tess"),
        "longer client": frame_of([("t", 0, batch)], client_id="test2"),
        "no client": frame_of([("t", 0, batch)], client_id=None),
        "version": frame_of([("t", 0, batch)], version=11),
        "partition": frame_of([("t", 1, batch)]),
        "topic": frame_of([("u", 0, batch)]),
        "longer topic": frame_of([("tt", 0, batch)]),
        "two partitions": frame_of([("t", 0, batch), ("t", 1, batch)]),
        "no partition": frame_of([]),
        "acks": frame_of([("t", 0, batch)], acks=1),
        "no answer": frame_of([("t", 0, batch)], acks=0),
        "time-out": frame_of([("t", 0, batch)], timeout_ms=1),
        "transaction": frame_of([("t", 0, batch)], transactional_id="x"),
        "null": frame_of([("t", 0, None)]),
        "nothing": frame_of([("t", 0, b"")]),
        "bytes behind": framed(body + b"\0"),
        "size too small": framed(body[:size] + bytes((body[size] - 1,)) + body[size + 1 :]),
        "size too large": framed(body[:size] + bytes((body[size] + 1,)) + body[size + 1 :]),
        "size 0": framed(body[:size] + b"\0" + body[size + 1 :]),
        "tags of the partition": framed(body[:-3] + b"\1\0\0\0\0"),
        "tags of the topic": framed(body[:-2] + b"\1\0\0\0"),
        "tags of the request": framed(body[:-1] + b"\1\0\0"),
        "size that is no varint": framed(body[:size] + b"\xff" * 6 + body[size + 6 :]),
        "another API": framed(b"\0\1" + body[2:]),
        "two requests": plain + plain,
        "not all of it": plain[:-1],
        "length of more": struct.pack(">i", len(body) + 1) + body,
        "length of less": struct.pack(">i", len(body) - 1) + body,
        **{f"cut to {end}": framed(body[:end]) for end in range(8, len(body))},
    }
    for name, frame in others.items():
        before = bytearray(frame)
        assert shortcut.answer(memoryview(before)) is None, name
        assert before == frame, name
    assert node.log("t").log_end_offset == 1
    assert answer_to(shortcut, plain) is not None


@simulated()
async def test_a_topic_of_the_same_name_gets_what_is_sent_to_it(node):
    client, shortcut = await remembered(node)
    old = node.log("t")
    await delete_topic(await node.client(), "t")
    assert answer_to(shortcut, frame_of([("t", 0, records(b"b"))])) is None
    assert (await produce(client, "t", records(b"b"))).error_code is ErrorCode.unknown_topic_or_partition
    await create_topic(await node.client())
    for offset in range(3):
        assert (await produce(client, "t", records(b"b"))).base_offset == offset
    assert old.log_end_offset == 1
    assert answer_to(shortcut, frame_of([("t", 0, records(b"b"))])) is not None


@pytest.mark.parametrize("setting", [{"flush_messages": 1}, {"compression_type": "gzip"}])
@simulated()
async def test_what_has_to_wait_is_never_answered_at_once(node, setting):
    client = await node.client()
    await create_topic(client, **setting)
    for offset in range(3):
        answer = await produce(client, "t", records(b"a"))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, offset)
    assert all(answer_to(shortcut, frame_of([("t", 0, records(b"a"))])) is None for shortcut in shortcuts_of(node))


@pytest.mark.parametrize("setting", [{"flush_messages": 1}, {"compression_type": "gzip"}])
@simulated()
async def test_settings_that_change_count_for_the_next_repetition(node, setting):
    client, shortcut = await remembered(node)
    log = node.log("t")
    log.settings = replace(log.settings, **setting)
    batch = records(b"b" * 100)
    assert answer_to(shortcut, frame_of([("t", 0, batch)])) is None
    assert log.log_end_offset == 1
    assert (await produce(client, "t", batch)).base_offset == 1
    assert log.recovery_point == (2 if log.settings.flush_messages == 1 else 0)


@simulated()
async def test_a_consumer_that_waits_is_woken(node):
    _, shortcut = await remembered(node)
    waiting = fetch_later(await node.client(), [("t", 0, 1)], max_wait_ms=600_000)
    await asyncio.sleep(1)
    assert answer_to(shortcut, frame_of([("t", 0, records(b"b"))])) is not None
    async with asyncio.timeout(1):
        assert values(of_one_partition(await waiting).records) == [b"b"]


@simulated(offsets_topic_num_partitions=1)
async def test_what_an_administrator_may_is_not_remembered_for_others(node):
    client, shortcut = await remembered(node)
    await metadata(client, ["__consumer_offsets"], create=True)
    keyed = build_batch([NewRecord(b"a", key=b"k")], timestamp_ms=1_795_000_000_000)  # the topic is compacted
    request = produce_request([("__consumer_offsets", 0, keyed)])
    for client_id, code in (("__admin_client", 0), ("test", ErrorCode.invalid_topic_exception)):
        answer = await client.send(ApiKey.PRODUCE, 12, request, client_id=client_id)
        assert of_one_partition(answer).error_code == code
        assert answer_to(shortcut, frame_of([("__consumer_offsets", 0, keyed)], client_id=client_id)) is None


@simulated()
async def test_repetitions_overtake_no_request_that_waits(node):
    client, _ = await remembered(node)
    await create_topic(client, "slow", flush_messages=1)
    frames = [
        frame_of([("t", 0, records(b"b"))], correlation_id=101),
        frame_of([("slow", 0, records(b"c"))], correlation_id=102),
        frame_of([("t", 0, records(b"d"))], correlation_id=103),
    ]
    answers = [client.send_frame(frame, number) for number, frame in enumerate(frames, start=101)]
    for number, answer in enumerate(answers, start=101):  # the client itself checks the order
        assert struct.unpack_from(">i", await answer) == (number,)
    assert values(bytes(node.log("t").read(0, 1 << 20, 3, at_least_one=True))) == [b"a", b"b", b"d"]


@simulated()
async def test_a_connection_remembers_no_more_partitions_than_its_bound(node):
    client = await node.client()
    await create_topic(client, partitions=PARTITIONS_MAX + 3)
    for _ in range(2):
        for partition in range(PARTITIONS_MAX + 3):
            answer = await produce(client, "t", records(b"a"), partition=partition)
            assert (answer.error_code, answer.index) == (ErrorCode.none, partition)
    (shortcut,) = shortcuts_of(node)
    assert len(shortcut._by_common) == PARTITIONS_MAX
    assert all(node.log("t", partition).log_end_offset == 2 for partition in range(PARTITIONS_MAX + 3))


BATCHES = st.builds(
    lambda size, count, producer: records(*[b"v" * size] * count, **producer),
    st.sampled_from(SIZES[:6]),
    st.integers(1, 2),
    st.just({})
    | st.builds(
        lambda epoch, sequence: {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence},
        st.integers(0, 1),
        st.integers(0, 4),
    ),
)
PLAIN = st.builds(
    lambda topic, partition, batch, version, acks: frame_of([(topic, partition, batch)], version=version, acks=acks),
    st.sampled_from(("t", "t", "t", "due", "due", "late")),
    st.sampled_from((0, 0, 0, 1)),
    BATCHES,
    st.sampled_from((12, 12, 12, 12, 12, 8)),
    st.sampled_from((-1, -1, -1, -1, 1, 0)),
)
"""Mostly of one kind, so that many repeat one another."""

BROKEN = st.builds(
    lambda frame, place, byte: (
        frame[: 4 + place % (len(frame) - 4)] + bytes((byte,)) + frame[5 + place % (len(frame) - 4) :]
    ),
    PLAIN,
    st.integers(0, 400) | st.integers(-6, -1),
    st.integers(0, 255),
)
READS = st.lists(st.one_of(*[PLAIN] * 6, BROKEN), min_size=1, max_size=8)
"""Frames that arrive at once."""

STEPS = st.lists(st.one_of(*[READS] * 6, st.just("delete")), min_size=3, max_size=10)


class OrdinaryWay:
    """In the place of what counts the answers of a shortcut: there are none."""

    def answer(self, shortcut, frame):
        return None


async def play(node, steps, *, shortly):
    """All answers, what stands in the logs afterwards, and what metrics tell of it.

    A connection that was ended is followed by a new one.
    """
    admin = await node.client()

    async def create(name, **configs):
        await create_topic(admin, name, partitions=2, **configs)

    await create("t")
    await create("late", flush_messages=1)
    await create("due", max_message_bytes=180)
    seen = []
    client = await producer(node, shortly=shortly)
    for step in steps:
        if step == "delete":
            await delete_topic(admin, "t")
            await create("t")
            continue
        client.connection.write([b"".join(step)])
        await asyncio.sleep(1)
        seen.append((bytes(client.received), client.ended))
        if client.ended:
            client = await producer(node, shortly=shortly)
    logs = [node.log(topic, partition) for topic in ("t", "late", "due") for partition in (0, 1)]
    read = [bytes(log.read(0, 1 << 30, log.log_end_offset, at_least_one=False)) for log in logs]
    return seen, read, counted(node)


def counted(node):
    """The numbers of requests, and their bytes, as the metrics of a node have them."""
    by_name = node.node.metrics.requests[ListenerKind.BROKER].by_name if node.node.metrics else {}
    return {name: (each.durations.count, each.received_bytes, each.sent_bytes) for name, each in by_name.items()}


class Listener:
    """A connection that keeps what arrives."""

    def __init__(self):
        self.received = bytearray()
        self.ended = False

    def on_open(self, connection):
        self.connection = connection
        return self

    def on_bytes(self, received):
        self.received += received
        return len(received)

    def on_closed(self):
        self.ended = True

    def on_writable(self, writable):
        pass


async def producer(node, *, shortly):
    """A new connection; something can be repeated on it."""
    client = Listener()
    before = set(node.server._sessions)
    await node.network.connect(ADDRESS, client.on_open, 1_000_000)
    while not (accepted := set(node.server._sessions) - before):  # noqa: ASYNC110 - a server has no event to wait for
        await asyncio.sleep(0.001)
    (session,) = accepted
    if not shortly:
        session.client.counter = OrdinaryWay()
    client.connection.write([frame_of([(topic, 0, records(b"first"))]) for topic in ("t", "due")])
    return client


@settings(max_examples=25, deadline=None)
@given(STEPS, st.sampled_from((None, MEASURED)))
def test_both_ways_give_the_same_answers_the_same_logs_and_the_same_counts(steps, metrics):
    ways = [simulated(metrics_listener=metrics)(partial(play, shortly=shortly))(steps) for shortly in (True, False)]
    assert ways[0] == ways[1]


@simulated(metrics_listener=MEASURED)
async def test_a_node_that_counts_requests_answers_by_the_short_way_too(node):
    _, shortcut = await remembered(node)
    before = counted(node)["Produce"]
    (client,) = (session.client for session in node.server._sessions if session.client.shortcut is shortcut)
    frame = frame_of([("t", 0, records(b"b"))])
    answer = client.counter.answer(shortcut, memoryview(bytearray(frame)))
    after = counted(node)["Produce"]
    assert answer is not None
    assert (after[0] - before[0], after[2] - before[2]) == (1, len(answer))
