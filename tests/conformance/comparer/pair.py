"""A node of ours and one of Apache Kafka, alike as far as settings go."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from esp.testing.node import Node
from esp.testing.real_kafka import RealKafka
from tests.conformance.comparer.target import Target

# No retention: what a case deletes stays in its segment on both, however long the cases before it took.
_SETTINGS: Final = {
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": "3600000",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}


@contextmanager
def running_pair(directory: Path) -> Iterator[tuple[Target, Target]]:
    """Start both; they are gone when the block ends."""
    with Node(directory / "esp", _SETTINGS) as ours, RealKafka(directory / "kafka", _SETTINGS, heap="400m") as theirs:
        targets = Target("ESP", ours), Target("Kafka", theirs)
        try:
            yield targets
        finally:
            for target in targets:
                target.close()
