"""A directory with topics in the trash changes hands: Kafka's tools read its metadata, and Kafka serves what is not deleted."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from esp.cli.app import run_tools
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually
from tests.integration.dump_log import check_files

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "topic.trash.retention.ms": "3600000",
    "topic.trash.min.free.percent": "0",  # however full the disk of the machine is
    "metadata.log.max.record.bytes.between.snapshots": "1000",
}
TOPICS = ("kept", "trashed", "restored", "purged", "again")
LEFT = {"kept", "restored", "again"}
WITHIN_S = 60


def products(data_dir: Path, tools: KafkaTools) -> tuple[NodeProcess, NodeProcess]:
    """A node of ours and one of Kafka's on one directory, behind one port."""
    controller = f"{HOST}:{free_port()}"
    node = Node(data_dir, {**SETTINGS, "controller.quorum.bootstrap.servers": controller})
    node.settings["listeners"] = f"PLAINTEXT://{node.bootstrap},CONTROLLER://{controller}"
    return node, RealKafka(data_dir, node.settings, node.port, tools=tools, heap="400m")


@pytest.fixture
def taken_over(tmp_path: Path, kafka_tools: KafkaTools) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Both, stopped in the end."""
    both = products(tmp_path / "data", kafka_tools)
    yield both
    for product in both:
        if product.is_running:
            product.kill()


def topics(node: NodeProcess, *arguments: str) -> None:
    """Run ``esp topics``."""
    assert run_tools(["topics", "--bootstrap-server", node.bootstrap, *arguments]) == 0


def write(node: NodeProcess, topic: str) -> None:
    """Write one record."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, topic.encode())
    assert producer.flush(WITHIN_S) == 0


def fill(node: NodeProcess) -> None:
    """Make topics with a record each, of which some are in the trash then, and others were."""
    for topic in TOPICS:
        topics(node, "--create", "--topic", topic, "--config", "retention.ms=-1")
        write(node, topic)
    for topic in TOPICS[1:]:
        topics(node, "--delete", "--topic", topic)
    topics(node, "restore", "restored")
    topics(node, "purge", "purged")
    topics(node, "--create", "--topic", "again")
    write(node, "again")
    write(node, "restored")


def wait_for_a_snapshot(node: NodeProcess) -> None:
    """Let the metadata grow until a snapshot has all that is in it now: a snapshot comes with bytes, not with time."""
    directory = node.data_dir / "__cluster_metadata-0"
    before = set(directory.glob("*.checkpoint"))
    sizes = count(1 << 20)

    def has_come() -> bool:
        of_kept = ("--entity-type", "topics", "--entity-name", "kept", "--add-config", f"segment.bytes={next(sizes)}")
        assert run_tools(["configs", "--bootstrap-server", node.bootstrap, "--alter", *of_kept]) == 0
        return bool(set(directory.glob("*.checkpoint")) - before)

    eventually(has_come, WITHIN_S)


def test_kafka_reads_the_metadata_and_serves_what_is_not_deleted(
    taken_over: tuple[NodeProcess, NodeProcess], kafka_tools: KafkaTools
) -> None:
    ours, kafkas = taken_over
    ours.start()
    fill(ours)
    wait_for_a_snapshot(ours)
    ours.stop()
    _, dumped = check_files(kafka_tools, ours.log_dirs)
    assert "esp.trash." in dumped
    assert '"type":"REMOVE_TOPIC_RECORD"' in dumped
    asides = sorted(path.name for path in ours.data_dir.glob("*-stray"))
    assert [name.partition("-")[0] for name in asides] == ["again", "trashed"]

    kafkas.start()
    server = ("--bootstrap-server", kafkas.bootstrap)
    listed = kafka_tools.run("topics", *server, "--list")
    assert listed.returncode == 0, listed.stderr
    assert set(listed.stdout.split()) - {"__consumer_offsets"} == LEFT
    for topic, records in (("kept", 1), ("restored", 2), ("again", 1)):
        eventually(
            lambda topic=topic, records=records: (
                f"{topic}:0:{records}"  # type: ignore[misc]
                in kafka_tools.run("get-offsets", *server, "--topic", topic).stdout
            ),
            WITHIN_S,
        )
    settings = kafka_tools.run("configs", *server, "--describe", "--entity-type", "topics", "--entity-name", "restored")
    assert "retention.ms=-1" in settings.stdout
    write(kafkas, "restored")
    kafkas.stop()
    assert sorted(path.name for path in ours.data_dir.glob("*-stray")) == asides
