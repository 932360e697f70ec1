"""``python -m benchmarks.groups.holds``: what retention holds and floors cost produce and fetch, beside topics without either.

One node of ours has four topics of one partition: two with the default settings, whose ratio shows how exact the measurement is; one whose
retention waits for a group that has committed; and one that was deleted and created again, and goes on at the old end. In each round the
topics in turn are written to, with acks=all, and read, a batch in a request. The figure is the CPU time of the node's process over all
rounds, and its ratio to that of the first topic. The kernel counts in steps of 10 ms, so each topic needs some seconds.
"""

import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.fetch.v12 import request as fetch
from kio.schema.offset_commit.v9 import request as offset_commit
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i16, i32, i64

from benchmarks.brokers import SHARED_SETTINGS
from benchmarks.client import (
    CREATE_TOPICS_VERSION,
    LIST_OFFSETS_VERSION,
    Client,
    check,
    delete_topic,
    list_offsets_request,
    wait_until_served,
)
from benchmarks.command import new_console
from benchmarks.consume_load import FETCH_VERSION, MAX_WAIT
from benchmarks.cost import CostMeter
from benchmarks.filling import fill
from benchmarks.groups.coordinator import await_coordinator
from benchmarks.stage import settle
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.testing.node import Node

LIMIT: Final = 1.02
"""The highest ratio with which the measurement passes."""

BATCHES: Final = 10_000
"""The batches of a topic in a round."""

_BATCH_RECORDS: Final = 144
_VALUE_SIZE: Final = 100
_ROUNDS: Final = 9
_FETCH_BYTES: Final = 16 << 10
_BUFFER_SIZE: Final = 4 << 20
_COMMIT_VERSION: Final = 9
_NO_SESSION: Final = -1
_GROUP: Final = "reader"

PLAIN: Final = "plain"
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    PLAIN: {},
    "plain again": {},
    "held": {"retention.hold.groups": _GROUP},
    "created again": {"topic.recreate.offsets": "continue"},
}
"""The topics, with their settings."""


def _name(topic: str) -> str:
    return topic.replace(" ", "-")


def _create(node: Node, topic: str) -> None:
    configs = tuple(create_topics.CreatableTopicConfig(name=name, value=value) for name, value in TOPICS[topic].items())
    wanted = create_topics.CreatableTopic(
        name=TopicName(_name(topic)), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=configs
    )
    with Client(node.port) as client:
        answer = client.ask(
            ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics.CreateTopicsRequest(topics=(wanted,))
        )
    for result in answer.topics:
        check(result.error_code, f"creating topic {topic}")
    wait_until_served(node.port, {_name(topic): 1})


def _batches(count: int) -> Iterator[bytes]:
    values = [NewRecord(os.urandom(_VALUE_SIZE)) for _ in range(_BATCH_RECORDS)]
    batch = bytes(build_batch(values, timestamp_ms=time.time_ns() // 1_000_000))
    for _ in range(count):
        yield batch


def _end_of(client: Client, topic: str) -> int:
    answer = client.ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, list_offsets_request(_name(topic), 1))
    return int(answer.topics[0].partitions[0].offset)


def _read(client: Client, topic: str, offset: int, count: int) -> None:
    """Read so many records from an offset on."""
    end = offset + count
    while offset < end:
        partition = fetch.FetchPartition(
            partition=i32(0),
            fetch_offset=i64(offset),
            partition_max_bytes=i32(_FETCH_BYTES),
        )
        request = fetch.FetchRequest(
            max_wait=MAX_WAIT,
            min_bytes=i32(1),
            max_bytes=i32(_FETCH_BYTES),
            session_epoch=i32(_NO_SESSION),
            topics=(fetch.FetchTopic(topic=TopicName(_name(topic)), partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        answer: Any = client.ask(ApiKey.FETCH, FETCH_VERSION, request)
        [told] = answer.responses[0].partitions
        check(told.error_code, f"reading {topic}")
        offset += len(told.records) // _BATCH_SIZE * _BATCH_RECORDS


_BATCH_SIZE: Final = len(next(_batches(1)))


def _commit(client: Client, topic: str, offset: int) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=i32(0), committed_offset=i64(offset), committed_metadata=""
    )
    request = offset_commit.OffsetCommitRequest(
        group_id=GroupId(_GROUP),
        member_id="",
        topics=(offset_commit.OffsetCommitRequestTopic(name=TopicName(_name(topic)), partitions=(partition,)),),
    )
    answer = client.ask(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, request)
    check(answer.topics[0].partitions[0].error_code, "OffsetCommit")


def _measure(node: Node, topic: str, batches: int) -> tuple[float, float]:
    """Write to a topic and read it; return the CPU time of each, in microseconds per batch."""
    with Client(node.port, _BUFFER_SIZE) as client:
        began = _end_of(client, topic)
        with CostMeter(node) as written:
            fill(node, _name(topic), _batches(batches))
        with CostMeter(node) as read:
            _read(client, topic, began, batches * _BATCH_RECORDS)
        _commit(client, topic, began)
    return written.all_s * 1e6 / batches, read.all_s * 1e6 / batches


def _prepare(node: Node, batches: int) -> None:
    for topic in TOPICS:
        _create(node, topic)
        await_coordinator(node.port, _GROUP)
        if "topic.recreate.offsets" in TOPICS[topic]:
            fill(node, _name(topic), _batches(batches))
            delete_topic(node.port, _name(topic))
            _create(node, topic)
            with Client(node.port) as client:
                assert _end_of(client, topic) == batches * _BATCH_RECORDS, "it goes on at the old end"


def main(
    rounds: Annotated[int, typer.Option(help="Rounds that count.")] = _ROUNDS,
    batches: Annotated[int, typer.Option(help="Batches of a topic and a round.")] = BATCHES,
) -> None:
    """Print the node's CPU time for a batch of each topic, written and read, and its ratio to that of the plain topic."""
    console = new_console()
    costs: dict[str, list[tuple[float, float]]] = {topic: [] for topic in TOPICS}
    with tempfile.TemporaryDirectory() as directory:
        made = Node(Path(directory), dict(SHARED_SETTINGS))
        made.format(secrets.token_urlsafe(16), "--standalone")
        with made as node:
            settle(node)
            _prepare(node, batches // 10)
            for number in range(-1, rounds):
                for topic in list(TOPICS) if number % 2 else reversed(list(TOPICS)):
                    cost = _measure(node, topic, batches)
                    if number >= 0:
                        costs[topic].append(cost)
    for place, what in enumerate(("produce", "fetch")):
        totals = {topic: sum(each[place] for each in mine) for topic, mine in costs.items()}
        for topic, total in totals.items():
            ratio = total / totals[PLAIN]
            over = "" if ratio <= LIMIT else f", over {LIMIT}"
            console.print(f"{what:8} {topic:14} {total / rounds:6.2f} µs a batch, ratio {ratio:.3f}{over}")


if __name__ == "__main__":
    typer.run(main)
