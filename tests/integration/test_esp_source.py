"""The data source ``esp`` against a node: what exactly is planned and read, and what bad options get. Here without a JVM.

``tests/integration/spark`` has the same through Spark.
"""

import datetime as dt
import json
import time
from itertools import islice

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from esp.consumer.errors import ConsumerError
from esp.options.errors import OptionError
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory
from tests.integration.conftest import MakeTopic
from tests.integration.source_rows import Read, Row, read_values
from tests.integration.transactions import serve_transactions, transactional_producer
from tests.unit.spark.test_narrowing import EqualTo, GreaterThanOrEqual, LessThan

START_MS = int(time.time() * 1000) - 3_600_000
PARTITIONS, RECORDS = 3, 50


def expected_row(partition: int, offset: int) -> Row:
    return Row(
        partition,
        offset,
        None if offset % 10 == 0 else b"key-%d" % (offset % 4),
        None if offset % 10 == 1 else b"" if offset % 10 == 2 else b"%d/%d" % (partition, offset),
        START_MS + offset * 1000,
        (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", None)) if offset % 10 == 3 else (),
    )


def write(bootstrap: str, topic: str, rows: list[Row], batch: int = 7, codec: str = "none") -> None:
    """Write rows in batches of at most ``batch``."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, "compression.type": codec})
    for number, row in enumerate(rows):
        headers = list(row.headers)
        producer.produce(topic, row.value, row.key, row.partition, timestamp=row.timestamp_ms, headers=headers)
        if number % batch == batch - 1:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[:2])


def offsets(topic: str, **of_partitions: int) -> str:
    return json.dumps({topic: {name[1:]: value for name, value in of_partitions.items()}})


@pytest.fixture(scope="module")
def events(node: NodeProcess, admin: KafkaAdminClient) -> str:
    """A topic of three partitions with fifty records each, in batches of seven."""
    admin.create_topics({"events": {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    write(node.bootstrap, "events", all_rows())
    return "events"


def all_rows() -> list[Row]:
    return [expected_row(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)]


def test_a_topic_is_read_with_all_columns(node: NodeProcess, events: str) -> None:
    read = Read(node.bootstrap, subscribe=events, includeHeaders="true")
    assert len(read.tasks) == PARTITIONS
    assert in_order(read.rows()) == all_rows()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(node: NodeProcess, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic(partitions=3)
    write(node.bootstrap, topic, all_rows(), codec=codec)
    assert in_order(Read(node.bootstrap, subscribe=topic, includeHeaders="true").rows()) == all_rows()


def test_one_byte_a_fetch_is_a_batch_a_fetch(node: NodeProcess, events: str) -> None:
    read = Read(node.bootstrap, subscribe=events, includeHeaders="true", kafka__max__partition__fetch__bytes=1)
    sizes = [batch.num_rows for batch in read.batches()]
    assert max(sizes) <= 7
    assert in_order(read.rows()) == all_rows()


def test_only_wanted_columns_are_made(node: NodeProcess, events: str) -> None:
    batches = list(Read(node.bootstrap, subscribe=events, columns="topic, Offset").batches())
    assert {tuple(batch.schema.names) for batch in batches} == {("topic", "offset")}
    assert sorted(offset for batch in batches for offset in batch.column("offset").to_pylist()) == sorted(
        3 * list(range(RECORDS))
    )
    topics = [topic for batch in batches for topic in batch.column("topic").to_pylist()]
    assert topics == [events] * 150
    assert sum(batch.num_rows for batch in Read(node.bootstrap, subscribe=events, columns="topic").batches()) == 150


def test_offsets_and_times_begin_and_end_inside_batches(node: NodeProcess, events: str) -> None:
    by_offset = Read(
        node.bootstrap,
        assign=json.dumps({events: [0, 2]}),
        startingOffsets=offsets(events, p0=5, p2=-2),
        endingOffsetsByTimestamp=offsets(events, p0=START_MS + 20_000, p2=START_MS + 10**9),
        includeHeaders="true",
    )
    assert in_order(by_offset.rows()) == [
        row for row in all_rows() if (row.partition == 0 and 5 <= row.offset < 20) or row.partition == 2
    ]


def test_ranges_are_divided_without_loss_or_overlap(node: NodeProcess, events: str) -> None:
    for option, value, tasks in (("minPartitions", 9, 9), ("maxRecordsPerPartition", 20, 9)):
        read = Read(node.bootstrap, subscribe=events, includeHeaders="true", **{option: value})
        assert len(read.tasks) == tasks
        assert in_order(read.rows()) == all_rows()


def test_tasks_are_bounded_in_bytes_by_the_size_that_is_seen(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    rows = [Row(0, number, None, bytes(1000), START_MS) for number in range(200)]
    write(node.bootstrap, topic, rows, batch=10)
    read = Read(node.bootstrap, subscribe=topic, maxBytesPerPartition=50_000)
    assert len(read.tasks) == 5  # 200 times 1,000 bytes, and a few of each record and batch
    assert read.rows() == rows
    assert len(Read(node.bootstrap, subscribe=topic, maxBytesPerPartition=10**9).tasks) == 1


def test_an_empty_topic_and_a_pattern_of_no_topic_have_no_tasks(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    assert Read(node.bootstrap, subscribe=topic).tasks == []
    assert Read(node.bootstrap, subscribePattern="^no-such-.*").tasks == []
    assert Read(node.bootstrap, subscribePattern=f"^{topic}$").tasks == []


def test_filters_leave_out_what_they_refuse(node: NodeProcess, events: str) -> None:
    since = dt.datetime.fromtimestamp(START_MS / 1000 + 20, dt.UTC)
    by_time = Read(node.bootstrap, [GreaterThanOrEqual(("timestamp",), since)], subscribe=events, includeHeaders="true")
    assert in_order(by_time.rows()) == [row for row in all_rows() if row.offset >= 20]
    by_place = Read(
        node.bootstrap, [EqualTo(("partition",), 1), LessThan(("offset",), 5)], subscribe=events, includeHeaders="true"
    )
    assert len(by_place.tasks) == 1
    assert by_place.rows() == [row for row in all_rows() if row.partition == 1 and row.offset < 5]
    late = GreaterThanOrEqual(("timestamp",), since + dt.timedelta(days=1))
    assert Read(node.bootstrap, [late], subscribe=events).tasks == []
    assert Read(node.bootstrap, [EqualTo(("topic",), "another")], subscribe=events).tasks == []


# Bad options --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "nowhere"}, "option subscribe=nowhere: topic nowhere: it does not exist"),
        ({"assign": '{"events": [0, 3]}'}, "option assign=3: topic events has no such partition, it has 3"),
        (
            {"startingOffsets": '{"events": {"0": 1, "1": 1}}'},
            "option startingOffsets=.*: partition 2 of topic events is read and not named: name all partitions",
        ),
        (
            {"endingOffsets": '{"events": {"0": 1, "1": 1, "2": 1, "3": 1}}'},
            "option endingOffsets=.*: partition 3 of topic events is named and not read, or does not exist: remove it",
        ),
        (
            {
                "startingOffsets": '{"events": {"0": 9, "1": 9, "2": 9}}',
                "endingOffsets": '{"events": {"0": 9, "1": 8, "2": 9}}',
            },
            "option startingOffsets=.*: partition 1 of topic events would begin at offset 9, behind its end 8: begin earlier",
        ),
        (
            {"endingOffsets": '{"events": {"0": 9, "1": 60, "2": 9}}'},
            "option endingOffsets=.*: partition 1 of topic events ends at 50, before offset 60: write 50 or less",
        ),
        (
            {"startingTimestamp": str(START_MS + 10**9)},
            "option startingTimestamp=.*: no record of partition 0 of topic events has that time or a later one",
        ),
    ],
)
def test_options_that_do_not_fit_the_topics_are_refused(
    node: NodeProcess, events: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        Read(node.bootstrap, **({} if {"subscribe", "assign"} & set(options) else {"subscribe": events}), **options)
    assert "\n" not in str(caught.value)


def test_a_start_by_a_late_time_can_be_the_end(node: NodeProcess, events: str) -> None:
    late = {"startingTimestamp": START_MS + 10**9, "startingOffsetsByTimestampStrategy": "latest"}
    assert Read(node.bootstrap, subscribe=events, **late).tasks == []


def test_without_failing_on_loss_a_read_ends_where_the_topic_does(node: NodeProcess, events: str) -> None:
    read = Read(
        node.bootstrap,
        subscribe=events,
        startingOffsets=offsets(events, p0=45, p1=45, p2=70),
        endingOffsets=offsets(events, p0=60, p1=50, p2=80),
        failOnDataLoss="false",
        includeHeaders="true",
    )
    assert in_order(read.rows()) == [row for row in all_rows() if row.partition < 2 and row.offset >= 45]


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ConsumerError, match=r"no broker answers within 0.5 s .*correct the bootstrap servers 127.0.0.1:1"
    ):
        Read("127.0.0.1:1", subscribe="t", kafka__default__api__timeout__ms=500)


# Losses, transactions, restarts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [True, False])
def test_records_that_are_deleted_after_the_plan_are_an_error_or_passed_over(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    rows = [Row(0, number, None, b"%d" % number, START_MS) for number in range(100)]
    write(node.bootstrap, topic, rows, batch=10)
    read = Read(node.bootstrap, subscribe=topic, failOnDataLoss=str(fails).lower())
    admin.delete_records({TopicPartition(topic, 0): 33})
    if fails:
        with pytest.raises(
            ConsumerError,
            match=rf"partition 0 of topic {topic}: offsets 0 to 32 are not there \(it has 33.*set failOnDataLoss=false",
        ):
            read.rows()
    else:
        assert read.rows() == rows[33:]
        assert "offsets 0 to 32 are not there" in caplog.text


def test_read_committed_ends_before_what_is_undecided_and_leaves_out_what_was_aborted(fresh_node: NodeFactory) -> None:
    node = fresh_node({"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    admin.create_topics({"t": {"num_partitions": 1}}, wait_for_metadata=True)
    admin.close()
    producer = transactional_producer(node.bootstrap, "source")
    for number in range(5):
        producer.begin_transaction()
        for each in range(10):
            producer.produce("t", b"%d/%d" % (number, each))
        producer.flush()
        if number < 4:
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
    committed = [b"%d/%d" % (number, each) for number in (0, 2) for each in range(10)]
    every = [b"%d/%d" % (number, each) for number in range(5) for each in range(10)]
    assert read_values(node.bootstrap, "t", kafka__isolation__level="read_committed") == committed
    assert read_values(node.bootstrap, "t") == every
    small = {"kafka.isolation.level": "read_committed", "kafka.max.partition.fetch.bytes": "1"}
    assert read_values(node.bootstrap, "t", **small) == committed
    producer.commit_transaction()
    assert read_values(node.bootstrap, "t", kafka__isolation__level="read_committed") == committed + every[40:]


def test_a_leader_that_restarts_is_followed(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    admin.create_topics({"t": {"num_partitions": 1}}, wait_for_metadata=True)
    admin.close()
    rows = [Row(0, number, None, bytes(100), START_MS) for number in range(500)]
    write(node.bootstrap, "t", rows, batch=10)
    read = Read(node.bootstrap, subscribe="t", columns="offset", kafka__max__partition__fetch__bytes=1)
    batches = read.batches()
    found = [offset for batch in islice(batches, 5) for offset in batch.column("offset").to_pylist()]
    node.kill()
    node.start()
    found += [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert found == list(range(500))
