"""The data source ``esp`` on a cluster whose leaders die while it reads; here without a JVM."""

from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.source_rows import Read
from tests.integration.test_esp_source import START_MS, Row, write

ROWS = 600


def test_a_leader_that_dies_is_followed_to_its_successor(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic, partitions=2)
    write(cluster.bootstrap, topic, [Row(number % 2, number // 2, None, bytes(50), START_MS) for number in range(ROWS)])
    read = Read(
        cluster.bootstrap,
        subscribe=topic,
        columns="partition,offset",
        kafka__max__partition__fetch__bytes=1,
        kafkaConsumer__pollTimeoutMs=60_000,
    )
    batches = read.batches()
    found = [row for _ in range(5) for row in next(batches).to_pylist()]
    leader = observer.leader(topic, 0)
    cluster.nodes[leader].kill()
    observer.wait_for_leader_other_than(leader, topic, 0)
    found += [row for batch in batches for row in batch.to_pylist()]
    expected = [{"partition": partition, "offset": offset} for partition in range(2) for offset in range(ROWS // 2)]
    assert sorted(found, key=lambda row: tuple(row.values())) == expected
    later = Read(cluster.bootstrap, subscribe=topic, columns="partition,offset")
    assert sum(batch.num_rows for batch in later.batches()) == ROWS
