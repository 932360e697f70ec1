"""The exactly-once sink against a node, without Spark: tasks that die at every request, two drivers at once, zombies, and refusals.

``tests/integration/spark/test_esp_sinks.py`` has some of it through Spark.
"""

import pickle
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from esp.cli.app import run_tools
from esp.consumer import group_messages
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Api, Partition
from esp.options.errors import OptionError
from esp.producer.partitioner import partition_of_key
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.sink import batch_planning, partition_writer
from esp.sink.decision import Action, BatchPlan, RefusedError
from esp.sink.order import BatchOrder
from esp.sink.rows import TARGET
from esp.sink.share import Share
from esp.sink.task import place_rows, write_rows
from esp.spark.batch_writer import Sent
from esp.spark.source import DefaultSource
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import MakeTopic
from tests.integration.sink_runs import (
    BUGS,
    FINISHED,
    KILLED,
    committed_offset,
    in_process,
    order_of,
    planner_of,
    rows_of_batch,
    run_batch,
    values_of_batches,
    writer_of,
)
from tests.integration.source_rows import Read, read_values
from tests.integration.topic_changes import add_partitions
from tests.integration.transactions import serve_transactions

COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def node_settings() -> dict[str, str]:
    return {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
    }


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """The node, which serves transactions."""
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    return node.bootstrap


def committed_values(bootstrap: str, topic: str) -> list[bytes | None]:
    return sorted(read_values(bootstrap, topic, **COMMITTED))


def test_rows_go_where_kafka_s_clients_send_their_keys_and_come_once(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    for batch in range(3):
        done = run_batch(order_of(bootstrap, topic, batch, 3, run="one"))
        assert set(done.values()) == {"written"}
        assert run_batch(order_of(bootstrap, topic, batch, 3, run="one")) == dict.fromkeys(done, "skipped")
        assert run_batch(order_of(bootstrap, topic, batch, 3)) == dict.fromkeys(done, "skipped")
    rows = Read(bootstrap, subscribe=topic, **COMMITTED).rows()
    assert sorted(row.value or b"" for row in rows) == values_of_batches(3)
    assert all(row.partition == partition_of_key(row.key or b"", 3) for row in rows)


def test_a_producer_writes_batch_after_batch_in_one_epoch(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    asked: list[str] = []
    writer = writer_of(bootstrap, topic, hook=lambda _event, api: asked.append(api.name))
    for batch in range(3):
        asked.clear()
        assert writer.write([rows_of_batch(batch)], Share(batch, 20, 5, 1)) is Action.WRITE
        assert ("InitProducerId" in asked) == (batch == 0)
    assert committed_values(bootstrap, topic) == values_of_batches(3)


def test_a_partition_without_rows_has_no_transaction(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "partition": pa.array([1, 1], pa.int32())})
    assert run_batch(order_of(bootstrap, topic, 0, 2), rows) == {1: "written"}
    assert committed_offset(bootstrap, topic, 0) is None
    assert committed_offset(bootstrap, topic, 1) == 1
    assert run_batch(order_of(bootstrap, topic, 1, 2), rows.slice(0, 0)) == {}


def kill_everywhere(bootstrap: str, topic: str, bug: str | None = None) -> tuple[int, list[bytes | None]]:
    """Write batches, each by a process that dies one event later than that of the batch before, and by one that lives.

    Returns:
        the number of the batches, and the committed values.
    """
    for batch in count():
        order = order_of(bootstrap, topic, batch, 1)
        status = in_process(order, batch, bug)
        assert status in (KILLED, FINISHED)
        assert in_process(order_of(bootstrap, topic, batch, 1), None, bug) == FINISHED
        if status == FINISHED:
            return batch + 1, committed_values(bootstrap, topic)
    raise AssertionError("a task has no end")


def test_a_task_that_dies_at_any_request_leaves_each_row_once(
    bootstrap: str, topic: str, make_topic: MakeTopic
) -> None:
    make_topic()
    batches, values = kill_everywhere(bootstrap, topic)
    assert values == values_of_batches(batches)
    assert batches > 14  # seven requests at least, each sent and answered
    assert committed_offset(bootstrap, topic, 0) == batches


def run_zombie(bootstrap: str, topic: str) -> list[bytes | None]:
    """Let a task stop just before it commits, another one write the batch, and the first one go on; return the committed values."""

    def overtake(event: str, api: Api) -> None:
        if (event, api.name) == ("answered", "TxnOffsetCommit") and not overtaken:
            overtaken.append(writer_of(bootstrap, topic, timeout_s=2.0).write([rows_of_batch(0)], share))

    overtaken: list[Action] = []
    share = Share(0, 20, 5, 1)
    done = writer_of(bootstrap, topic, hook=overtake).write([rows_of_batch(0)], share)
    assert overtaken == [Action.WRITE]
    if done is not Action.SKIP:
        return [*committed_values(bootstrap, topic), b"the zombie wrote"]
    return committed_values(bootstrap, topic)


def test_a_zombie_is_fenced_looks_again_and_skips(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    assert run_zombie(bootstrap, topic) == values_of_batches(1)


def test_two_drivers_at_once_write_each_row_once(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    batches = 10
    done: list[Action] = []

    def drive() -> None:
        writer = writer_of(bootstrap, topic)
        for batch in range(batches):
            with suppress(RefusedError):  # the other one is ahead: its rows are there
                done.append(writer.write([rows_of_batch(batch)], Share(batch, 20, 5, 1)))

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert committed_values(bootstrap, topic) == values_of_batches(batches)
    assert done.count(Action.WRITE) <= batches  # a commit whose answer was lost is found, and counts as skipped


_WRITE_REQUESTS = ("AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit")


def test_of_two_writers_whose_writes_take_longer_than_a_pause_both_end(
    bootstrap: str, topic: str, make_topic: MakeTopic
) -> None:
    """Each of them fences the other one in its write, until one waits for long enough. (Without that both fail.)"""
    make_topic()
    both = threading.Barrier(2)
    epochs: list[str] = []
    done: list[Action] = []

    def slow(event: str, api: Api) -> None:
        if (event, api.name) == ("answered", "InitProducerId"):
            epochs.append(api.name)
        elif event == "answered" and api.name in _WRITE_REQUESTS:
            time.sleep(0.15)  # as if the rows were many

    def drive() -> None:
        both.wait(30)
        done.append(
            writer_of(bootstrap, topic, hook=slow, timeout_s=30.0).write([rows_of_batch(0)], Share(0, 20, 5, 1))
        )

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(action.value for action in done) == ["skipped", "written"]
    assert len(epochs) <= 12
    assert committed_values(bootstrap, topic) == values_of_batches(1)


@pytest.mark.parametrize("bug", BUGS)
def test_a_sink_with_a_known_bug_is_noticed(bootstrap: str, topic: str, make_topic: MakeTopic, bug: str) -> None:
    """Each bug doubles rows where tasks die."""
    make_topic(topic)
    batches, values = kill_everywhere(bootstrap, topic, bug)
    assert values != values_of_batches(batches)


@pytest.mark.parametrize("asks_for_stable_offsets", [True, False])
def test_a_sink_that_does_not_fence_is_noticed(
    bootstrap: str, topic: str, make_topic: MakeTopic, asks_for_stable_offsets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task waits for the offset of the first one in vain; or, if it does not even wait, both write."""
    make_topic(topic)
    ids = (f"{topic}-{number}" for number in count())
    monkeypatch.setattr(partition_writer, "transactional_id_of", lambda *_: next(ids))
    if asks_for_stable_offsets:
        with pytest.raises(ConsumerError, match="a transaction of another task is open"):
            run_zombie(bootstrap, topic)
        return
    monkeypatch.setattr(group_messages, "encode_offset_fetch", unstable(group_messages.encode_offset_fetch))
    assert run_zombie(bootstrap, topic) != values_of_batches(1)


def unstable(encode: Callable[[str, Sequence[Partition]], bytes]) -> Callable[[str, Sequence[Partition]], bytes]:
    """The same question, which does not wait for transactions."""

    def encoded(group: str, partitions: Sequence[Partition]) -> bytes:
        body = encode(group, partitions)
        assert body[-2:] == b"\1\0"
        return body[:-2] + b"\0\0"

    return encoded


def test_offsets_are_asked_for_behind_open_transactions(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    held: list[Action] = []

    def look(event: str, api: Api) -> None:
        """While the first batch is open, have a task of an older epoch come with it."""
        if (event, api.name) == ("answered", "TxnOffsetCommit") and not held:
            held.append(old.write([rows_of_batch(1)], share))

    old = writer_of(bootstrap, topic)
    assert old.write([rows_of_batch(0)], Share(0, 20, 5, 1)) is Action.WRITE
    share = Share(1, 20, 5, 1)
    assert writer_of(bootstrap, topic, hook=look).write([rows_of_batch(1)], share) is Action.SKIP
    assert held == [Action.WRITE]
    assert committed_values(bootstrap, topic) == values_of_batches(2)


def test_an_offset_is_renewed_as_it_is(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    writer = writer_of(bootstrap, topic)
    writer.renew()
    assert committed_offset(bootstrap, topic, 0) is None
    share = Share(0, 20, 5, 1)
    writer.write([rows_of_batch(0)], share)
    writer.renew()
    assert writer.take_over() == share.to_committed()
    assert writer.write([rows_of_batch(0)], share) is Action.SKIP


def test_the_first_look_of_a_run_renews_offsets(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    """A job that is started every hour ends before the first of its daily renewals, and may have no rows for a week."""
    make_topic(partitions=3)
    asked: list[tuple[int, str]] = []
    share = Share(0, 20, 5, 1)
    for number in range(2):
        writer_of(bootstrap, topic, partition=number).write([rows_of_batch(0)], share._replace(rows=20 + number))
    for number in range(3):
        writer_of(bootstrap, topic, partition=number, hook=partial(note, asked, number)).take_over()
    assert [number for number, name in asked if name == "TxnOffsetCommit"] == [0, 1]
    assert [number for number, name in asked if name == "InitProducerId"] == [0, 1, 2]
    for number in range(2):
        found = writer_of(bootstrap, topic, partition=number).take_over()
        assert found == share._replace(rows=20 + number).to_committed()


def note(asked: list[tuple[int, str]], number: int, event: str, api: Api) -> None:
    """Keep the name of a request of a writer."""
    if event == "sent":
        asked.append((number, api.name))


def test_a_sink_of_which_no_batch_had_rows_goes_on_after_a_restart(
    bootstrap: str, admin: KafkaAdminClient, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(partitions=2)
    first = planner_of(bootstrap, topic)
    for batch in range(5):
        first.plan(batch)
        first.note_done(has_rows=False)
    assert planner_of(bootstrap, topic).plan(5) == BatchPlan(2, {})
    add_partitions(admin, topic, 3)
    assert planner_of(bootstrap, topic).plan(5) == BatchPlan(3, {})
    admin.delete_group_offsets("esp-sink.s", [TopicPartition(topic, 2)])  # as if it had expired
    with pytest.raises(RefusedError, match=f"sink s has no offsets of topic {topic}, and the query is at batch 5: "):
        planner_of(bootstrap, topic).plan(5)


def test_rows_of_a_batch_that_differ_are_refused(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    run_batch(order_of(bootstrap, topic, 0, 1))
    with pytest.raises(RefusedError, match="batch 0 is not repeatable: partition 0 had 20 rows, now 19: "):
        run_batch(order_of(bootstrap, topic, 0, 1), rows_of_batch(0).slice(1))
    run_batch(order_of(bootstrap, topic, 1, 1))
    with pytest.raises(
        RefusedError, match=r"sink s has written batch 1 to partition 0 of topic .*, and the query is at batch 0: "
    ):
        run_batch(order_of(bootstrap, topic, 0, 1))
    assert committed_values(bootstrap, topic) == values_of_batches(2)


def test_a_topic_that_grew_is_used_in_full_from_the_next_batch_on(
    bootstrap: str, admin: KafkaAdminClient, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(partitions=2)
    planner = planner_of(bootstrap, topic)
    assert planner.plan(0) == BatchPlan(2, {})
    run_batch(order_of(bootstrap, topic, 0, 2))
    add_partitions(admin, topic, 5)
    for each in (planner, planner_of(bootstrap, topic)):
        assert each.plan(0).partitions == 2  # the batch comes again
    assert planner.plan(1).partitions == 5
    assert len(run_batch(order_of(bootstrap, topic, 1, 5))) > 2
    assert committed_values(bootstrap, topic) == values_of_batches(2)


@pytest.fixture(params=[True, False], ids=["as it is", "with a bug"])
def has_divisions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Without divisions that all drivers agree upon rows are written twice, which the tests must notice."""
    if not request.param:
        monkeypatch.setattr(batch_planning, "is_divided", lambda *_: True)
    return request.param


def run_task(order: BatchOrder, partitions: set[int]) -> None:
    """Do the work of the one of several tasks that writes these partitions."""
    [placed] = place_rows([rows_of_batch(order.batch)], order)
    wanted = pc.is_in(placed.column(TARGET), pa.array(sorted(partitions), pa.int32()))
    assert [result.num_rows for result in write_rows([placed.filter(wanted)], order)] != [0]


def test_of_two_drivers_that_see_a_topic_before_and_after_it_grew_one_is_refused(
    bootstrap: str, admin: KafkaAdminClient, topic: str, make_topic: MakeTopic, has_divisions: bool
) -> None:
    make_topic(partitions=3)
    first, second = (planner_of(bootstrap, topic) for _ in range(2))
    order = order_of(bootstrap, topic, 0, first.plan(0).partitions)
    add_partitions(admin, topic, 5)
    assert second.plan(0) == BatchPlan(5, {})
    if not has_divisions:
        run_batch(order)
        run_task(order_of(bootstrap, topic, 0, 5), {3, 4})
        assert committed_values(bootstrap, topic) != values_of_batches(1)
        return
    with pytest.raises(
        RefusedError, match=r"batch 0 is divided among 5 partitions .* another driver, and among 3 here: "
    ):
        run_batch(order)
    for planner in (first, second):
        assert planner.plan(0).partitions == 5
    run_batch(order_of(bootstrap, topic, 0, 5))
    assert committed_values(bootstrap, topic) == values_of_batches(1)


def test_a_batch_of_which_a_share_is_written_stays_divided_though_the_topic_grew(
    bootstrap: str, admin: KafkaAdminClient, topic: str, make_topic: MakeTopic
) -> None:
    """The other driver has said that it divides among more, in partitions that are not written, before it finds the share."""
    make_topic(partitions=3)
    first, second = (planner_of(bootstrap, topic) for _ in range(2))
    order = order_of(bootstrap, topic, 0, first.plan(0).partitions)
    add_partitions(admin, topic, 5)
    for number in (0, 3, 4):
        writer_of(bootstrap, topic, partition=number).divide(0, 5, is_proven=False)
    run_task(order, {2})
    for planner in (second, first):
        plan = planner.plan(0)
        assert plan.partitions == 3
        assert list(plan.done) == [2]
    run_batch(order)
    assert second.plan(1).partitions == 5
    assert committed_values(bootstrap, topic) == values_of_batches(1)


def test_two_drivers_write_each_row_once_while_the_topic_grows(
    bootstrap: str, admin: KafkaAdminClient, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(partitions=1)
    batches = 12
    begun = [threading.Event() for _ in range(batches)]
    failures: list[Exception] = []

    def drive() -> None:
        planner = planner_of(bootstrap, topic)
        for batch in range(batches):
            begun[batch].set()
            while True:
                try:
                    partitions = planner.plan(batch).partitions
                    run_batch(order_of(bootstrap, topic, batch, partitions))
                except RefusedError as error:
                    if "by another driver" in str(error):
                        continue  # as a query that is started again
                    if f"has written batch {batch} " in str(error):
                        failures.append(error)
                except Exception as error:
                    failures.append(error)
                break  # done, or the other one is ahead

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number, batch in enumerate(range(1, batches, 3)):
        begun[batch].wait(60)
        add_partitions(admin, topic, 2 + number)
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert committed_values(bootstrap, topic) == values_of_batches(batches)


def test_large_rows_are_sent_in_batches_that_the_topic_takes(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic(max_message_bytes=20_000)
    rows = pa.RecordBatch.from_pydict({"value": [bytes(3_000)] * 100})
    assert run_batch(order_of(bootstrap, topic, 0, 1), rows) == {0: "written"}
    assert committed_values(bootstrap, topic) == [bytes(3_000)] * 100


def test_a_record_that_no_batch_can_hold_is_told_with_its_size(
    bootstrap: str, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(max_message_bytes=20_000)
    rows = pa.RecordBatch.from_pydict({"value": [b"a", bytes(30_000)]})
    with pytest.raises(
        ConsumerError,
        match=rf"partition 0 of topic {topic}: a record makes a batch of 30,0\d\d bytes, and the topic takes no such one: raise its "
        "max.message.bytes",
    ):
        run_batch(order_of(bootstrap, topic, 0, 1), rows)
    assert committed_values(bootstrap, topic) == []
    assert run_batch(order_of(bootstrap, topic, 0, 1)) == {0: "written"}  # nothing is left open


def test_a_producer_that_goes_on_after_a_refused_row_writes_all_rows(
    bootstrap: str, topic: str, make_topic: MakeTopic
) -> None:
    """The batch before the refused row stands aborted in the log: the leader would take rows with its sequences for the same."""
    make_topic(max_message_bytes=20_000)
    writer = writer_of(bootstrap, topic)
    large = pa.RecordBatch.from_pydict(
        {"key": pa.array([b"k"], pa.binary()), "value": pa.array([bytes(30_000)], pa.binary())}
    )
    with pytest.raises(ConsumerError, match="a record makes a batch of"):
        writer.write([rows_of_batch(0), large], Share(0, 21, 5, 1))
    assert writer.write([rows_of_batch(0)], Share(0, 20, 5, 1)) is Action.WRITE
    assert committed_values(bootstrap, topic) == values_of_batches(1)


def test_a_compacted_topic_refuses_rows_without_a_key(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic(cleanup_policy="compact")
    rows = pa.RecordBatch.from_pydict({"value": [b"a"]})
    with pytest.raises(ConsumerError, match="if the topic is compacted, give each row a key"):
        run_batch(order_of(bootstrap, topic, 0, 1), rows)


@pytest.mark.parametrize(
    ("sink", "resource", "operation", "words"),
    [
        (
            "no-id",
            ("--transactional-id", "esp-sink.no-id.", "--resource-pattern-type", "prefixed"),
            "Write",
            r"transactional id esp-sink.no-id\..*\.0: this user may not use it \(TRANSACTIONAL_ID_AUTHORIZATION_FAILED\): grant WRITE and",
        ),
        (
            "no-group",
            ("--group", "esp-sink.no-group"),
            "Read",
            r"group esp-sink.no-group.*: this user may not use it \(GROUP_AUTHORIZATION_FAILED\): grant READ on the group",
        ),
    ],
)
def test_a_right_that_is_missing_is_named(
    bootstrap: str, topic: str, make_topic: MakeTopic, sink: str, resource: tuple[str, ...], operation: str, words: str
) -> None:
    make_topic()
    rule = ("--add", "--deny-principal", "User:ANONYMOUS", "--operation", operation, *resource)
    assert run_tools(("acls", "--bootstrap-server", bootstrap, *rule)) == 0
    with pytest.raises(ConsumerError, match=words):
        run_batch(order_of(bootstrap, topic, 0, 1, sink=sink))
    assert committed_values(bootstrap, topic) == []


def test_offsets_of_another_program_are_not_a_sink_s(bootstrap: str, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.alter_group_offsets("esp-sink.foreign", {TopicPartition(topic, 0): OffsetAndMetadata(7, "mine", -1)})
    finally:
        admin.close()
    with pytest.raises(
        RefusedError, match=r"group esp-sink.foreign has offset 7 of partition 0 of topic .*, which no sink committed"
    ):
        run_batch(order_of(bootstrap, topic, 0, 1, sink="foreign"))


# At least once ------------------------------------------------------------------------------------------------------------------


def writer_by_esp(bootstrap: str, schema: StructType, **options: str) -> DataSourceWriter:
    source = DefaultSource({"kafka.bootstrap.servers": bootstrap, **options})
    return pickle.loads(pickle.dumps(source.writer(schema, False)))


KEY_AND_VALUE = StructType([StructField("key", StringType()), StructField("value", StringType())])


def test_rows_of_a_batch_are_sent_by_the_tasks_that_have_them(
    bootstrap: str, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(partitions=3)
    writer = writer_by_esp(bootstrap, KEY_AND_VALUE, topic=topic)
    rows = pa.RecordBatch.from_pydict({"key": ["a", "b", None], "value": ["1", "2", "3"]})
    for _ in range(2):
        assert writer.write(iter([rows, rows])) == Sent(6)  # a task that is tried again
    found = Read(bootstrap, subscribe=topic).rows()
    assert sorted(row.value or b"" for row in found) == [b"1"] * 4 + [b"2"] * 4 + [b"3"] * 4
    assert all(row.partition == partition_of_key(row.key, 3) for row in found if row.key is not None)


@pytest.mark.parametrize(
    ("options", "overwrite", "words"),
    [
        ({}, False, "option topic: it says where rows are written: name a topic"),
        (
            {"topic": "t", "transaction": "load"},
            False,
            "option transaction=load: Spark lets .* use esp.spark.write_once",
        ),
        (
            {"topic": "t", "subscribe": "t"},
            False,
            "option subscribe=t: a write by esp does not know it: remove it. It knows topic, ",
        ),
        ({"topic": "t"}, True, 'option mode=overwrite: a topic is not overwritten: write .mode\\("append"\\)'),
        ({"topic": "t", "kafka.acks": "1"}, False, "option kafka.acks=1: it has no effect on writes by esp"),
        ({"topic": "t", "kafka.batch.size": "x"}, False, "option kafka.batch.size=x: write a whole number, 1 or more"),
        ({"topic": "t", "kafka.compression.type": "rar"}, False, "option kafka.compression.type=rar: write none, gzip"),
    ],
)
def test_bad_options_of_a_write_are_refused(
    bootstrap: str, options: dict[str, str], overwrite: bool, words: str
) -> None:
    source = DefaultSource({"kafka.bootstrap.servers": bootstrap, **options})
    with pytest.raises(OptionError, match=words) as caught:
        source.writer(KEY_AND_VALUE, overwrite)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("key string", "option columns=key: there is no column value"),
        ("value int", "option columns=value: column value has type int: make it binary or string, by cast or to_json"),
        ("value string, topic string", "option columns=topic: a record has no column topic: select some of key, value"),
        ("value string, partition string", "option columns=partition: column partition has type string: make it int"),
    ],
)
def test_columns_that_no_record_has_are_refused(bootstrap: str, schema: str, words: str) -> None:
    names = {"string": StringType(), "int": IntegerType()}
    fields = [StructField(field.split()[0], names[field.split()[1]]) for field in schema.split(", ")]
    with pytest.raises(OptionError, match=words):
        DefaultSource({"kafka.bootstrap.servers": bootstrap, "topic": "t"}).writer(StructType(fields), False)


def test_a_topic_that_is_missing_is_named(bootstrap: str) -> None:
    with pytest.raises(ConsumerError, match=r"option topic=nowhere: it does not exist .*: create the topic"):
        DefaultSource({"kafka.bootstrap.servers": bootstrap, "topic": "nowhere"}).writer(KEY_AND_VALUE, False)


def test_a_stream_is_not_written_by_the_format(bootstrap: str) -> None:
    with pytest.raises(OptionError, match=r"option format=esp: it does not write streams: use esp.spark.exactly_once"):
        DefaultSource({"kafka.bootstrap.servers": bootstrap}).streamWriter(KEY_AND_VALUE, False)
