"""A consumer that stands still finds its records after retention, in a topic that its group holds, up to the caps."""

from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import QUICK_GROUPS

SEGMENT_BYTES = 1024 * 1024
WITHIN_S = 60


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Retention looks every half second."""
    checks = {"log.initial.task.delay.ms": "500", "log.retention.check.interval.ms": "500"}
    return {**QUICK_GROUPS, **checks}


def fill(node: NodeProcess, topic: str, count: int) -> None:
    """Write records, of which each fills a segment."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for _ in range(count):
        producer.produce(topic, bytes(600_000))
        assert producer.flush(30) == 0


def log_start(consumer: Consumer, topic: str) -> int:
    """Where the log starts."""
    return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[0]


@pytest.mark.timeout(180)
def test_a_consumer_that_stands_still_reads_on_where_it_was_until_a_cap_breaks_its_hold(
    node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(
        partitions=1,
        segment_bytes=SEGMENT_BYTES,
        retention_bytes=0,
        retention_hold_groups="slow,others-*",
        retention_hold_max_bytes=6 * SEGMENT_BYTES,
    )
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "slow", "auto.offset.reset": "error"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    watcher = Consumer({**settings, "group.id": "watcher"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    fill(node, topic, 5)
    first = consumer.poll(30)
    assert first is not None
    assert (first.error(), first.offset()) == (None, 0)
    consumer.commit(first, asynchronous=False)
    eventually(lambda: log_start(watcher, topic) == 1, WITHIN_S)
    second = consumer.poll(30)
    assert second is not None
    assert (second.error(), second.offset()) == (None, 1), "what is held is there"
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    eventually(lambda: log_start(watcher, topic) == 4, WITHIN_S)
    fill(node, topic, 14)
    eventually(lambda: log_start(watcher, topic) > 4, WITHIN_S)
    told = f"{topic}-0: the hold of group slow is broken by retention.hold.max.bytes: offsets 4 to "
    eventually(lambda: told in node.output, WITHIN_S)
    consumer.close()
    watcher.close()
