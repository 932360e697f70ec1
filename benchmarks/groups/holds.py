"""What retention holds and floors cost produce and fetch, beside topics without either.

One node of ours has four topics of one partition: two with the default settings, whose ratio shows how exact the measurement is; one
whose retention waits for a group that commits in each round; and one that was deleted and created again, and goes on at the old end. In
each round the topics in turn are written to, with acks=all, and read. Rounds are short, so that other work of the machine affects all
topics alike, and the figure is the median over the rounds of the ratio to the first topic.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.fetch.v12 import request as fetch
from kio.schema.offset_commit.v9 import request as offset_commit
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i16, i32, i64

from benchmarks.client import (
    CREATE_TOPICS_VERSION,
    LIST_OFFSETS_VERSION,
    Client,
    check,
    delete_topic,
    list_offsets_request,
    wait_until_served,
)
from benchmarks.consume_load import FETCH_VERSION, MAX_WAIT
from benchmarks.cost import fine_cpu_seconds
from benchmarks.filling import fill
from benchmarks.groups.coordinator import await_coordinator
from benchmarks.groups.metrics import COST_RATIOS, PLAIN_COSTS
from benchmarks.results import ESP, Metric
from benchmarks.stage import Stage
from esp.controller.image import RECREATE_OFFSETS
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import NodeProcess

BATCHES: Final = 5_000
"""The batches of a topic in a round: small ones, in which the cost of a request outweighs that of its bytes."""

_BATCH_RECORDS: Final = 10
_VALUE_SIZE: Final = 100
_FETCH_BYTES: Final = 4 << 10
_BUFFER_SIZE: Final = 4 << 20
_COMMIT_VERSION: Final = 9
_NO_SESSION: Final = -1
_GROUP: Final = "reader"

PLAIN: Final = "plain"
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    PLAIN: {},
    "plain again": {},
    "held": {"retention.hold.groups": _GROUP},
    "created again": {RECREATE_OFFSETS: "continue"},
}
"""The topics, with their settings."""


def _name(topic: str) -> str:
    return topic.replace(" ", "-")


def _create(node: NodeProcess, topic: str) -> None:
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


def _read(client: Client, topic: str, offset: int, count: int) -> int:
    """Read so many records from an offset on; return the number of answers."""
    end, answers = offset + count, 0
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
        answers += 1
    return answers


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


def _measure(node: NodeProcess, topic: str, batches: int) -> dict[str, float]:
    """Write to a topic and read it; return the CPU time of a batch and of an answer, in microseconds, by request."""
    with Client(node.port, _BUFFER_SIZE) as client:
        began = _end_of(client, topic)
        before_s = fine_cpu_seconds(node.pid)
        fill(node, _name(topic), _batches(batches))
        written_s = fine_cpu_seconds(node.pid)
        answers = _read(client, topic, began, batches * _BATCH_RECORDS)
        read_s = fine_cpu_seconds(node.pid)
        _commit(client, topic, began + batches * _BATCH_RECORDS)
    return {"produce": (written_s - before_s) * 1e6 / batches, "fetch": (read_s - written_s) * 1e6 / answers}


def _prepare(node: NodeProcess, batches: int) -> None:
    await_coordinator(node.port, _GROUP)
    for topic, settings in TOPICS.items():
        _create(node, topic)
        if RECREATE_OFFSETS in settings:
            fill(node, _name(topic), _batches(batches))
            delete_topic(node.port, _name(topic))
            _create(node, topic)
            with Client(node.port) as client:
                assert _end_of(client, topic) == batches * _BATCH_RECORDS, "it goes on at the old end"


def compare(costs: Mapping[str, Mapping[str, float]]) -> dict[Metric, float]:
    """Return the metrics of a round.

    Args:
        costs: by topic the cost of each request, in microseconds.
    """
    found = {}
    for what, cost in costs[PLAIN].items():
        found[PLAIN_COSTS[what]] = cost
        for topic, metric in COST_RATIOS[what].items():
            found[metric] = costs[topic][what] / cost
    return found


def measure_holds(stage: Stage) -> None:
    """Measure the topics turn about on the node of ours; the other product has neither holds nor floors."""
    node, batches = stage.nodes.get(ESP), stage.scaled(BATCHES, least=100)
    if node is None:
        return
    _prepare(node, max(1, batches // 10))
    for number in stage.rounds():
        topics = list(TOPICS) if number % 2 else list(TOPICS)[::-1]
        costs = {topic: _measure(node, topic, batches) for topic in topics}
        stage.take(ESP, compare(costs), number)
