"""Spark's batch reads, by its Kafka source and by ``esp``: each option that chooses topics, offsets or splits, and what it reads."""

import json
import re
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.spark.cluster import Cluster, Positions, Record, positions_of, with_slow_starts, without_headers
from tests.integration.spark.session import HAS_CONNECTOR
from tests.integration.transactions import serve_transactions

PARTITIONS, RECORDS = 3, 50
TOPIC = "events"
START_MS = int(time.time() * 1000) - 3_600_000
STEP_MS = 1000


def record(partition: int, offset: int) -> Record:
    """The record at a position: all kinds of keys, values and headers come in turn; timestamps rise by a second."""
    return Record(
        partition,
        key=None if offset % 10 == 0 else f"key-{offset % 4}".encode(),
        value=None if offset % 10 == 1 else b"" if offset % 10 == 2 else f"{partition}/{offset}".encode(),
        timestamp_ms=START_MS + offset * STEP_MS,
        headers=(("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b"")) if offset % 10 == 3 else (),
    )


Read = Callable[..., DataFrame]


@pytest.fixture(params=["kafka", "esp"])
def read(cluster: Cluster, request: pytest.FixtureRequest) -> Read:
    """A batch read by a data source, ``read(**options)``."""
    return partial(cluster.read, request.param)


@pytest.fixture(scope="module")
def events(cluster: Cluster, admin: KafkaAdminClient) -> Positions:
    """A topic of three partitions with fifty records each, in batches of seven."""
    admin.create_topics({TOPIC: {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    written = cluster.produce(
        TOPIC, [record(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)]
    )
    assert written == {(p, o): record(p, o) for p in range(PARTITIONS) for o in range(RECORDS)}
    return written


def between(events: Positions, first: dict[int, int], end: dict[int, int]) -> Positions:
    """The records from ``first`` up to, not including, ``end`` of each partition, as Spark shows them."""
    return without_headers({(p, o): r for (p, o), r in events.items() if first.get(p, 0) <= o < end.get(p, RECORDS)})


def offsets(**of_partitions: int) -> str:
    """Spark's JSON for offsets or timestamps of ``TOPIC``: ``offsets(p0=5, p1=-1)``."""
    return json.dumps({TOPIC: {name[1:]: value for name, value in of_partitions.items()}})


def test_earliest_to_latest_is_every_record_once(read: Read, events: Positions) -> None:
    frame = read(subscribe=TOPIC, startingOffsets="earliest", endingOffsets="latest")
    assert positions_of(frame) == without_headers(events)
    assert [tuple(row) for row in frame.select("topic", "timestampType").distinct().collect()] == [(TOPIC, 0)]


def test_headers_come_in_order_when_asked_for(read: Read, events: Positions) -> None:
    assert positions_of(read(subscribe=TOPIC, includeHeaders="true")) == events


def test_specific_offsets_start_and_end_inside_batches(read: Read, events: Positions) -> None:
    frame = read(
        subscribe=TOPIC, startingOffsets=offsets(p0=5, p1=-2, p2=49), endingOffsets=offsets(p0=11, p1=1, p2=-1)
    )
    assert positions_of(frame) == between(events, {0: 5, 2: 49}, {0: 11, 1: 1})


def test_equal_starting_and_ending_offsets_read_nothing(read: Read, events: Positions) -> None:
    frame = read(subscribe=TOPIC, startingOffsets=offsets(p0=7, p1=0, p2=50), endingOffsets=offsets(p0=7, p1=0, p2=-1))
    assert frame.count() == 0


def test_timestamps_choose_the_first_record_not_before_them(read: Read, events: Positions) -> None:
    frame = read(
        subscribe=TOPIC,
        startingTimestamp=str(START_MS + 10 * STEP_MS - 1),
        endingTimestamp=str(START_MS + 20 * STEP_MS),
    )
    assert positions_of(frame) == between(events, dict.fromkeys(range(3), 10), dict.fromkeys(range(3), 20))


def test_timestamps_can_differ_by_partition(read: Read, events: Positions) -> None:
    def at(offset: int) -> int:
        return START_MS + offset * STEP_MS

    frame = read(
        subscribe=TOPIC,
        startingOffsetsByTimestamp=offsets(p0=at(3), p1=at(0), p2=at(48) + 1),
        endingOffsetsByTimestamp=offsets(p0=at(4), p1=at(25), p2=at(1000)),
    )
    assert positions_of(frame) == between(events, {0: 3, 1: 0, 2: 49}, {0: 4, 1: 25, 2: 50})


def test_a_timestamp_after_the_last_record_is_an_error_or_the_end(cluster: Cluster, events: Positions) -> None:
    late = str(START_MS + 1000 * STEP_MS)
    with pytest.raises(IllegalArgumentException, match="No offset matched from request"):
        cluster.read(subscribe=TOPIC, startingTimestamp=late).count()
    frame = cluster.read(
        subscribe=TOPIC, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest", endingOffsets="latest"
    )
    assert frame.count() == 0


def test_assign_reads_the_named_partitions_only(read: Read, events: Positions) -> None:
    frame = read(assign=json.dumps({TOPIC: [0, 2]}))
    assert positions_of(frame) == {position: r for position, r in without_headers(events).items() if position[0] != 1}


@pytest.fixture(scope="module")
def orders(cluster: Cluster, admin: KafkaAdminClient) -> None:
    """Topics of which a pattern chooses some."""
    for name in ("orders.eu", "orders.us", "reorders.eu"):
        admin.create_topics({name: {"num_partitions": 2}}, wait_for_metadata=True)
        cluster.produce(name, [Record(1, name.encode(), b"1", START_MS), Record(0, name.encode(), b"2", START_MS)])


def test_subscribe_and_pattern_read_several_topics(read: Read, events: Positions, orders: None) -> None:
    def topics(**options: str) -> list[tuple[str, str]]:
        frame = read(**options).selectExpr("topic", "CAST(key AS STRING)")
        return sorted(tuple(row) for row in frame.collect())

    two = [("orders.eu", "orders.eu")] * 2 + [("orders.us", "orders.us")] * 2
    assert topics(subscribe="orders.eu,orders.us") == two
    assert topics(subscribePattern=r"^orders\..*") == two


def tasks(frame: DataFrame) -> int:
    """How many of the tasks that read the frame had records."""
    return frame.select(F.spark_partition_id()).distinct().count()


def test_min_partitions_splits_offsets_without_loss_or_overlap(read: Read, events: Positions) -> None:
    frame = read(subscribe=TOPIC, minPartitions="9")
    assert tasks(frame) == 9
    assert positions_of(frame) == without_headers(events)


def test_read_committed_reads_all_that_no_transaction_wrote(read: Read, events: Positions) -> None:
    assert positions_of(read(subscribe=TOPIC, kafka__isolation__level="read_committed")) == without_headers(events)


def test_small_fetches_and_polls_read_the_same(cluster: Cluster, events: Positions) -> None:
    frame = cluster.read(
        subscribe=TOPIC,
        kafka__max__poll__records="3",
        kafka__fetch__max__bytes="100",
        kafka__max__partition__fetch__bytes="1",
    )
    assert positions_of(frame) == without_headers(events)


def test_offsets_beyond_the_end_fail_the_query_unless_loss_is_allowed(cluster: Cluster, events: Positions) -> None:
    def read(fail: str) -> DataFrame:
        return cluster.read(
            subscribe=TOPIC,
            startingOffsets=offsets(p0=45, p1=45, p2=45),
            endingOffsets=offsets(p0=60, p1=50, p2=50),
            failOnDataLoss=fail,
            kafkaConsumer__pollTimeoutMs="2000",
        )

    with pytest.raises(Py4JJavaError, match=r"Could not read records in offset \[50, 60\)"):
        read("true").count()
    assert positions_of(read("false")) == between(events, dict.fromkeys(range(3), 45), {})


def test_an_unknown_topic_is_an_error(cluster: Cluster, topic: str) -> None:
    frame = cluster.read(
        assign=json.dumps({topic: [0]}), kafka__request__timeout__ms="3000", kafka__default__api__timeout__ms="3000"
    )
    with pytest.raises(Py4JJavaError, match="UnknownTopicOrPartition"):
        frame.count()


# What esp has and Kafka's source has not


def test_both_sources_have_the_same_columns_and_types(cluster: Cluster, events: Positions) -> None:
    for headers in ("false", "true"):
        options = {"subscribe": TOPIC, "includeHeaders": headers}
        assert cluster.read("esp", **options).schema == cluster.read(**options).schema


def test_only_wanted_columns_are_sent(cluster: Cluster, events: Positions) -> None:
    frame = cluster.read("esp", subscribe=TOPIC, columns="offset,value")
    assert frame.columns == ["offset", "value"]
    found = [(row["offset"], None if row["value"] is None else bytes(row["value"])) for row in frame.collect()]
    assert sorted(found, key=repr) == sorted(((offset, r.value) for (_, offset), r in events.items()), key=repr)


def test_an_option_of_no_use_is_named(cluster: Cluster, events: Positions) -> None:
    with pytest.raises(AnalysisException, match="option subscribes=events: format esp does not know it: remove it"):
        cluster.read("esp", subscribes=TOPIC)
    with pytest.raises(AnalysisException, match="option subscribe=nowhere: topic nowhere: it does not exist"):
        cluster.read("esp", subscribe="nowhere").count()


def test_the_examples_of_the_page_run(
    cluster: Cluster, admin: KafkaAdminClient, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    admin.create_topics({"flights": {"num_partitions": 1}}, wait_for_metadata=True)
    admin.create_topics({"archive": {"num_partitions": 1}}, wait_for_metadata=True)
    if not AGAINST_KAFKA:
        serve_transactions(cluster.node.bootstrap, [cluster.node])
    cluster.produce("flights", [record(0, offset) for offset in range(20)])
    admin.create_topics({"delays": {"num_partitions": 1}}, wait_for_metadata=True)
    texts = [b'{"carrier":"UA","delay":%d}' % number for number in range(20)] + [
        b'{"carrier":"AA","delay":"late"}',
        b"?",
    ]
    cluster.produce("delays", [Record(0, None, text, START_MS + number) for number, text in enumerate(texts)])
    page = (Path(__file__).parents[3] / "docs" / "SPARK.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    attempts = count()
    for example in examples:
        if 'format("kafka")' in example and not HAS_CONNECTOR:
            continue

        def run(example: str = example) -> None:
            program = example.replace("/tmp", f"{tmp_path}/{next(attempts)}")
            program = program.replace("127.0.0.1:9092", cluster.node.bootstrap)
            exec(program.replace("flights-0/", f"{cluster.node.data_dir}/flights-0/"), {"spark": cluster.spark})

        with_slow_starts(run)
    shown = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in shown] == [
        "Row(count(1)=20, max(offset)=19)",
        "20",
        "topic partition offset end records bytes seconds",
        "flights 0 20 20 0 0 0.0",
        "all 0 0 0.0",
        "20",
        "Row(count(carrier)=20, sum(delay)=190)",
        *(["Row(count(fields.carrier)=21, count(fields._corrupt)=2)"] if HAS_CONNECTOR else []),
        "20",
    ]
