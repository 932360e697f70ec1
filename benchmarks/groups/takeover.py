"""A coordinator of groups with a long log: how soon it tells of offsets after kill -9."""

import time
from typing import Any, Final

from kio.schema.offset_commit.v9 import request as offset_commit
from kio.schema.offset_fetch.v9 import request as offset_fetch
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from benchmarks.client import Client, check, create_topic
from benchmarks.groups.coordinator import PATIENCE, await_coordinator
from benchmarks.groups.metrics import LOADING, TAKEOVER
from benchmarks.stage import Stage
from benchmarks.start_up import SETTLING_S
from esp.protocol.registry import ApiKey
from esp.testing.node_process import NodeProcess

GROUPS: Final = 1_000
COMMITS: Final = 100_000
PARTITIONS: Final = 10
"""The partitions of the topic; a commit names one of them, so that each of a group's offsets is committed ten times."""

STARTS: Final = 3
"""Fewer than rounds of load: each start is one of a whole process."""

_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9
_TOPIC: Final = "committed"
_POLL_INTERVAL_S: Final = 0.005


def group_of(number: int) -> str:
    """The id of a group."""
    return f"an-application-{number:04d}"


def _commit(client: Client, number: int, groups: int) -> None:
    """Commit an offset; again, until the coordinator serves."""
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=i32(number // groups % PARTITIONS), committed_offset=i64(number), committed_metadata=""
    )
    topic = offset_commit.OffsetCommitRequestTopic(name=TopicName(_TOPIC), partitions=(partition,))
    request = offset_commit.OffsetCommitRequest(
        group_id=GroupId(group_of(number % groups)), member_id="", topics=(topic,)
    )
    while True:
        answer = client.ask(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, request)
        code = answer.topics[0].partitions[0].error_code
        if code not in PATIENCE:
            check(code, "OffsetCommit")
            return
        time.sleep(_POLL_INTERVAL_S)


def _fetch(client: Client, group: str) -> Any:
    request = offset_fetch.OffsetFetchRequest(
        groups=(offset_fetch.OffsetFetchRequestGroup(group_id=GroupId(group), topics=None),)
    )
    return client.ask(ApiKey.OFFSET_FETCH, _FETCH_VERSION, request).groups[0]


def _await_offsets(node: NodeProcess, group: str) -> float:
    """Ask from the first moment on at which the broker listens; return the time of the first answer, by ``perf_counter``."""
    first_s = 0.0
    while True:
        try:
            with Client(node.port) as client:
                while True:
                    told = _fetch(client, group)
                    first_s = first_s or time.perf_counter()
                    if told.error_code not in PATIENCE:
                        check(told.error_code, f"OffsetFetch of {group}")
                        assert told.topics, f"{group} has lost its offsets"
                        return first_s
                    time.sleep(_POLL_INTERVAL_S)
        except OSError:
            time.sleep(_POLL_INTERVAL_S)


def measure_takeover(stage: Stage) -> None:
    """Kill each broker a few times, and measure the time until it tells of a group's offsets."""
    groups, commits = stage.scaled(GROUPS), stage.scaled(COMMITS)
    for name, node in stage.nodes.items():
        create_topic(node.port, _TOPIC, PARTITIONS)
        began_s = time.perf_counter()
        await_coordinator(node.port, group_of(0))
        with Client(node.port) as client:
            for number in range(commits):
                _commit(client, number, groups)
        stage.say(f"  {name} has {commits} commits after {time.perf_counter() - began_s:.0f} s")
    for number in range(min(STARTS, stage.extent.rounds)):
        for name, node in stage.in_turn(number):
            node.kill()
            began_s = time.perf_counter()
            node.launch()
            first_s = _await_offsets(node, group_of((groups // 2 + number) % groups))
            ended_s = time.perf_counter()
            node.wait_until_ready()
            time.sleep(SETTLING_S)
            stage.take(name, {TAKEOVER: ended_s - began_s, LOADING: ended_s - first_s})
