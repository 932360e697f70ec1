"""A directory changes hands while transactions are open, or decided and not completed: the product that takes it over ends them."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.schemas.transaction_record_codec import FLEXIBLE_VERSION, encode_transaction_key, encode_transaction_value
from esp.schemas.transaction_records import PartitionsOfTopic, TransactionStatus, TransactionValue
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import TIMEOUT_MS, Application, until
from tests.integration.dump_log import check_files, dump
from tests.integration.dump_log import dump_here as ours
from tests.integration.offline_records import append_offline
from tests.integration.transactions import read_all, write_by_librdkafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC: Final = "t"
STATES: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
OFFSET: Final = 7
SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "transaction.max.timeout.ms": str(TIMEOUT_MS),
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
FEATURES: Final = {"transaction.version": 2}
UNSERVED: Final = {"streams.version": 0}
"""Features that new clusters of Kafka have, and ESP has not."""
OPEN: Final = {"open": False, "open (implicit)": True, "fenced": False, "fenced (implicit)": True}
COMMITTING: Final = {"commits": False, "commits (implicit)": True}
ABORTING: Final = {"aborts": False, "aborts (implicit)": True}
"""Transactional ids, and whether their clients leave it to brokers to add partitions (transaction version 2)."""

_KEY = ApiKey


def products(data_dir: Path, tools: KafkaTools) -> dict[str, NodeProcess]:
    """A node of each product on one directory, behind one port."""
    controller = f"{HOST}:{free_port()}"
    settings = {**SETTINGS, "controller.quorum.bootstrap.servers": controller}
    node = Node(data_dir, settings)
    node.settings["listeners"] = f"PLAINTEXT://{node.bootstrap},CONTROLLER://{controller}"
    return {"esp": node, "kafka": RealKafka(data_dir, node.settings, node.port, tools=tools, heap="400m")}


def is_ok(answer: object) -> bool:
    """True if a part of the answer says that there is no error."""
    return "'none'" in str(answer)


def begin(target: Target) -> None:
    """Create the topics."""
    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    target.ask(_KEY.CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30_000})
    for kind in (0, 1):
        until(lambda kind=kind: is_ok(target.ask(_KEY.FIND_COORDINATOR, 1, {"key": "x", "key_type": kind})))  # type: ignore[misc]
    first = Application(target, "first")
    until(lambda: first.init()["error_code"] == "none")


def write(application: Application, *, is_implicit: bool) -> None:
    """Begin a transaction with a record, and an offset of a group; record and group have the application's name."""
    target = application.target
    application.begin(1)
    producer: dict[str, Any] = {
        "transactional_id": application.id,
        "group_id": application.id,
        "producer_id": application.producer_id,
        "producer_epoch": application.epoch,
    }
    if not is_implicit:
        assert is_ok(application.add(TOPIC))
        until(lambda: is_ok(target.ask(_KEY.ADD_OFFSETS_TO_TXN, 3, producer)))
    batch = build_batch(
        [NewRecord(application.id.encode())],
        timestamp_ms=time.time_ns() // 1_000_000,
        producer_id=application.producer_id,
        producer_epoch=application.epoch,
        base_sequence=0,
        transactional=True,
    )
    until(lambda: is_ok(application.write(12 if is_implicit else 9, batch, topic=TOPIC)))
    offset = {"partition_index": 0, "committed_offset": OFFSET, "committed_leader_epoch": -1}
    commit = {**producer, "generation_id": -1, "topics": [{"name": TOPIC, "partitions": [offset]}]}
    until(lambda: is_ok(target.ask(_KEY.TXN_OFFSET_COMMIT, 5 if is_implicit else 3, commit)))


def decided(application: Application, status: TransactionStatus, *, is_implicit: bool) -> NewRecord:
    """The decision about the application's transaction, as its coordinator writes it before it sends markers."""
    now_ms = time.time_ns() // 1_000_000
    value = TransactionValue(
        producer_id=application.producer_id,
        producer_epoch=application.epoch + is_implicit,
        timeout_ms=TIMEOUT_MS,
        status=status,
        partitions=(PartitionsOfTopic(TOPIC, (0,)), PartitionsOfTopic(OFFSETS, (0,))),
        last_update_ms=now_ms,
        start_ms=now_ms,
        previous_producer_id=application.producer_id,
        client_version=2 if is_implicit else 0,
    )
    return NewRecord(encode_transaction_value(value, FLEXIBLE_VERSION), encode_transaction_key(application.id))


def state_of(target: Target, transactional_id: str) -> str:
    """The coordinator's word, or its error."""
    state = Application(target, transactional_id).described()
    return str(state["transaction_state"] or state["error_code"])


def markers_left_out(target: Target, decisions: Mapping[int, bool]) -> list[tuple[str, dict[str, Any]]]:
    """The markers that partitions still wait for though the coordinator calls their transactions complete, by topic.

    Args:
        target: the broker.
        decisions: the producer ids of decided transactions, and whether they commit.
    """
    found = []
    for topic in (TOPIC, OFFSETS):
        asked = {"topics": [{"name": topic, "partition_indexes": [0]}]}
        until(lambda asked=asked: is_ok(target.ask(_KEY.DESCRIBE_PRODUCERS, 0, asked)))  # type: ignore[misc]
        (partition,) = target.ask(_KEY.DESCRIBE_PRODUCERS, 0, asked)["topics"][0]["partitions"]
        for producer in partition["active_producers"]:
            number = producer["producer_id"]
            if number in decisions and producer["current_txn_start_offset"] >= 0:
                found.append(
                    (
                        topic,
                        {
                            "producer_id": number,
                            "producer_epoch": producer["producer_epoch"],
                            "transaction_result": decisions[number],
                        },
                    )
                )
    return found


def write_marker(target: Target, topic: str, marker: Mapping[str, Any]) -> None:
    """Write a marker in the coordinator's place."""
    topics = [{"name": topic, "partition_indexes": [0]}]
    content = {"markers": [{**marker, "topics": topics, "coordinator_epoch": 0, "transaction_version": 0}]}
    until(lambda: is_ok(target.ask(_KEY.WRITE_TXN_MARKERS, 1, content)))


def offset_of(target: Target, group: str) -> Any:
    """The group's offset, for a reader that waits for the end of transactions."""
    asked = {"group_id": group, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
    answer = target.ask(_KEY.OFFSET_FETCH, 8, {"groups": [asked], "require_stable": True})
    (found,) = answer["groups"][0]["topics"][0]["partitions"]
    return found["committed_offset"] if found["error_code"] == "none" else found["error_code"]


def check_ended(node: NodeProcess, target: Target) -> None:
    """Readers see what is committed, and nothing is left open."""
    committed = ["open", "open (implicit)", *COMMITTING]
    assert sorted(read_all(node.bootstrap, TOPIC, len(committed), partitions=1)) == sorted(map(str.encode, committed))
    assert {name: offset_of(target, name) for name in (*OPEN, *COMMITTING, *ABORTING)} == {
        name: OFFSET if name in committed else -1 for name in (*OPEN, *COMMITTING, *ABORTING)
    }


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(("maker", "taker"), [("esp", "kafka"), ("kafka", "esp")])
def test_transactions_are_ended_by_the_product_that_takes_over(
    kafka_tools: KafkaTools, tmp_path: Path, maker: str, taker: str, is_killed: bool
) -> None:
    nodes = products(tmp_path / "data", kafka_tools)
    first, second = nodes[maker], nodes[taker]
    levels = FEATURES if maker == "esp" else {**FEATURES, **UNSERVED}
    first.format(CLUSTER_ID, "--standalone", *(f"--feature={name}={level}" for name, level in levels.items()))
    with first:
        target = Target(maker, first, 0)
        begin(target)
        applications = {name: Application(target, name) for name in (*OPEN, *COMMITTING, *ABORTING)}
        for name, is_implicit in {**OPEN, **COMMITTING, **ABORTING}.items():
            write(applications[name], is_implicit=is_implicit)
        target.close()
        if is_killed:
            first.kill()
    decisions = [
        decided(applications[name], status, is_implicit=is_implicit)
        for status, names in (
            (TransactionStatus.PREPARE_COMMIT, COMMITTING),
            (TransactionStatus.PREPARE_ABORT, ABORTING),
        )
        for name, is_implicit in names.items()
    ]
    append_offline(tmp_path / "data" / f"{STATES}-0", decisions, time.time_ns() // 1_000_000)

    with second:
        target = Target(taker, second, 0)
        for names, state in ((COMMITTING, "CompleteCommit"), (ABORTING, "CompleteAbort"), (OPEN, "Ongoing")):
            for name in names:
                until(lambda name=name, state=state: state_of(target, name) == state)  # type: ignore[misc]
        numbers = {applications[name].producer_id: name in COMMITTING for name in (*COMMITTING, *ABORTING)}
        left_out = markers_left_out(target, numbers)
        # A coordinator of Kafka that has loaded its log before it knows of a partition takes that for deleted.
        assert taker == "kafka" or not left_out
        for topic, marker in left_out:
            write_marker(target, topic, marker)
        for name, is_implicit in OPEN.items():
            application = Application(target, name)
            before = applications[name]
            application.learn(before.producer_id, before.epoch)
            if name.startswith("fenced"):
                application.begin(1)
            else:
                assert application.end(commit=True, version=5 if is_implicit else 3)["error_code"] == "none"
            application.settled()
        check_ended(second, target)
        target.close()
    states = sorted((tmp_path / "data" / f"{STATES}-0").glob("*.log"))
    options = ["--transaction-log-decoder"]
    assert ours(states, *options).splitlines() == dump(kafka_tools, states, *options).splitlines()
    check_files(kafka_tools, second.log_dirs)

    with first:
        target = Target(maker, first, 0)
        until(lambda: state_of(target, "commits") == "CompleteCommit")
        check_ended(first, target)
        write_by_librdkafka(first.bootstrap, "aborts", "next", [(True, [b"1"]), (False, [b"2"])])
        assert read_all(first.bootstrap, "next", 1, partitions=1) == [b"1"]
        target.close()
