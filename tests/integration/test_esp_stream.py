"""Streams by the data source ``esp`` against a node: what each micro-batch reads, over restarts and changes of topics. Here without a JVM.

``tests/integration/spark/test_esp_streams.py`` has some of it through Spark.
"""

import base64
import json
import time
import uuid

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.spark.query_progress import PartitionProgress, measure
from esp.spark.query_sources import read_cluster
from esp.spark.source import DefaultSource
from esp.spark.watching import Done, commit_done
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.kafka_python import subscribe
from tests.integration.source_rows import Row
from tests.integration.stream_rows import Checkpoint, Run
from tests.integration.topic_changes import add_partitions, recreate

START_MS = int(time.time() * 1000) - 3_600_000
STEP_MS = 1000


def write(bootstrap: str, topic: str, counts: dict[int, int], size: int = 10) -> None:
    """Write so many records to each partition, a second apart from ``START_MS`` on."""
    settings = {
        "linger.ms": 100,
        "batch.num.messages": 7,
        "enable.idempotence": True,
    }  # in order, whatever is tried again
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, bytes(size), None, partition, timestamp=START_MS + number * STEP_MS)
    assert producer.flush(30) == 0


def places(rows: list[Row]) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in rows]


def between(**of_partitions: tuple[int, int]) -> list[tuple[int, int]]:
    """The places of ranges of offsets: ``p0=(first, end)``."""
    return [(int(name[1:]), offset) for name, (first, end) in of_partitions.items() for offset in range(first, end)]


def offsets(topic: str, **of_partitions: int) -> str:
    return json.dumps({topic: {name[1:]: value for name, value in of_partitions.items()}})


@pytest.fixture
def filled(node: NodeProcess, make_topic: MakeTopic) -> str:
    """A topic of two partitions with fifty records each."""
    topic = make_topic(partitions=2)
    write(node.bootstrap, topic, {0: 50, 1: 50})
    return topic


EARLIEST = {"startingOffsets": "earliest"}


def test_each_record_is_read_once_over_restarts(node: NodeProcess, filled: str) -> None:
    checkpoint = Checkpoint()
    run = Run(node.bootstrap, checkpoint, subscribe=filled, **EARLIEST)
    assert places(run.rows()) == between(p0=(0, 50), p1=(0, 50))
    assert checkpoint.position == {filled: {"0": 50, "1": 50}}
    write(node.bootstrap, filled, {0: 5})
    assert places(Run(node.bootstrap, checkpoint, subscribe=filled).rows()) == between(p0=(50, 55))


def test_a_batch_that_was_planned_and_not_committed_comes_again_as_it_was(node: NodeProcess, filled: str) -> None:
    checkpoint = Checkpoint()
    Run(node.bootstrap, checkpoint, subscribe=filled, maxOffsetsPerTrigger=20, **EARLIEST).plan()
    write(node.bootstrap, filled, {0: 5})
    again = Run(node.bootstrap, checkpoint, subscribe=filled)
    assert [places(batch) for batch in again.batches()] == [
        between(p0=(0, 10), p1=(0, 10)),
        between(p0=(10, 55), p1=(10, 50)),
    ]


def test_spark_may_ask_for_the_initial_offsets_first(node: NodeProcess, filled: str) -> None:
    reader = Run(node.bootstrap, Checkpoint(), subscribe=filled, maxOffsetsPerTrigger=20, **EARLIEST).reader
    assert reader.initialOffset() == {filled: {"0": 0, "1": 0}}
    assert reader.latestOffset() == {filled: {"0": 10, "1": 10}}
    assert reader.initialOffset() == {filled: {"0": 0, "1": 0}}


def test_a_stream_begins_at_the_end_unless_told_otherwise(node: NodeProcess, filled: str) -> None:
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled)
    assert run.batch() == []
    write(node.bootstrap, filled, {1: 3})
    assert places(run.rows()) == between(p1=(50, 53))
    some = Run(node.bootstrap, Checkpoint(), subscribe=filled, startingOffsets=offsets(filled, p0=45, p1=-1))
    assert places(some.rows()) == between(p0=(45, 50))
    by_time = Run(node.bootstrap, Checkpoint(), subscribe=filled, startingTimestamp=START_MS + 48 * STEP_MS)
    assert places(by_time.rows()) == between(p0=(48, 50), p1=(48, 53))


def test_batches_are_limited_by_offsets_and_tasks_are_divided(
    node: NodeProcess, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, maxOffsetsPerTrigger=30, minPartitions=6, **EARLIEST)
    batches = run.batches()
    assert [len(batch) for batch in batches] == [30, 30, 30, 10]
    assert sorted(place for batch in batches for place in places(batch)) == between(p0=(0, 50), p1=(0, 50))
    [told] = caplog.messages
    assert told.startswith("format esp: 70 offsets are left behind the first batch of this run: ")
    assert told.endswith("run it by esp.spark.drain(writer), or start it again")


def test_behind_a_first_batch_that_comes_again_the_stream_goes_on_at_once(node: NodeProcess, filled: str) -> None:
    """Spark asks such a reader where the query begins, plans the batch again, and takes an unchanged latest offset for the end."""
    options = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": filled, "startingOffsets": "earliest"}
    source = DefaultSource({**options, "endingOffsets": "latest", "maxOffsetsPerTrigger": "20"})
    first, again = (source.streamReader(source.schema()) for _ in range(2))
    end, start = first.latestOffset(), first.initialOffset()
    assert again.initialOffset() == start
    assert len(again.partitions(start, end)) > 0
    latest = again.latestOffset()
    assert latest != end
    first.partitions(start, end)
    assert first.latestOffset() == latest


def test_what_is_left_behind_a_repeated_batch_is_told_too(
    node: NodeProcess, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    options = {"subscribe": filled, "maxOffsetsPerTrigger": 20, **EARLIEST}
    Run(node.bootstrap, checkpoint, **options).plan()
    caplog.clear()
    Run(node.bootstrap, checkpoint, **options).batch()
    [told] = caplog.messages
    assert told.startswith("format esp: 80 offsets are left behind the batch that was planned before and is repeated: ")


def test_batches_are_limited_by_bytes_as_records_are_seen(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    write(node.bootstrap, topic, {0: 100}, size=1000)
    write(node.bootstrap, topic, {1: 100}, size=10)
    batches = Run(node.bootstrap, Checkpoint(), subscribe=topic, maxBytesPerTrigger=30_000, **EARLIEST).batches()
    assert sum(map(len, batches)) == 200
    assert all(sum(len(row.value or b"") for row in batch) <= 30_000 for batch in batches)
    assert len(batches) <= 6


def test_batches_are_limited_by_time_over_all_topics(node: NodeProcess, make_topic: MakeTopic, topic: str) -> None:
    """The second topic has records of the last half of the time only."""
    other = make_topic(f"{topic}-other")
    make_topic(partitions=2)
    write(node.bootstrap, topic, {0: 100, 1: 100})
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in range(50, 100):
        producer.produce(other, b"", None, 0, timestamp=START_MS + number * STEP_MS)
    assert producer.flush(30) == 0
    run = Run(node.bootstrap, Checkpoint(), subscribe=f"{topic},{other}", maxTimePerTrigger="10s", **EARLIEST)
    batches = run.batches()
    assert [len(batch) for batch in batches] == [20] * 5 + [30] * 5
    for number, batch in enumerate(batches):
        since = START_MS + number * 10 * STEP_MS
        assert all(since <= row.timestamp_ms < since + 10 * STEP_MS for row in batch)


def test_few_records_wait_for_others_but_not_longer_than_the_delay(node: NodeProcess, filled: str) -> None:
    options = {"subscribe": filled, "minOffsetsPerTrigger": 10, **EARLIEST}
    run = Run(node.bootstrap, Checkpoint(), maxTriggerDelay="1h", **options)
    assert len(run.batch() or ()) == 100
    write(node.bootstrap, filled, {0: 9})
    assert run.batch() is None
    write(node.bootstrap, filled, {1: 1})
    assert len(run.batch() or ()) == 10
    hasty = Run(node.bootstrap, Checkpoint(), maxTriggerDelay="1ms", **options)
    assert len(hasty.batch() or ()) == 110
    write(node.bootstrap, filled, {0: 1})
    eventually(hasty.plan, 30)
    assert len(hasty.read()) == 1


# Ends ------------------------------------------------------------------------------------------------------------------------------


def test_a_stream_ends_at_offsets(node: NodeProcess, filled: str) -> None:
    options = {"subscribe": filled, "endingOffsets": offsets(filled, p0=20, p1=60), **EARLIEST}
    checkpoint = Checkpoint()
    run = Run(node.bootstrap, checkpoint, maxOffsetsPerTrigger=40, **options)
    assert places(run.rows()) == between(p0=(0, 20), p1=(0, 50))
    write(node.bootstrap, filled, {0: 20, 1: 20})
    assert places(Run(node.bootstrap, checkpoint, **options).rows()) == between(p1=(50, 60))


def test_latest_ends_a_run_where_the_topics_ended_at_its_start(
    node: NodeProcess, filled: str, admin: KafkaAdminClient
) -> None:
    options = {"subscribe": filled, "endingOffsets": "latest", "maxOffsetsPerTrigger": 40, **EARLIEST}
    checkpoint = Checkpoint()
    run = Run(node.bootstrap, checkpoint, **options)
    first = run.batch() or []
    add_partitions(admin, filled, 3)
    write(node.bootstrap, filled, {0: 10, 2: 10})
    assert places(sorted(first + run.rows())) == between(p0=(0, 50), p1=(0, 50))
    assert places(Run(node.bootstrap, checkpoint, **options).rows()) == between(p0=(50, 60), p2=(0, 10))


@pytest.mark.parametrize(
    ("ends", "sizes"),
    [
        ({}, [40, 40, 20]),
        ({"endingTimestamp": START_MS + 30 * STEP_MS}, [40, 20]),
        ({"endingTimestamp": START_MS + 52 * STEP_MS}, [40, 40, 20]),
    ],
    ids=["endless", "its end comes first", "its end comes later"],
)
def test_a_run_that_is_to_end_here_reads_no_further_within_its_limits(
    node: NodeProcess,
    filled: str,
    admin: KafkaAdminClient,
    caplog: pytest.LogCaptureFixture,
    ends: dict[str, int],
    sizes: list[int],
) -> None:
    """The trigger ``availableNow`` from Spark 4.2 on."""
    limits = {"maxOffsetsPerTrigger": 40, "minOffsetsPerTrigger": 30}
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, **limits, **ends, **EARLIEST)
    run.end_here()
    add_partitions(admin, filled, 3)
    write(node.bootstrap, filled, {0: 10, 1: 10, 2: 10})
    assert [len(batch) for batch in run.batches()] == sizes
    assert not caplog.messages


def test_a_range_of_time_is_replayed(node: NodeProcess, filled: str) -> None:
    options = {
        "startingTimestamp": START_MS + 10 * STEP_MS,
        "endingTimestamp": START_MS + 30 * STEP_MS,
        "maxTimePerTrigger": "5s",
    }
    batches = Run(node.bootstrap, Checkpoint(), subscribe=filled, **options).batches()
    assert [len(batch) for batch in batches] == [10] * 4
    assert sorted(place for batch in batches for place in places(batch)) == between(p0=(10, 30), p1=(10, 30))


def test_a_time_that_has_no_record_yet_is_waited_for(node: NodeProcess, filled: str) -> None:
    end = START_MS + 55 * STEP_MS
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, endingTimestamp=end, **EARLIEST)
    assert len(run.batch() or ()) == 100
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in range(52, 58):
        producer.produce(filled, b"", None, 0, timestamp=START_MS + number * STEP_MS)
    assert producer.flush(30) == 0
    assert places(run.rows()) == between(p0=(50, 53))


def test_the_minimum_does_not_hold_back_what_is_the_last(node: NodeProcess, filled: str) -> None:
    limits = {"minOffsetsPerTrigger": 40, "maxOffsetsPerTrigger": 60}
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, endingOffsets="latest", **limits, **EARLIEST)
    assert [len(batch) for batch in run.batches()] == [60, 40]
    ended = {"endingOffsets": offsets(filled, p0=40, p1=40)}
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, **ended, **limits, **EARLIEST)
    assert [len(batch) for batch in run.batches()] == [60, 20]


# Topics that change ----------------------------------------------------------------------------------------------------------------


def test_partitions_and_topics_that_are_added_are_read_from_their_start(
    node: NodeProcess, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient
) -> None:
    checkpoint = Checkpoint()
    run = Run(node.bootstrap, checkpoint, subscribePattern=f"^{topic}")
    assert run.batch() == []
    assert checkpoint.position == {}
    make_topic()
    write(node.bootstrap, topic, {0: 5})
    assert places(run.batch() or []) == between(p0=(0, 5))
    add_partitions(admin, topic, 2)
    write(node.bootstrap, topic, {0: 5, 1: 5})
    assert places(run.batch() or []) == between(p0=(5, 10), p1=(0, 5))
    add_partitions(admin, topic, 3)
    write(node.bootstrap, topic, {2: 5})
    assert places(Run(node.bootstrap, checkpoint, subscribePattern=f"^{topic}").rows()) == between(p2=(0, 5))


@pytest.mark.parametrize("records", [10, 70], ids=["shorter", "longer"])
def test_a_topic_created_again_fails_the_run_with_both_ids(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, records: int
) -> None:
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, **EARLIEST)
    run.batch()
    recreate(admin, filled, 2)
    write(node.bootstrap, filled, {0: records})
    words = (
        rf"topic {filled} was deleted and created again \(id \S+, now \S+\): set onTopicRecreated=earliest or latest"
    )
    with pytest.raises(ConsumerError, match=words):
        run.batch()


@pytest.mark.parametrize("records", [10, 70], ids=["shorter", "longer"])
@pytest.mark.parametrize("choice", ["earliest", "latest"])
def test_a_topic_created_again_is_read_from_the_end_that_was_chosen(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, choice: str, records: int
) -> None:
    checkpoint = Checkpoint()
    run = Run(node.bootstrap, checkpoint, subscribe=filled, onTopicRecreated=choice, **EARLIEST)
    run.batch()
    recreate(admin, filled, 1)
    write(node.bootstrap, filled, {0: records})
    assert run.batch() == [], "the checkpoint has the new position before a record is read"
    restarted = Run(node.bootstrap, checkpoint, subscribe=filled)
    write(node.bootstrap, filled, {0: 5})
    begin = 0 if choice == "earliest" else records
    assert places(run.rows()) == between(p0=(begin, records + 5))
    assert places(restarted.rows()) == []


def test_a_topic_created_again_is_read_from_the_first_record_that_it_has(
    node: NodeProcess, filled: str, admin: KafkaAdminClient
) -> None:
    """Not from offset 0: ``topic.recreate.offsets=continue`` gives a new topic none of the old one's offsets."""
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, onTopicRecreated="earliest", **EARLIEST)
    run.batch()
    recreate(admin, filled, 1)
    write(node.bootstrap, filled, {0: 10})
    admin.delete_records({TopicPartition(filled, 0): 4})
    assert run.batch() == []
    assert run.checkpoint.position == {filled: {"0": 4}}
    assert places(run.rows()) == between(p0=(4, 10))


def test_no_record_is_skipped_behind_a_second_new_topic(
    node: NodeProcess, filled: str, admin: KafkaAdminClient
) -> None:
    """Its batch ends where the batch before ended that went over to the first new topic."""
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, onTopicRecreated="latest", **EARLIEST)
    run.batch()
    for records in (70, 5):
        recreate(admin, filled, 1)
        write(node.bootstrap, filled, {0: records})
        assert run.batch() == []
    write(node.bootstrap, filled, {0: 65})
    assert places(run.rows()) == between(p0=(5, 70))


def test_a_batch_that_is_planned_reads_no_record_of_another_topic(
    node: NodeProcess, filled: str, admin: KafkaAdminClient
) -> None:
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, **EARLIEST)
    run.plan()
    tasks = run.reader.partitions(json.loads(run.checkpoint.starts[-1]), run.checkpoint.position)
    recreate(admin, filled, 2)
    write(node.bootstrap, filled, {0: 70, 1: 70})
    for task in tasks:
        with pytest.raises(ConsumerError, match=f"of topic {filled}: the topic was deleted and created again since"):
            list(run.reader.read(task))


def test_a_partition_that_is_shorter_than_the_position_is_a_loss(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Run(node.bootstrap, checkpoint, subscribe=filled, **EARLIEST).rows()
    recreate(admin, filled, 2)
    write(node.bootstrap, filled, {0: 10})
    words = (
        f"partition 0 of topic {filled}: the stream is at offset 50, and the partition ends at 10: records were lost"
    )
    with pytest.raises(ConsumerError, match=words):
        Run(node.bootstrap, checkpoint, subscribe=filled).batch()
    tolerant = Run(node.bootstrap, checkpoint, subscribe=filled, failOnDataLoss="false")
    assert tolerant.batch() == []
    assert f"topic {filled}: the stream is at offset 50, and the partition ends at 10: it goes on there" in caplog.text
    write(node.bootstrap, filled, {0: 5, 1: 5})
    assert places(tolerant.rows()) == between(p0=(10, 15), p1=(0, 5))


def test_a_topic_that_is_gone_fails_the_stream_or_is_left_out_by_a_pattern(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"kafka__default__api__timeout__ms": "1000", **EARLIEST}
    named = Run(node.bootstrap, Checkpoint(), subscribe=filled, failOnDataLoss="false", **options)
    by_pattern = {"subscribePattern": f"^{filled}$", **options}
    strict = Run(node.bootstrap, Checkpoint(), **by_pattern)
    tolerant = Run(node.bootstrap, Checkpoint(), failOnDataLoss="false", **by_pattern)
    for run in (named, strict, tolerant):
        assert len(run.batch() or ()) == 100
    admin.delete_topics([filled])
    with pytest.raises(OptionError, match=f"option subscribe={filled}: topic {filled}: it does not exist"):
        named.batch()
    with pytest.raises(ConsumerError, match=f"partition 0 of topic {filled} is not among those to read any more"):
        strict.batch()
    assert tolerant.batch() == []
    assert tolerant.checkpoint.position == {}
    assert "and goes on without it" in caplog.text


@pytest.mark.parametrize("fails", [True, False])
def test_records_deleted_before_they_are_read_are_a_loss(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, fails: bool
) -> None:
    run = Run(node.bootstrap, Checkpoint(), subscribe=filled, failOnDataLoss=str(fails).lower(), **EARLIEST)
    run.plan()
    admin.delete_records({TopicPartition(filled, 0): 33})
    if fails:
        with pytest.raises(ConsumerError, match="offsets 0 to 32 are not there"):
            run.read()
    else:
        assert places(run.read()) == between(p0=(33, 50), p1=(0, 50))


# Bad options -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"startingOffsets": '{"T": {"0": 1}}'},
            "option startingOffsets=.*: partition 1 of topic T is read and not named",
        ),
        (
            {"startingOffsets": '{"T": {"0": 51, "1": 1}}'},
            "option startingOffsets=.*: partition 0 of topic T would begin at offset 51, behind its end 50: begin earlier",
        ),
        (
            {"startingOffsets": '{"T": {"0": 5, "1": 5}}', "endingOffsets": '{"T": {"0": 5, "1": 4}}'},
            "option startingOffsets=.*: partition 1 of topic T would begin at offset 5, behind its end 4: begin earlier",
        ),
        ({"endingOffsets": '{"T": {"0": 1}}'}, "option endingOffsets=.*: partition 1 of topic T is read and not named"),
        (
            {"startingTimestamp": str(START_MS + 10**9)},
            "option startingTimestamp=.*: no record of partition 0 of topic T has that time or a later one",
        ),
    ],
)
def test_options_that_do_not_fit_the_topics_are_refused(
    node: NodeProcess, filled: str, options: dict[str, str], words: str
) -> None:
    given = {name: value.replace("T", filled) for name, value in options.items()}
    with pytest.raises(OptionError, match=words.replace("topic T", f"topic {filled}")) as caught:
        Run(node.bootstrap, Checkpoint(), subscribe=filled, **given).plan()
    assert "\n" not in str(caught.value)


# The group -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


def committed(admin: KafkaAdminClient, group: str) -> dict[tuple[str, int], tuple[int, dict[str, object]]]:
    """The offsets of a group by topic and partition, and what stands beside each."""
    found = admin.list_group_offsets({group: None})[group]
    return {tuple(partition): (each.offset, json.loads(each.metadata)) for partition, each in found.items()}


def topic_id(admin: KafkaAdminClient, topic: str) -> str:
    """As Kafka's tools write it."""
    octets = uuid.UUID(str(admin.describe_topics([topic])[0]["topic_id"])).bytes
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def test_a_group_has_the_position_behind_the_last_batch_that_is_done(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, group: str
) -> None:
    options = {"subscribe": filled, "groupId": group, "maxOffsetsPerTrigger": 60, **EARLIEST}
    checkpoint = Checkpoint()
    run = Run(node.bootstrap, checkpoint, **options)
    run.plan()

    def offsets_of_group() -> list[int]:
        found = committed(admin, group)
        assert {metadata["topicId"] for _, metadata in found.values()} == {topic_id(admin, filled)}
        return [found[filled, number][0] for number in (0, 1)]

    assert offsets_of_group() == [0, 0]
    run.read()
    run.plan()
    assert offsets_of_group() == [30, 30]
    run = Run(node.bootstrap, checkpoint, **options)
    assert len(run.read()) == 40
    assert run.batch() is None
    assert offsets_of_group() == [50, 50]


@pytest.mark.parametrize("choice", ["fail", "earliest", "latest", None])
def test_over_a_restart_the_group_tells_a_topic_created_again(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, make_topic: MakeTopic, group: str, choice: str | None
) -> None:
    other = make_topic(f"{filled}-other")
    options = {"subscribe": f"{filled},{other}", "groupId": group, **EARLIEST}
    if choice is not None:
        options["onTopicRecreated"] = choice
    checkpoint = Checkpoint()
    assert len(Run(node.bootstrap, checkpoint, **options).rows()) == 100
    recreate(admin, filled, 2)
    write(node.bootstrap, filled, {0: 70})
    if choice in (None, "fail"):
        with pytest.raises(ConsumerError, match=f"topic {filled} was deleted and created again .id .*, now "):
            Run(node.bootstrap, checkpoint, **options).batch()
        return
    crashed = Run(node.bootstrap, checkpoint, **options)
    assert crashed.batch() == []
    run = Run(node.bootstrap, checkpoint, **options)
    if choice == "latest":
        assert run.batch() is None
    write(node.bootstrap, filled, {1: 5})
    rows = [place for batch in run.batches() for place in places(batch)]
    assert sorted(rows) == (between(p0=(0, 70), p1=(0, 5)) if choice == "earliest" else between(p1=(0, 5)))
    assert Run(node.bootstrap, checkpoint, **options).batches() == []


@pytest.mark.parametrize("choice", [{}, {"onTopicRecreated": "earliest"}], ids=["none", "earliest"])
def test_a_topic_that_joined_in_the_last_batch_of_a_run_is_the_same_after_it(
    node: NodeProcess,
    filled: str,
    make_topic: MakeTopic,
    admin: KafkaAdminClient,
    group: str,
    choice: dict[str, str],
) -> None:
    options = {"subscribePattern": f"^{filled}", "groupId": group, **choice, **EARLIEST}
    checkpoint = Checkpoint()
    assert len(Run(node.bootstrap, checkpoint, **options).rows()) == 100
    joined = make_topic(f"{filled}-joined")
    write(node.bootstrap, joined, {0: 20})
    add_partitions(admin, filled, 3)
    write(node.bootstrap, filled, {2: 10})
    assert len(Run(node.bootstrap, checkpoint, **options).batch() or ()) == 30
    assert {place: committed(admin, group)[place][0] for place in [(joined, 0), (filled, 2)]} == {
        (joined, 0): 0,
        (filled, 2): 0,
    }
    assert Run(node.bootstrap, checkpoint, **options).batch() is None
    write(node.bootstrap, joined, {0: 3})
    assert places(Run(node.bootstrap, checkpoint, **options).rows()) == between(p0=(20, 23))


@pytest.mark.parametrize("is_read", [True, False], ids=["then the run ends", "then the run dies"])
@pytest.mark.parametrize("choice", ["earliest", "latest"])
def test_a_batch_that_goes_over_to_a_new_topic_is_known_to_the_next_run(
    node: NodeProcess,
    filled: str,
    admin: KafkaAdminClient,
    make_topic: MakeTopic,
    group: str,
    choice: str,
    is_read: bool,
) -> None:
    other = make_topic(f"{filled}-other")
    options = {"subscribe": f"{filled},{other}", "groupId": group, "onTopicRecreated": choice, **EARLIEST}
    checkpoint = Checkpoint()
    assert len(Run(node.bootstrap, checkpoint, **options).rows()) == 100
    recreate(admin, filled, 2)
    write(node.bootstrap, filled, {0: 70})
    run = Run(node.bootstrap, checkpoint, **options)
    assert run.plan()
    if is_read:
        assert run.read() == []
    write(node.bootstrap, filled, {0: 5, 1: 3})
    begin = 70 if choice == "latest" else 0
    assert places(Run(node.bootstrap, checkpoint, **options).rows()) == between(p0=(begin, 75), p1=(0, 3))
    assert Run(node.bootstrap, checkpoint, **options).batches() == []


def test_a_batch_that_is_repeated_reads_no_record_of_a_topic_created_again(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, make_topic: MakeTopic, group: str
) -> None:
    other = make_topic(f"{filled}-other")
    options = {"subscribe": f"{filled},{other}", "groupId": group, **EARLIEST}
    checkpoint = Checkpoint()
    Run(node.bootstrap, checkpoint, **options).plan()
    write(node.bootstrap, other, {0: 1})
    recreate(admin, filled, 2)
    write(node.bootstrap, filled, {0: 70, 1: 70})
    with pytest.raises(ConsumerError, match=f"topic {filled} was deleted and created again"):
        Run(node.bootstrap, checkpoint, **options).batch()
    run = Run(node.bootstrap, checkpoint, onTopicRecreated="earliest", **options)
    assert run.batch() == []
    found = [place for batch in run.batches() for place in places(batch)]
    assert sorted(found) == sorted([(0, 0), *between(p0=(0, 70), p1=(0, 70))])


def test_a_group_without_offsets_is_told_and_fails_a_stream_that_is_to_know(
    node: NodeProcess, filled: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Run(node.bootstrap, checkpoint, subscribe=filled, **EARLIEST).rows()
    options = {"subscribe": filled, "groupId": group}
    with pytest.raises(
        ConsumerError, match=f"group {group} has no offsets of the topics of the checkpoint, so that it is not"
    ):
        Run(node.bootstrap, checkpoint, onTopicRecreated="earliest", **options).batch()
    assert Run(node.bootstrap, checkpoint, **options).batch() is None
    assert f"group {group} has no offsets of the topics of the checkpoint" in caplog.text
    assert Run(node.bootstrap, checkpoint, onTopicRecreated="earliest", **options).batch() is None


def test_a_group_with_members_is_refused(node: NodeProcess, filled: str, group: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=node.bootstrap, group_id=group)
    try:
        subscribe(consumer, filled)
        eventually(lambda: (consumer.poll(100), consumer.assignment())[1], 30)
        with pytest.raises(ConsumerError, match=f"group {group}: it has members that consume .*: choose another group"):
            Run(node.bootstrap, Checkpoint(), subscribe=filled, groupId=group).plan()
    finally:
        consumer.close()


# Lag -------------------------------------------------------------------------------------------------------------------------------


def test_a_batch_that_is_done_is_committed_with_its_number_and_the_ids_of_topics(
    node: NodeProcess, filled: str, admin: KafkaAdminClient, group: str
) -> None:
    cluster = read_cluster({"kafka.bootstrap.servers": node.bootstrap})
    assert cluster is not None
    position = {Partition(filled, 0): 20, Partition(filled, 1): 30, Partition(filled, 7): 1}
    commit_done(Done(group, cluster, position, 4, "q"))
    beside = {"topicId": topic_id(admin, filled), "batch": 4, "query": "q"}
    assert committed(admin, group) == {(filled, 0): (20, beside), (filled, 1): (30, beside)}


def test_a_position_is_behind_in_records_bytes_and_seconds(node: NodeProcess, filled: str) -> None:
    cluster = read_cluster({"kafka.bootstrap.servers": node.bootstrap})
    assert cluster is not None
    now_ms = START_MS + 60 * STEP_MS
    first, second = measure(cluster, {Partition(filled, 1): 50, Partition(filled, 0): 20}, lambda: now_ms)
    assert first._replace(bytes=0) == PartitionProgress(filled, 0, 20, 50, 30, 0, 40.0)
    assert 30 * 10 < first.bytes < 30 * 60
    assert second == PartitionProgress(filled, 1, 50, 50, 0, 0, 0.0)
