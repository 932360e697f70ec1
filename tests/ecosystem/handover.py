"""A directory that changes hands between ESP and Kafka, turn about, while clients of four families copy a topic in transactions.

The node is killed (-9) each time, with transactions open and, as it happens, decided ones whose markers are on their way, and the other
product goes on with the directory behind the same port. A history checker compares the copies with what was sent.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from esp.protocol.registry import ApiKey
from esp.records.batch import iterate_records
from esp.records.batch_header import HEADER_SIZE, read_header
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka
from tests.conformance.comparer.target import Target
from tests.ecosystem.copiers import CopiedTopic
from tests.ecosystem.stage import Outcome, Stage
from tests.ecosystem.waiting import wait_for

_LOGGER: Final = logging.getLogger(__name__)

HANDOVERS: Final = 6
COPIES_EACH: Final = 400
COPIES_TIMEOUT_S: Final = 180
READY_TIMEOUT_S: Final = 60
_STATES: Final = "__transaction_state-*"
_PREPARED: Final = {TransactionStatus.PREPARE_COMMIT: True, TransactionStatus.PREPARE_ABORT: False}
_COMPLETE: Final = ("CompleteCommit", "CompleteAbort")


def run(stage: Stage) -> Iterator[Outcome]:
    """Hand the directory over some times, and judge the copies; the last owner is ESP, whose files are judged then."""
    if stage.product == "kafka" or len(stage.cluster.nodes) > 1:
        _LOGGER.info("skipped: the directory is one of a single node of ESP")
        return
    [(number, ours)] = stage.cluster.nodes.items()
    theirs = RealKafka(ours.data_dir, ours.settings, ours.port, tools=stage.broker_tools)
    found: Counter[str] = Counter()
    with CopiedTopic(stage, "handover") as copied:
        try:
            for turn in range(HANDOVERS):
                copied.wait_for_more(COPIES_EACH, COPIES_TIMEOUT_S)
                giver, taker = (ours, theirs) if turn % 2 == 0 else (theirs, ours)
                giver.kill()
                copied.stop_copiers()
                states = read_states(giver.log_dirs)
                found.update(value.status.kafka_name for value in states.values())
                taker.start()
                stage.cluster.nodes[number] = taker
                if taker is theirs:
                    _write_missing_markers(taker, states)
            copied.finish()
        finally:
            stage.cluster.nodes[number] = ours
            if theirs.is_running:
                theirs.kill()
        open_ones = found["Ongoing"] + found["PrepareCommit"] + found["PrepareAbort"]
        _LOGGER.info("states at the handovers: %s", dict(found))
        violations = copied.judge()
        if not open_ones:
            violations.append("no transaction was open at any handover")
        yield Outcome("handover: ESP and Kafka in turn", HANDOVERS, len(copied.copies), violations)


class Missing(NamedTuple):
    """A marker that a partition waits for although the coordinator calls the transaction complete."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


def read_states(log_dirs: Iterable[Path]) -> dict[str, TransactionValue]:
    """Return the last state of each transactional id in the logs of a stopped node."""
    states: dict[str, TransactionValue] = {}
    for path in sorted(path for directory in log_dirs for path in directory.glob(f"{_STATES}/*") if _is_segment(path)):
        data = memoryview(path.read_bytes())
        while len(data) >= HEADER_SIZE and (size := read_header(data).size) <= len(data):
            for record in iterate_records(data[:size]):
                known = decode_transaction_record(record.key, record.value)
                if known is not None and known.value is not None:
                    states[known.transactional_id] = known.value
            data = data[size:]
    return states


def _is_segment(path: Path) -> bool:
    """True for a compacted segment too that was to take the place of others when the node was killed: these may be gone already."""
    return path.name.endswith((".log", ".log.swap"))


def _write_missing_markers(kafka: NodeProcess, states: Mapping[str, TransactionValue]) -> None:
    """Write the markers that Kafka's coordinator has left out.

    A coordinator that has loaded its log before it knows of a partition takes that for deleted, and completes the transaction without it
    (TRANSACTIONS section 6 of the design, weakness 6): that is no fault of the directory.
    """
    target = Target("kafka", kafka, 0)
    try:
        for transactional_id, value in states.items():
            if value.status not in _PREPARED:
                continue
            wait_for(
                lambda name=transactional_id: _state(target, name) in _COMPLETE,  # type: ignore[misc]
                READY_TIMEOUT_S,
                f"{transactional_id} is complete",
            )
            for marker in _missing(target, value):
                _LOGGER.info("%s: Kafka left out %s", transactional_id, marker)
                wait_for(lambda marker=marker: _is_written(target, marker), READY_TIMEOUT_S, "a marker")  # type: ignore[misc]
    finally:
        target.close()


def _state(target: Target, transactional_id: str) -> str:
    answer = target.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [transactional_id]})
    return str(answer["transaction_states"][0]["transaction_state"]) if isinstance(answer, dict) else ""


def _missing(target: Target, value: TransactionValue) -> Iterator[Missing]:
    for topic, partitions in value.partitions or ():
        asked = {"topics": [{"name": topic, "partition_indexes": list(partitions)}]}
        answers: list[Any] = []

        def is_answered(asked: Mapping[str, Any] = asked, answers: list[Any] = answers) -> bool:
            answer = target.ask(ApiKey.DESCRIBE_PRODUCERS, 0, asked)
            answers[:] = answer["topics"][0]["partitions"] if isinstance(answer, dict) else []
            return bool(answers) and all(one["error_code"] == "none" for one in answers)

        wait_for(is_answered, READY_TIMEOUT_S, f"the producers of {topic}")
        for partition in answers:
            for producer in partition["active_producers"]:
                if producer["producer_id"] == value.producer_id and producer["current_txn_start_offset"] >= 0:
                    yield Missing(
                        topic,
                        partition["partition_index"],
                        value.producer_id,
                        producer["producer_epoch"],
                        max(0, producer["coordinator_epoch"]),
                        _PREPARED[value.status],
                    )


def _is_written(target: Target, marker: Missing) -> bool:
    """Write a marker in the coordinator's place."""
    content = {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "transaction_result": marker.is_commit,
        "topics": [{"name": marker.topic, "partition_indexes": [marker.partition]}],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": 0,
    }
    return "'none'" in str(target.ask(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [content]}))
