"""kill -9 of the node under load: nothing acknowledged is lost, nothing is doubled, order is kept."""

import random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from esp.simulation.checkers.client_history import Outcome, check
from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory
from esp.testing.segment_files import segment_paths
from tests.integration.load import Load, read_everything

KILLS = 2 if AGAINST_KAFKA else 20  # a killed Kafka node is refused by its own controller for ten seconds


@pytest.mark.timeout(400)
def test_idempotent_writer_loses_and_doubles_nothing_over_twenty_kills(fresh_node: NodeFactory, topic: str) -> None:
    rng = random.Random(20)
    node = fresh_node()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    # small segments: recovery has rolled ones beside the one that was being written
    new = NewTopic(topic, 3, 1, config={"segment.bytes": "1048576"})
    admin.create_topics([new])[topic].result(20)
    with Load(node, topic) as load:
        for _ in range(KILLS):
            load.wait_for_acks(rng.randrange(100, 1500))
            node.kill()
            node.start()
        load.wait_for_acks(1000)
        load.finish()

    assert load.errors == []
    assert {sent.outcome for sent in load.sent} == {Outcome.ACKED}
    read = read_everything(node, topic)
    assert check(load.sent, read) == []
    for partition in range(3):
        offsets = [r.offset for r in read if r.partition == partition]
        assert offsets == list(range(len(offsets)))


@pytest.mark.timeout(120)
def test_writer_with_large_records_loses_nothing_over_kills(fresh_node: NodeFactory, topic: str) -> None:
    """Records of 50 KB roll segments between the kills; batches are cut wherever the kill finds them."""
    rng = random.Random(5)
    node = fresh_node()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    new = NewTopic(topic, 1, 1, config={"segment.bytes": "1048576"})
    admin.create_topics([new])[topic].result(20)
    with Load(node, topic, padding=50_000) as load:
        for _ in range(2 if AGAINST_KAFKA else 5):
            load.wait_for_acks(rng.randrange(20, 100))
            node.kill()
            node.start()
        load.finish()
    assert load.errors == []
    assert check(load.sent, read_everything(node, topic)) == []
    assert len(segment_paths(node.log_dirs, topic)) > 3
