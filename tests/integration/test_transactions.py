"""Transactions of every family of clients on one node: all of a transaction or nothing of it, and one owner of a transactional id."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import eventually
from tests.integration.transactions import (
    TIMEOUT_S,
    WRITERS,
    ExactlyOnce,
    consumer_of,
    read_all,
    serve_transactions,
    transactional_producer,
)

SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
}
STEPS = [
    (True, [b"a0", b"a1", b"a2"]),
    (False, [b"b0", b"b1"]),
    (True, [b"c0"]),
    (False, [b"d0", b"d1", b"d2"]),
    (True, [b"e0", b"e1"]),
]
COMMITTED = sorted(value for commit, values in STEPS for value in values if commit)
WRITTEN = sorted(value for _, values in STEPS for value in values)


@pytest.fixture(scope="module", params=[2, 1], ids=["level-2", "level-1"])
def transactional_node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeProcess]:
    """A node of each level of transactions that is served."""
    node = Node(tmp_path_factory.mktemp("transactions") / "data", SETTINGS).start()
    try:
        serve_transactions(node.bootstrap, [node], request.param)
        yield node
        node.stop()
    finally:
        if node.is_running:
            node.kill()


@pytest.mark.parametrize("client", WRITERS)
def test_readers_of_committed_records_see_whole_transactions(
    transactional_node: NodeProcess, client: str, topic: str
) -> None:
    bootstrap = transactional_node.bootstrap
    WRITERS[client](bootstrap, f"{client} {topic}", topic, STEPS)
    assert sorted(read_all(bootstrap, topic, len(COMMITTED))) == COMMITTED
    assert sorted(read_all(bootstrap, topic, len(WRITTEN), committed=False)) == WRITTEN


@pytest.mark.parametrize("client", WRITERS)
def test_the_next_producer_of_an_id_goes_on_where_the_last_one_ended(
    transactional_node: NodeProcess, client: str, topic: str
) -> None:
    bootstrap = transactional_node.bootstrap
    for round_number in range(3):
        WRITERS[client](bootstrap, topic, topic, [(True, [b"%d" % round_number])])
    assert sorted(read_all(bootstrap, topic, 3)) == [b"0", b"1", b"2"]


def test_an_older_producer_of_an_id_is_fenced_and_its_transaction_aborted(
    transactional_node: NodeProcess, topic: str
) -> None:
    bootstrap = transactional_node.bootstrap
    old = transactional_producer(bootstrap, topic)
    old.begin_transaction()
    old.produce(topic, b"old", partition=0)
    old.flush(TIMEOUT_S)
    new = transactional_producer(bootstrap, topic)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    new.begin_transaction()
    new.produce(topic, b"new", partition=0)
    new.commit_transaction(TIMEOUT_S)
    assert read_all(bootstrap, topic, 1) == [b"new"]


def test_a_program_transforms_every_value_exactly_once(transactional_node: NodeProcess, topic: str) -> None:
    bootstrap = transactional_node.bootstrap
    source, target = f"{topic}-in", f"{topic}-out"
    values = [b"%03d" % number for number in range(90)]
    WRITERS["librdkafka"](bootstrap, f"{topic} feeder", source, [(True, values)])
    program = ExactlyOnce(bootstrap, topic, source, target)
    done = rounds = 0
    while done < len(values):
        rounds += 1
        assert rounds < 200
        done += program.step(abort=rounds % 3 == 0)
    program.close()
    assert sorted(read_all(bootstrap, target, len(values))) == [b"<" + value + b">" for value in values]
    assert (program.aborted, program.begun_anew) == (0, 0)


def test_offsets_of_a_transaction_show_when_it_commits(transactional_node: NodeProcess, topic: str) -> None:
    bootstrap = transactional_node.bootstrap
    WRITERS["librdkafka"](bootstrap, f"{topic} feeder", topic, [(True, [b"x"] * 8)])
    consumer = consumer_of(bootstrap, topic)
    producer = transactional_producer(bootstrap, f"{topic} offsets")
    consumer.subscribe([topic])
    assert len(consumer.consume(8, TIMEOUT_S)) == 8
    positions = consumer.position(consumer.assignment())
    for commit in (False, True):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
        if not commit:
            producer.abort_transaction(TIMEOUT_S)
            assert {each.offset for each in consumer.committed(positions, TIMEOUT_S)} == {-1001}
        else:
            producer.commit_transaction(TIMEOUT_S)
            eventually(
                lambda: (
                    [each.offset for each in consumer.committed(positions, TIMEOUT_S)]
                    == [each.offset for each in positions]
                )
            )
    consumer.close()


@pytest.mark.kafka
def test_kafkas_producer_commits_transaction_after_transaction(
    kafka_tools: KafkaTools, transactional_node: NodeProcess, topic: str
) -> None:
    bootstrap = transactional_node.bootstrap
    done = kafka_tools.run(
        "producer-perf-test",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "2000", "--record-size", "20"),
        *("--throughput", "2000", "--transactional-id", topic, "--transaction-duration-ms", "50"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2000 records sent" in done.stdout
    assert "WARN" not in done.stderr, done.stderr
    assert len(read_all(bootstrap, topic, 2000)) == 2000


def test_transactions_outlive_the_node(fresh_node: NodeFactory, topic: str) -> None:
    node = fresh_node(SETTINGS)
    serve_transactions(node.bootstrap, [node])
    producer = transactional_producer(node.bootstrap, topic)
    for commit, killed in ((True, True), (False, True), (True, False)):
        producer.begin_transaction()
        producer.produce(topic, b"before", partition=0)
        producer.flush(TIMEOUT_S)
        if killed:
            node.kill()
            node.start()
        producer.produce(topic, b"after", partition=1)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    assert sorted(read_all(node.bootstrap, topic, 4)) == [b"after", b"after", b"before", b"before"]
