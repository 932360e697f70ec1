"""A program that reads, transforms and writes exactly once, while the nodes that it depends on are killed."""

import threading

import pytest

from esp.groups.partitioning import partition_for
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.transactions import WRITERS, ExactlyOnce, read_all, serve_transactions

SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
VALUES = [b"%03d" % number for number in range(240)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim", ["transaction coordinator", "partition leader", "group coordinator"])
def test_the_output_is_exact_whichever_node_is_killed(
    make_cluster: ClusterFactory, observe: Observe, topic: str, victim: str
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    serve_transactions(cluster.bootstrap, cluster.nodes.values())
    source, target, name = f"{topic}-in"[:100], f"{topic}-out"[:100], "program"
    observer.create(source, partitions=2)
    observer.create(target, partitions=2)
    WRITERS["librdkafka"](cluster.bootstrap, "feeder", source, [(True, VALUES)])
    program = ExactlyOnce(cluster.bootstrap, name, source, target)
    done = rounds = 0
    killed = None
    while done < len(VALUES):
        rounds += 1
        assert rounds < 400
        if rounds in (6, 14):
            if victim == "partition leader":
                killed = observer.leader(target, rounds % 2)
            elif victim == "transaction coordinator":
                killed = observer.leader("__transaction_state", partition_for(name, 3))
            else:
                killed = observer.leader("__consumer_offsets", partition_for(f"group of {name}", 3))
            threading.Timer(0.02, cluster.nodes[killed].kill).start()
        done += program.step(abort=rounds % 5 == 0)
        if rounds in (10, 18) and killed is not None:
            if cluster.nodes[killed].is_running:
                cluster.nodes[killed].kill()
            cluster.nodes[killed].start()
            observer.wait_until_whole(target)
    program.close()
    assert sorted(read_all(cluster.bootstrap, target, len(VALUES))) == [b"<" + value + b">" for value in VALUES]


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_kafkas_producer_goes_on_when_its_coordinator_is_killed(
    make_cluster: ClusterFactory, observe: Observe, kafka_tools: KafkaTools, topic: str
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    serve_transactions(cluster.bootstrap, cluster.nodes.values())
    observer.create(topic, partitions=2)
    WRITERS["librdkafka"](cluster.bootstrap, "java", topic, [(True, [b"first"])])
    tool = kafka_tools.start(
        "producer-perf-test",
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--num-records", "3000", "--record-size", "20"),
        *("--throughput", "500", "--transactional-id", "java", "--transaction-duration-ms", "50"),
        messages=cluster.directory / "messages.txt",
    )
    try:
        log = cluster.directory / "tool.txt"
        reader = threading.Thread(target=lambda: log.write_text(tool.communicate()[0]))
        reader.start()
        eventually(lambda: len(read_all(cluster.bootstrap, topic, 1)) > 300, timeout_s=60)
        coordinator = observer.leader("__transaction_state", partition_for("java", 3))
        cluster.nodes[coordinator].kill()
        reader.join(120)
        assert tool.returncode == 0
    finally:
        tool.kill()
    assert "3000 records sent" in log.read_text()
    assert len(read_all(cluster.bootstrap, topic, 3001)) == 3001
