"""aiokafka against a running node. It speaks the oldest versions of all: ApiVersions 0, Produce 7, Fetch 11, Metadata 5."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from esp.testing.node_process import NodeProcess
from esp.testing.segment_files import read_batch_headers
from tests.integration.conftest import MakeTopic
from tests.integration.samples import CODECS, Sample, odd_records


@asynccontextmanager
async def producer_of(node: NodeProcess, **settings: object) -> AsyncIterator[AIOKafkaProducer]:
    # a client that is left open retries in a hot loop for ever
    producer = AIOKafkaProducer(bootstrap_servers=node.bootstrap, **settings)
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consumer_of(
    node: NodeProcess, topic: str, offset: int = 0, partitions: int = 1, **settings: object
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer of the topic's first partitions from ``offset`` on, by assignment."""
    consumer = AIOKafkaConsumer(bootstrap_servers=node.bootstrap, auto_offset_reset="none", **settings)
    try:
        await consumer.start()
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        for partition in assigned:
            consumer.seek(partition, offset)
        yield consumer
    finally:
        await consumer.stop()


async def produce(node: NodeProcess, topic: str, records: list[Sample], **settings: object) -> list:
    """Send records to partition 0 and return what the broker said of each."""
    async with producer_of(node, **settings) as producer:
        futures = [
            await producer.send(
                topic, r.value, r.key, partition=0, timestamp_ms=r.timestamp, headers=[(k, v) for k, v in r.headers]
            )
            for r in records
        ]
        return [await asyncio.wait_for(future, 20) for future in futures]


async def read(consumer: AIOKafkaConsumer, count: int, timeout_s: float = 20) -> list:
    """Read exactly ``count`` records, or fail."""
    got: list = []
    async with asyncio.timeout(timeout_s):
        while len(got) < count:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                got.extend(records)
    assert len(got) == count
    return got


def as_sample(record) -> Sample:
    return Sample(record.key, record.value, tuple(record.headers), record.timestamp)


@pytest.fixture
async def plain(node: NodeProcess, make_topic: MakeTopic) -> tuple[str, list[Sample]]:
    """A topic that holds 300 small records in one partition, many to a batch, one millisecond apart."""
    name = make_topic()
    now = time.time_ns() // 1_000_000
    records = [Sample(None, b"%06d" % i, (), now - 10_000 + i) for i in range(300)]
    await produce(node, name, records, linger_ms=50)
    return name, records


@pytest.mark.parametrize("codec", CODECS)
async def test_records_come_back_as_sent_with_each_codec(node: NodeProcess, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    sent = odd_records()
    metadata = await produce(
        node, topic, sent, compression_type=None if codec == "none" else codec, linger_ms=100, max_batch_size=100_000
    )
    async with consumer_of(node, topic) as consumer:
        got = await read(consumer, len(sent))
    assert [as_sample(record) for record in got] == sent
    assert [record.offset for record in got] == list(range(len(sent))) == [m.offset for m in metadata]
    largest = max(read_batch_headers(node.log_dirs, topic), key=lambda header: header.record_count)
    assert largest.record_count > 50
    assert largest.codec == CODECS[codec]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_records_are_written_with_each_level_of_acks(node: NodeProcess, make_topic: MakeTopic, acks) -> None:
    topic = make_topic()
    sent = odd_records()
    await produce(node, topic, sent, acks=acks)
    async with consumer_of(node, topic) as consumer:
        assert [as_sample(record) for record in await read(consumer, len(sent))] == sent


async def test_idempotent_producer_keeps_order(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Sample(None, b"%06d" % i, (), time.time_ns() // 1_000_000) for i in range(2000)]
    await produce(node, topic, sent, enable_idempotence=True, max_batch_size=300)
    async with consumer_of(node, topic) as consumer:
        assert [record.value for record in await read(consumer, len(sent))] == [record.value for record in sent]
    headers = read_batch_headers(node.log_dirs, topic)
    assert len(headers) > 100
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert headers[0].producer_id >= 0
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


async def test_record_of_a_million_bytes_round_trips(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    value = bytes(range(250)) * 4000
    await produce(node, topic, [Sample(b"big", value, (), 1)] * 3, max_request_size=1_048_588)
    async with consumer_of(node, topic) as consumer:
        assert [record.value == value for record in await read(consumer, 3)] == [True] * 3


async def test_record_over_the_topics_limit_is_refused_and_the_next_one_is_not(
    node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=10_000)
    async with producer_of(node) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 20_000)
        assert (await producer.send_and_wait(topic, b"small")).offset == 0


async def test_broker_stamps_a_topic_with_log_append_time(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    [metadata] = await produce(node, topic, [Sample(None, b"v", (), before - 5_000_000)])
    after = time.time_ns() // 1_000_000
    assert (metadata.timestamp_type, before <= metadata.timestamp <= after) == (1, True)
    async with consumer_of(node, topic) as consumer:
        [record] = await read(consumer, 1)
    assert (record.timestamp_type, record.timestamp) == (1, metadata.timestamp)


async def test_offsets_are_found_by_timestamp(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, sent = plain
    partition = TopicPartition(topic, 0)
    async with consumer_of(node, topic) as consumer:
        for wanted in (0, 1, 137, 299):
            found = (await consumer.offsets_for_times({partition: sent[wanted].timestamp}))[partition]
            assert (found.offset, found.timestamp) == (wanted, sent[wanted].timestamp)
        assert (await consumer.offsets_for_times({partition: sent[-1].timestamp + 1}))[partition] is None
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 300}


@pytest.mark.parametrize("offset", [1, 150, 299])
async def test_reading_starts_at_any_offset_inside_a_batch(
    node: NodeProcess, plain: tuple[str, list[Sample]], offset: int
) -> None:
    topic, sent = plain
    async with consumer_of(node, topic, offset) as consumer:
        got = await read(consumer, len(sent) - offset)
    assert [record.value for record in got] == [record.value for record in sent[offset:]]


async def test_batch_larger_than_the_fetch_limit_is_still_delivered(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    await produce(node, topic, [Sample(None, b"x" * 100_000, (), 1)] * 4)
    async with consumer_of(node, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as consumer:
        assert [len(record.value) for record in await read(consumer, 4)] == [100_000] * 4


async def test_waiting_fetch_is_woken_by_a_record(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, _ = plain
    async with producer_of(node) as producer, consumer_of(node, topic, 300, fetch_max_wait_ms=20_000) as consumer:
        assert await consumer.getmany(timeout_ms=300) == {}
        start = time.monotonic()
        await producer.send_and_wait(topic, b"wake up")
        assert (await read(consumer, 1))[0].value == b"wake up"
        assert time.monotonic() - start < 5


async def test_reading_committed_records_sees_plain_ones(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, sent = plain
    async with consumer_of(node, topic, isolation_level="read_committed") as consumer:
        assert [record.value for record in await read(consumer, 300)] == [record.value for record in sent]


async def test_sending_creates_the_topic(node: NodeProcess, topic: str) -> None:
    async with producer_of(node) as producer:
        assert (await producer.send_and_wait(topic, b"first")).offset == 0
        assert await producer.partitions_for(topic) == {0}


async def test_offset_beyond_the_log_is_out_of_range(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, _ = plain
    async with consumer_of(node, topic, 5000) as consumer:
        with pytest.raises(OffsetOutOfRangeError):
            await read(consumer, 1)


async def test_many_partitions_are_read(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=40)
    async with producer_of(node) as producer, consumer_of(node, topic, partitions=40) as consumer:
        for round_ in range(5):
            for partition in range(40):
                await producer.send(topic, b"%d/%d" % (partition, round_), partition=partition)
        await producer.flush()
        got = await read(consumer, 200)
        by_partition = {p: [r.value for r in got if r.partition == p] for p in range(40)}
        assert by_partition == {p: [b"%d/%d" % (p, round_) for round_ in range(5)] for p in range(40)}
        await producer.send_and_wait(topic, b"late", partition=17)
        assert [(r.partition, r.value) for r in await read(consumer, 1)] == [(17, b"late")]


async def test_batch_made_by_hand_is_written_whole_and_iterated(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    async with producer_of(node) as producer, consumer_of(node, topic) as consumer:
        assert await producer.partitions_for(topic) == {0}
        batch = producer.create_batch()
        for number in range(5):
            batch.append(key=b"k", value=b"%d" % number, timestamp=1_000 + number)
        batch.close()
        written = await (await producer.send_batch(batch, topic, partition=0))
        assert written.offset == 0
        async with asyncio.timeout(20):
            values = [(await anext(consumer)).value for _ in range(5)]
    assert values == [b"0", b"1", b"2", b"3", b"4"]
    (header,) = read_batch_headers(node.log_dirs, topic)
    assert header.record_count == 5


async def test_admin_makes_describes_and_deletes_a_topic(node: NodeProcess, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap)
    await admin.start()
    try:
        new = NewTopic(topic, 3, 1, topic_configs={"retention.ms": "123456"})
        await admin.create_topics([new])
        [described] = await admin.describe_topics([topic])
        assert sorted(p["partition"] for p in described["partitions"]) == [0, 1, 2]
        response = await admin.create_topics([new])
        assert response.topic_errors[0][1] == TopicAlreadyExistsError.errno
        [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        settings = {entry[0]: entry[1] for entry in answer.resources[0][4]}
        assert settings["retention.ms"] == "123456"
        cluster = await admin.describe_cluster()
        assert [b["port"] for b in cluster["brokers"]] == [node.port]
        assert (await admin.delete_topics([topic])).topic_error_codes == [(topic, 0)]
    finally:
        await admin.close()
