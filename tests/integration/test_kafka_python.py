"""kafka-python against a running node: producers, readers by assignment, admin."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import codec as kafka_python_codec
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.errors import (
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import skip_or_fail
from esp.testing.segment_files import read_batch_headers
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.samples import CODECS, MESSAGE_MAX_BYTES, Sample, odd_records


def produce(node: NodeProcess, topic: str, records: list[Sample], **settings: object) -> list:
    """Send records to partition 0 and return what the broker said of each."""
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap, **settings)) as producer:
        futures = [
            producer.send(topic, r.value, r.key, list(r.headers), partition=0, timestamp_ms=r.timestamp)
            for r in records
        ]
        producer.flush(30)
        return [future.get(10) for future in futures]


def make_consumer(
    node: NodeProcess, topic: str, offset: int | None = 0, partition: int = 0, **settings
) -> KafkaConsumer:
    """A consumer of one partition from ``offset`` on, by assignment."""
    consumer = KafkaConsumer(bootstrap_servers=node.bootstrap, auto_offset_reset="none", **settings)
    assigned = TopicPartition(topic, partition)
    consumer.assign([assigned])
    if offset is not None:
        consumer.seek(assigned, offset)
    return consumer


def read(consumer: KafkaConsumer, count: int, timeout_s: float = 20) -> list:
    """Read exactly ``count`` records, or fail."""
    got: list = []
    deadline = time.monotonic() + timeout_s
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} records after {timeout_s} s"
        for records in consumer.poll(timeout_ms=200).values():
            got.extend(records)
    assert len(got) == count
    return got


def as_sample(record) -> Sample:
    return Sample(record.key, record.value, tuple(record.headers), record.timestamp)


@pytest.fixture
def plain(node: NodeProcess, make_topic: MakeTopic) -> Iterator[tuple[str, list[Sample]]]:
    """A topic that holds 300 small records in one partition, many to a batch, one millisecond apart."""
    name = make_topic()
    now = time.time_ns() // 1_000_000
    records = [Sample(None, b"%06d" % i, (), now - 10_000 + i) for i in range(300)]
    produce(node, name, records, linger_ms=50)
    return name, records


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent_with_each_codec(node: NodeProcess, make_topic: MakeTopic, codec: str) -> None:
    if not getattr(kafka_python_codec, f"has_{codec}", lambda: True)():
        skip_or_fail(f"kafka-python has no {codec} here: install its extra of that name")
    topic = make_topic()
    sent = odd_records()
    metadata = produce(node, topic, sent, compression_type=None if codec == "none" else codec, linger_ms=100)

    with closing(make_consumer(node, topic)) as consumer:
        got = read(consumer, len(sent))

    assert [as_sample(record) for record in got] == sent
    assert [record.offset for record in got] == list(range(len(sent))) == [m.offset for m in metadata]
    largest = max(read_batch_headers(node.log_dirs, topic), key=lambda header: header.record_count)
    assert largest.record_count > 50
    assert largest.codec == CODECS[codec]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_are_written_with_each_level_of_acks(node: NodeProcess, make_topic: MakeTopic, acks: object) -> None:
    topic = make_topic()
    sent = odd_records()
    produce(node, topic, sent, acks=acks, enable_idempotence=False)
    with closing(make_consumer(node, topic)) as consumer:
        assert [as_sample(record) for record in read(consumer, len(sent))] == sent


def test_idempotent_producer_with_five_requests_in_flight_keeps_order(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Sample(None, b"%06d" % i, (), 1 + time.time_ns() // 1_000_000) for i in range(3000)]
    produce(node, topic, sent, batch_size=300, max_in_flight_requests_per_connection=5)
    with closing(make_consumer(node, topic)) as consumer:
        assert [record.value for record in read(consumer, len(sent))] == [record.value for record in sent]
    headers = read_batch_headers(node.log_dirs, topic)
    assert len(headers) > 100
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert headers[0].producer_id >= 0
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


def test_record_of_a_million_bytes_round_trips(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    value = bytes(range(250)) * 4000
    produce(node, topic, [Sample(b"big", value, (), 1)] * 3)
    with closing(make_consumer(node, topic)) as consumer:
        assert [record.value == value for record in read(consumer, 3)] == [True] * 3


def test_record_over_the_topics_limit_is_refused_and_the_next_one_is_not(
    node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=10_000)
    # an idempotent producer of kafka-python gives up for good after an error that it cannot retry
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap, enable_idempotence=False)) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * 20_000).get(10)
        assert producer.send(topic, b"small").get(10).offset == 0


def test_batch_over_the_default_limit_is_refused(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    settings = {"enable_idempotence": False, "max_request_size": 3_000_000}
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap, **settings)) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * MESSAGE_MAX_BYTES).get(10)
        assert producer.send(topic, b"x" * 1_000_000).get(10).offset == 0


def test_broker_stamps_a_topic_with_log_append_time(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    metadata = produce(node, topic, [Sample(None, b"v", (), before - 5_000_000)])
    after = time.time_ns() // 1_000_000
    assert before <= metadata[0].timestamp <= after
    with closing(make_consumer(node, topic)) as consumer:
        [record] = read(consumer, 1)
    assert record.timestamp == metadata[0].timestamp
    assert record.timestamp_type == 1


def test_offsets_are_found_by_timestamp(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, sent = plain
    partition = TopicPartition(topic, 0)
    with closing(make_consumer(node, topic)) as consumer:
        for wanted in (0, 1, 137, 299):
            found = consumer.offsets_for_times({partition: sent[wanted].timestamp})[partition]
            assert (found.offset, found.timestamp) == (wanted, sent[wanted].timestamp)
        assert consumer.offsets_for_times({partition: sent[0].timestamp - 5000})[partition].offset == 0
        assert consumer.offsets_for_times({partition: sent[-1].timestamp + 1})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 300}


@pytest.mark.parametrize("offset", [1, 150, 298, 299])
def test_reading_starts_at_any_offset_inside_a_batch(
    node: NodeProcess, plain: tuple[str, list[Sample]], offset: int
) -> None:
    topic, sent = plain
    with closing(make_consumer(node, topic, offset)) as consumer:
        got = read(consumer, len(sent) - offset)
    assert [record.value for record in got] == [record.value for record in sent[offset:]]


def test_batch_larger_than_the_fetch_limit_is_still_delivered(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(node, topic, [Sample(None, b"x" * 100_000, (), 1)] * 4)
    with closing(make_consumer(node, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)) as consumer:
        assert [len(record.value) for record in read(consumer, 4)] == [100_000] * 4


def test_fetch_waits_for_min_bytes_and_ends_with_its_deadline(
    node: NodeProcess, plain: tuple[str, list[Sample]]
) -> None:
    topic, _ = plain
    with closing(make_consumer(node, topic, fetch_min_bytes=10_000_000, fetch_max_wait_ms=700)) as consumer:
        start = time.monotonic()
        assert len(read(consumer, 300)) == 300
        assert time.monotonic() - start >= 0.6


def test_waiting_fetch_is_woken_by_a_record(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, _ = plain
    with (
        closing(make_consumer(node, topic, 300, fetch_max_wait_ms=20_000)) as consumer,
        closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer,
    ):
        producer.partitions_for(topic)
        assert consumer.poll(timeout_ms=300) == {}
        start = time.monotonic()
        producer.send(topic, b"wake up").get(10)
        assert read(consumer, 1)[0].value == b"wake up"
        assert time.monotonic() - start < 5


def test_reading_committed_records_sees_plain_ones(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, sent = plain
    with closing(make_consumer(node, topic, isolation_level="read_committed")) as consumer:
        assert [record.value for record in read(consumer, 300)] == [record.value for record in sent]
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 300}


def test_sending_creates_the_topic(node: NodeProcess, topic: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        assert producer.send(topic, b"first").get(20).offset == 0
        assert producer.partitions_for(topic) == {0}


def test_offset_beyond_the_log_is_out_of_range(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, _ = plain
    with closing(make_consumer(node, topic, 301)) as consumer, pytest.raises(OffsetOutOfRangeError):
        read(consumer, 1)


def test_many_partitions_are_read_in_one_session(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=40)
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        for round_ in range(5):
            for partition in range(40):
                producer.send(topic, b"%d/%d" % (partition, round_), partition=partition)
        producer.flush(30)
        with closing(KafkaConsumer(bootstrap_servers=node.bootstrap, auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in range(40)])
            got = read(consumer, 200)
            by_partition = {p: [r.value for r in got if r.partition == p] for p in range(40)}
            assert by_partition == {p: [b"%d/%d" % (p, round_) for round_ in range(5)] for p in range(40)}
            # the session's partitions are known by now: only what changed is answered
            producer.send(topic, b"late", partition=17).get(10)
            assert [(r.partition, r.value) for r in read(consumer, 1)] == [(17, b"late")]


def test_consumer_is_iterated_until_its_timeout(node: NodeProcess, plain: tuple[str, list[Sample]]) -> None:
    topic, sent = plain
    with closing(make_consumer(node, topic, 290, consumer_timeout_ms=2_000)) as consumer:
        assert [record.value for record in consumer] == [record.value for record in sent[290:]]
        assert consumer.metrics()


def test_topic_is_created_described_and_deleted(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3, retention_ms=123_456)
    assert topic in admin.list_topics()
    [described] = admin.describe_topics([topic])
    assert described["name"] == topic
    assert sorted(p["partition_index"] for p in described["partitions"]) == [0, 1, 2]
    assert all((p["leader_id"], p["replica_nodes"], p["isr_nodes"]) == (1, [1], [1]) for p in described["partitions"])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_topic_made_again_under_its_name_is_empty(
    node: NodeProcess, admin: KafkaAdminClient, plain: tuple[str, list[Sample]], make_topic: MakeTopic
) -> None:
    topic, _ = plain
    admin.delete_topics([topic])
    make_topic(topic)
    assert produce(node, topic, [Sample(None, b"new", (), 1)])[0].offset == 0
    with closing(make_consumer(node, topic)) as consumer:
        assert [record.value for record in read(consumer, 1)] == [b"new"]


def test_settings_of_topics_and_of_the_node_are_described(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=123_456)
    resources = [ConfigResource("topic", topic), ConfigResource("broker", "1")]
    result = admin.describe_configs(resources, config_filter="all")
    assert result["topic"][topic]["retention.ms"]["value"] == "123456"
    assert result["topic"][topic]["segment.bytes"]["value"] == "1073741824"
    assert result["broker"]["1"]["log.segment.bytes"]["value"] == "1073741824"


def test_cluster_is_described(node: NodeProcess, admin: KafkaAdminClient) -> None:
    cluster = admin.describe_cluster()
    assert cluster["controller_id"] == 1
    assert [(b["broker_id"], b["host"], b["port"]) for b in cluster["brokers"]] == [(1, "127.0.0.1", node.port)]
    assert len(cluster["cluster_id"]) == 22
