"""MirrorMaker 2 between the cluster under test and Apache Kafka, both ways: records, translated offsets, and groups that move over."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from esp.testing.cluster import Cluster
from esp.testing.node_process import HOST
from esp.testing.ports import free_port
from tests.ecosystem.clients import (
    MESSAGE_TIMEOUT_MS,
    QUICK_RECONNECT,
    Committed,
    CommittedReader,
    create_topic,
    idempotent_producer,
)
from tests.ecosystem.clusters import make_cluster, serve_transactions
from tests.ecosystem.killer import Killer, ProgramVictim
from tests.ecosystem.oracles.lines import judge_exactly_once, numbered_line, numbers_in
from tests.ecosystem.oracles.moved_group import judge_moved_group
from tests.ecosystem.program import Program, write_properties
from tests.ecosystem.stage import KILLS_GRACE_S, Outcome, Stage
from tests.ecosystem.waiting import TooLateError, wait_for

_LOGGER: Final = logging.getLogger(__name__)

MAIN_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
BATCH: Final = 100
LAST_BATCHES: Final = 3
UNREAD: Final = 50
KILL_EVERY_S: Final = 30.0
READY_TIMEOUT_S: Final = 180
CATCH_UP_TIMEOUT_S: Final = 240
TRANSLATION_TIMEOUT_S: Final = 120
_STORAGES: Final = ("config.storage", "offset.storage", "status.storage")


class Direction:
    """One of the two ways: a topic on the source with a group that reads it, and their counterparts on the target.

    Args:
        source: the cluster that the records come from; named ``name`` in the program's settings.
        target: the cluster that they are mirrored to.
        name: of the source.
        replication_factor: of the topic on the source.
    """

    def __init__(self, source: Cluster, target: Cluster, name: str, replication_factor: int) -> None:
        self.source = source
        self.target = target
        self.name = name
        self.topic = f"orders-{name}"
        self.mirrored = f"{name}.{self.topic}"
        self.group = f"movers-{name}"
        self.total = 0
        self.commits: list[int] = [0]
        create_topic(source.bootstrap, self.topic, 1, replication_factor)
        self._producer = idempotent_producer(source.bootstrap)
        self._consumer = _group_member(source, self.group)
        self._consumer.assign([TopicPartition(self.topic, 0, 0)])

    def write(self, count: int) -> None:
        """Write so many numbered records."""
        for number in range(self.total, self.total + count):
            self._producer.produce(self.topic, numbered_line(number).encode())
        self.total += count
        assert self._producer.flush(MESSAGE_TIMEOUT_MS / 1000) == 0, f"{self.topic} does not take records"

    def read_and_commit(self) -> None:
        """Let the group read all records of the source and commit."""
        read = self.commits[-1]

        def is_read() -> bool:
            nonlocal read
            read += sum(message.error() is None for message in self._consumer.consume(1000, 0.2))
            return read == self.total

        wait_for(is_read, CATCH_UP_TIMEOUT_S, f"{self.total} records read of {self.topic}")
        position = TopicPartition(self.topic, 0, self.total)
        wait_for(lambda: _commits(self._consumer, position), CATCH_UP_TIMEOUT_S, f"a commit of {self.group}")
        self.commits.append(self.total)

    def leave(self) -> None:
        """End the group's member on the source."""
        self._consumer.close()


def run(stage: Stage) -> Iterator[Outcome]:
    """Mirror both ways between the cluster under test and a node of Kafka, and move a group each way."""
    with make_cluster("kafka", stage.directory / "far", 1, stage.broker_tools) as far:
        serve_transactions(far)
        near = stage.cluster
        ways = [
            Direction(near, far, "near", stage.replication_factor),
            Direction(far, near, "far", 1),
        ]
        program = _program(stage, far)
        program.start()
        for way in ways:
            way.write(BATCH)
            wait_for(
                lambda way=way: way.mirrored in _topics(way.target),
                READY_TIMEOUT_S,
                f"topic {way.mirrored} is mirrored",
            )
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(CommittedReader(way.target.bootstrap, way.mirrored)) for way in ways]
            kills = _mirror_under_kills(stage, program, ways)
            for way, reader in zip(ways, readers, strict=True):
                _commit_in_steps(way, reader)
            for way, reader in zip(ways, readers, strict=True):
                for outcome in _judge(way, reader, kills):
                    outcome.violations += stage.own_ends([program])
                    yield outcome


def _mirror_under_kills(stage: Stage, program: Program, ways: Sequence[Direction]) -> int:
    """Write and read on both sources until the kills are done; return their number."""
    kills = max(1, stage.kills // 3)
    with stage.node_kills() as nodes, Killer([ProgramVictim(program)], KILL_EVERY_S) as killer:

        def next_batch() -> bool:
            for way in ways:
                way.write(BATCH)
                way.read_and_commit()
            return nodes.has_killed(stage.node_kills_wanted) and killer.has_killed(kills)

        wait_for(next_batch, KILL_EVERY_S * kills * 4 + KILLS_GRACE_S, f"{kills} kills")
    return killer.kills + nodes.kills


def _commit_in_steps(way: Direction, reader: CommittedReader) -> None:
    """Let the group commit some times, each batch mirrored before the next is written, and leave with some records unread.

    MirrorMaker knows the offset of the first record of what it mirrors at a time: steps that it mirrors together it cannot tell apart.
    """
    for _ in range(LAST_BATCHES):
        way.write(BATCH)
        _wait_for_mirrored(way, reader)
        way.read_and_commit()
    way.write(UNREAD)
    way.leave()


def _wait_for_mirrored(way: Direction, reader: CommittedReader) -> None:
    last = numbered_line(way.total - 1).encode()
    with contextlib.suppress(TooLateError):  # the judge says what is missing
        wait_for(
            lambda: reader.has(lambda records: any(record.value == last for record in records[-BATCH:])),
            CATCH_UP_TIMEOUT_S,
            f"the last record of {way.mirrored}",
        )


def _judge(way: Direction, reader: CommittedReader, kills: int) -> Iterator[Outcome]:
    _wait_for_mirrored(way, reader)
    numbers = _numbers(reader.records)
    where = f"{way.name} to {'far' if way.name == 'near' else 'near'}"
    yield Outcome(f"MirrorMaker: {where}, exactly once", kills, len(numbers), judge_exactly_once(way.total, numbers))
    previous_commit, last_commit = way.commits[-2:]
    with contextlib.suppress(TooLateError):
        wait_for(
            lambda: _translated(way, reader.records) >= previous_commit,
            TRANSLATION_TIMEOUT_S,
            f"the offset of {way.group} is translated",
        )
    moved = _read_as_group(way)
    _LOGGER.info("%s: commits %d and %d, the moved group began at %s", where, previous_commit, last_commit, moved[:1])
    violations = judge_moved_group(previous_commit, last_commit, way.total, moved)
    yield Outcome(f"MirrorMaker: group moved {where}", 0, len(moved), violations)


def _translated(way: Direction, records: Sequence[Committed]) -> int:
    """Return the number of the first record that the group would read on the target now; -1 if it has no offset there."""
    member = _group_member(way.target, way.group)
    try:
        [position] = member.committed([TopicPartition(way.mirrored, 0)], 10)
    except KafkaException:
        return -1
    finally:
        member.close()
    if position.offset == OFFSET_INVALID:
        return -1
    later = [record for record in records if record.offset >= position.offset]
    return _numbers(later[:1])[0] if later else -1


def _read_as_group(way: Direction) -> list[int]:
    """Subscribe to the mirrored topic as the group, and return the numbers of the records up to the last one."""
    member = _group_member(way.target, way.group)
    member.subscribe([way.mirrored])
    numbers: list[int] = []

    def is_read() -> bool:
        values = [message.value().decode() for message in member.consume(1000, 0.2) if message.error() is None]
        numbers.extend(number for value in values for number in numbers_in(value))
        return bool(numbers) and numbers[-1] == way.total - 1

    try:
        with contextlib.suppress(TooLateError):
            wait_for(is_read, CATCH_UP_TIMEOUT_S, f"the last record as {way.group}")
    finally:
        member.close()
    return numbers


def _numbers(records: Sequence[Committed]) -> list[int]:
    return [number for record in records for number in numbers_in(record.value.decode())]


def _group_member(cluster: Cluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **QUICK_RECONNECT,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )


def _commits(consumer: Consumer, position: TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[position], asynchronous=False)
    except KafkaException as error:
        _LOGGER.info("commit: %s", error)
        return False
    return True


def _topics(cluster: Cluster) -> Sequence[str]:
    consumer = _group_member(cluster, "unused")
    try:
        return list(consumer.list_topics(timeout=10).topics)
    except KafkaException:
        return []
    finally:
        consumer.close()


def _program(stage: Stage, far: Cluster) -> Program:
    properties: dict[str, object] = {
        "clusters": "near,far",
        "near.bootstrap.servers": stage.cluster.bootstrap,
        "far.bootstrap.servers": far.bootstrap,
        "near->far.enabled": "true",
        "near->far.topics": "orders-near",
        "far->near.enabled": "true",
        "far->near.topics": "orders-far",
        "near.exactly.once.source.support": "enabled",
        "far.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{HOST}:{free_port()}",
        "plugin.discovery": "service_load",
        "refresh.topics.interval.seconds": 5,
        "refresh.groups.interval.seconds": 5,
        "emit.checkpoints.interval.seconds": 2,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": 2,
        "scheduled.rebalance.max.delay.ms": 1000,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
    }
    factors = {"near": stage.replication_factor, "far": 1}
    for cluster, factor in factors.items():
        for name in (*_STORAGES, "heartbeats.topic", "checkpoints.topic", "offset-syncs.topic"):
            properties[f"{cluster}.{name}.replication.factor"] = factor
    for source, target in (("near", "far"), ("far", "near")):
        properties[f"{source}->{target}.replication.factor"] = factors[target]
        properties[f"{source}->{target}.checkpoints.topic.replication.factor"] = factors[target]
        properties[f"{source}->{target}.heartbeats.topic.replication.factor"] = factors[target]
        properties[f"{source}->{target}.offset-syncs.topic.replication.factor"] = factors[source]
    path = write_properties(stage.directory / "mirror.properties", properties)
    return stage.program(MAIN_CLASS, [str(path)], "mirror-maker")
