"""confluent-kafka (librdkafka) against a running node: producers, readers by assignment, admin."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from esp.testing.node_process import NodeProcess
from esp.testing.segment_files import read_batch_headers
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.samples import CODECS, MESSAGE_MAX_BYTES, Sample, odd_records


def produce(node: NodeProcess, topic: str, records: Iterable[Sample], **settings: object) -> list[Message]:
    """Send records to partition 0 and return what was delivered, in order of delivery; a failed record raises."""
    delivered: list[Message] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        delivered.append(message)

    config = {
        "bootstrap.servers": node.bootstrap,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    producer = Producer(config)
    # Records that wait for the topic's metadata leave in batches of their own, whatever the linger time says.
    producer.list_topics(topic, 30)
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            on_delivery=on_delivery,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    if errors:
        raise KafkaException(errors[0])
    return delivered


@contextmanager
def consumer_of(
    node: NodeProcess, topic: str, offset: int = 0, partitions: int = 1, **settings: object
) -> Iterator[Consumer]:
    """A consumer of the topic's first partitions from ``offset`` on, by assignment."""
    config = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int, timeout_s: float = 20) -> list[Message]:
    """Read exactly ``count`` records, or fail; an error of the consumer raises."""
    got: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} records after {timeout_s} s"
        for message in consumer.consume(count - len(got), 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            got.append(message)
    return got


def as_sample(message: Message) -> Sample:
    return Sample(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])


@pytest.fixture
def plain(node: NodeProcess, make_topic: MakeTopic) -> tuple[str, list[Sample]]:
    """A topic that holds 300 small records in one partition, in one batch, one millisecond apart."""
    name = make_topic()
    now = time.time_ns() // 1_000_000
    records = [Sample(None, b"%06d" % i, (), now - 10_000 + i) for i in range(300)]
    produce(node, name, records, linger_ms=60_000)  # nothing leaves before the flush, which waits for nothing
    assert len(read_batch_headers(node.log_dirs, name)) == 1
    return name, records


@pytest.fixture
def rd_admin(node: NodeProcess) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": node.bootstrap})


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent_with_each_codec(node: NodeProcess, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    sent = odd_records()
    delivered = produce(node, topic, sent, compression_type=codec, linger_ms=60_000)
    assert [message.offset() for message in delivered] == list(range(len(sent)))
    with consumer_of(node, topic) as consumer:
        got = read(consumer, len(sent))
    assert [as_sample(message) for message in got] == sent
    assert [message.offset() for message in got] == list(range(len(sent)))
    # librdkafka sends plain batches, without a word, where it believes that the broker knows no such codec
    assert {header.codec for header in read_batch_headers(node.log_dirs, topic)} == {CODECS[codec]}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_are_written_with_each_level_of_acks(node: NodeProcess, make_topic: MakeTopic, acks: object) -> None:
    topic = make_topic()
    sent = odd_records()
    produce(node, topic, sent, acks=acks)
    with consumer_of(node, topic) as consumer:
        assert [as_sample(message) for message in read(consumer, len(sent))] == sent


def test_idempotent_producer_with_five_requests_in_flight_keeps_order(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Sample(None, b"%06d" % i, (), 0) for i in range(5000)]
    delivered = produce(node, topic, sent, enable_idempotence=True, batch_num_messages=10, linger_ms=0)
    assert [message.offset() for message in delivered] == list(range(len(sent)))
    with consumer_of(node, topic) as consumer:
        assert [message.value() for message in read(consumer, len(sent))] == [record.value for record in sent]
    headers = read_batch_headers(node.log_dirs, topic)
    assert len(headers) >= 500
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert headers[0].producer_id >= 0
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


def test_two_idempotent_producers_get_different_ids(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for _ in range(2):
        produce(node, topic, [Sample(None, b"v", (), 0)], enable_idempotence=True)
    first, second = read_batch_headers(node.log_dirs, topic)
    assert first.producer_id != second.producer_id
    assert (first.base_sequence, second.base_sequence) == (0, 0)


def test_record_of_a_million_bytes_round_trips(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    value = bytes(range(250)) * 3996
    produce(node, topic, [Sample(b"big", value, (), 0)] * 3, message_max_bytes=MESSAGE_MAX_BYTES)
    with consumer_of(node, topic) as consumer:
        assert [message.value() == value for message in read(consumer, 3)] == [True] * 3


def test_record_over_the_topics_limit_is_refused_and_the_next_one_is_not(
    node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=10_000)
    with pytest.raises(KafkaException) as refused:
        produce(node, topic, [Sample(None, b"x" * 20_000, (), 0)])
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert produce(node, topic, [Sample(None, b"small", (), 0)])[0].offset() == 0


def test_broker_stamps_a_topic_with_log_append_time(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    produce(node, topic, [Sample(None, b"v", (), before - 5_000_000)])
    after = time.time_ns() // 1_000_000
    with consumer_of(node, topic) as consumer:
        [message] = read(consumer, 1)
    kind, timestamp = message.timestamp()
    assert kind == 2, "the timestamp is not marked as LogAppendTime"
    assert before <= timestamp <= after


def test_offsets_are_found_by_timestamp(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, sent = plain
    with consumer_of(node, topic) as consumer:
        for wanted in (0, 1, 137, 299):
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, sent[wanted].timestamp)], 10)
            assert found.offset == wanted
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 300)


def test_offsets_are_listed_by_admin(plain: tuple[str, list[Sample]], rd_admin: AdminClient) -> None:
    topic, sent = plain
    partition = TopicPartition(topic, 0)

    def find(spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> tuple[int, int]:
        result = rd_admin.list_offsets({partition: spec}, isolation_level=isolation)[partition].result(10)
        return result.offset, result.timestamp

    assert find(OffsetSpec.earliest())[0] == 0
    assert find(OffsetSpec.latest())[0] == 300
    assert find(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)[0] == 300
    assert find(OffsetSpec.max_timestamp()) == (299, sent[299].timestamp)
    assert find(OffsetSpec.for_timestamp(sent[42].timestamp)) == (42, sent[42].timestamp)
    assert find(OffsetSpec.for_timestamp(sent[-1].timestamp + 1))[0] == -1


@pytest.mark.parametrize("offset", [1, 150, 299])
def test_reading_starts_at_any_offset_inside_a_batch(
    node: NodeProcess, plain: tuple[str, list[Sample]], offset: int
) -> None:
    topic, sent = plain
    with consumer_of(node, topic, offset) as consumer:
        got = read(consumer, len(sent) - offset)
    assert [message.value() for message in got] == [record.value for record in sent[offset:]]


def test_batch_larger_than_the_fetch_limit_is_still_delivered(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(node, topic, [Sample(None, b"x" * 100_000, (), 0)] * 4)
    with consumer_of(node, topic, fetch_message_max_bytes=1000) as consumer:
        assert [len(message.value()) for message in read(consumer, 4)] == [100_000] * 4


def test_waiting_fetch_is_woken_by_a_record(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, _ = plain
    with consumer_of(node, topic, 300, fetch_wait_max_ms=20_000) as consumer:
        assert consumer.poll(0.3) is None
        start = time.monotonic()
        produce(node, topic, [Sample(None, b"wake up", (), 0)])
        assert read(consumer, 1)[0].value() == b"wake up"
        assert time.monotonic() - start < 5


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_end_of_a_partition_is_seen_in_both_isolation_levels(
    node: NodeProcess, plain: tuple[str, list[Sample]], isolation: str
) -> None:
    topic, sent = plain
    with consumer_of(node, topic, isolation_level=isolation, enable_partition_eof=True) as consumer:
        assert [m.value() for m in read(consumer, 300)] == [record.value for record in sent]
        end = consumer.poll(10)
        assert end is not None
        assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 300)


def test_sending_creates_the_topic(node: NodeProcess, topic: str) -> None:
    assert produce(node, topic, [Sample(None, b"first", (), 0)])[0].offset() == 0


def test_topic_that_does_not_exist_is_unknown_and_a_reader_does_not_create_it(
    node: NodeProcess, make_topic: MakeTopic
) -> None:
    with consumer_of(node, make_topic()) as consumer:  # allow.auto.create.topics is off by default
        for _ in range(2):
            described = consumer.list_topics("no-such-topic", 10).topics["no-such-topic"]
            assert described.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            assert "no-such-topic" not in consumer.list_topics(timeout=10).topics


def test_offset_beyond_the_log_is_out_of_range(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, _ = plain
    with consumer_of(node, topic, 5000) as consumer, pytest.raises(KafkaException) as told:
        read(consumer, 1)
    assert told.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in told.value.args[0].str()


def test_many_partitions_are_read_in_one_session(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=100)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for round_ in range(5):
        for partition in range(100):
            producer.produce(topic, b"%d/%d" % (partition, round_), partition=partition)
    assert producer.flush(30) == 0
    with consumer_of(node, topic, partitions=100) as consumer:
        got = read(consumer, 500)
        by_partition = {p: [m.value() for m in got if m.partition() == p] for p in range(100)}
        assert by_partition == {p: [b"%d/%d" % (p, round_) for round_ in range(5)] for p in range(100)}
        producer.produce(topic, b"late", partition=17)
        assert producer.flush(30) == 0
        assert [(m.partition(), m.value()) for m in read(consumer, 1)] == [(17, b"late")]


def test_keys_decide_the_partition_alike_for_writer_and_broker(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=6)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for i in range(600):
        producer.produce(topic, b"%d" % i, key=b"k%d" % (i % 20))
    assert producer.flush(30) == 0
    with consumer_of(node, topic, partitions=6) as consumer:
        got = read(consumer, 600)
    for key in {m.key() for m in got}:
        of_key = [m for m in got if m.key() == key]
        assert len({m.partition() for m in of_key}) == 1
        assert [int(m.value()) for m in of_key] == sorted(int(m.value()) for m in of_key)


def test_topic_is_created_described_and_deleted(rd_admin: AdminClient, topic: str) -> None:
    rd_admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "123456"})])[topic].result(10)
    metadata = rd_admin.list_topics(topic, 10).topics[topic]
    assert {p: (m.leader, m.replicas, m.isrs) for p, m in metadata.partitions.items()} == {
        p: (1, [1], [1]) for p in range(3)
    }
    with pytest.raises(KafkaException) as refused:
        rd_admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(10)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    rd_admin.delete_topics([topic])[topic].result(10)
    eventually(lambda: topic not in rd_admin.list_topics(timeout=10).topics)
    with pytest.raises(KafkaException) as refused:
        rd_admin.delete_topics([topic])[topic].result(10)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"topic": "no/slashes"}, KafkaError.TOPIC_EXCEPTION),
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 2}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"no.such.setting": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_topic_that_cannot_be_is_refused_with_kafkas_error(
    rd_admin: AdminClient, topic: str, wrong: dict[str, object], code: int
) -> None:
    new = {"topic": "refused", "num_partitions": 1, "replication_factor": 1, **wrong}
    with pytest.raises(KafkaException) as refused:
        rd_admin.create_topics([NewTopic(**new)])[new["topic"]].result(10)
    assert refused.value.args[0].code() == code
    assert new["topic"] not in rd_admin.list_topics(timeout=10).topics


def test_topic_is_only_checked_when_asked_to(rd_admin: AdminClient, topic: str) -> None:
    rd_admin.create_topics([NewTopic(topic, 3, 1)], validate_only=True)[topic].result(10)
    assert topic not in rd_admin.list_topics(timeout=10).topics


def test_topic_made_again_under_its_name_is_empty(
    node: NodeProcess, rd_admin: AdminClient, plain: tuple[str, list[Sample]]
) -> None:
    topic, _ = plain
    rd_admin.delete_topics([topic])[topic].result(10)
    rd_admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    assert produce(node, topic, [Sample(None, b"new", (), 0)])[0].offset() == 0
    with consumer_of(node, topic) as consumer:
        assert [message.value() for message in read(consumer, 1)] == [b"new"]


def test_settings_of_topics_and_of_the_node_are_described(rd_admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=123_456)
    of_topic, of_node = (
        rd_admin.describe_configs([resource])[resource].result(10)
        for resource in (ConfigResource(ResourceType.TOPIC, topic), ConfigResource(ResourceType.BROKER, "1"))
    )
    assert (of_topic["retention.ms"].value, of_topic["retention.ms"].is_default) == ("123456", False)
    assert (of_topic["segment.bytes"].value, of_topic["segment.bytes"].is_default) == ("1073741824", True)
    assert of_node["log.segment.bytes"].value == "1073741824"


def test_cluster_is_described(node: NodeProcess, rd_admin: AdminClient) -> None:
    cluster = rd_admin.describe_cluster().result(10)
    assert len(cluster.cluster_id) == 22
    assert cluster.controller.id == 1
    assert [(n.id, n.host, n.port) for n in cluster.nodes] == [(1, "127.0.0.1", node.port)]
