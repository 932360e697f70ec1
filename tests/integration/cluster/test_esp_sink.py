"""The exactly-once sink on a cluster in which too few replicas of its topic are in sync; here without Spark."""

import pytest

from esp.consumer.errors import ConsumerError
from esp.sink.decision import Action
from esp.sink.share import Share
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.sink_runs import rows_of_batch, values_of_batches, writer_of
from tests.integration.source_rows import read_values
from tests.integration.transactions import serve_transactions

SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


@pytest.mark.timeout(300)
def test_a_batch_for_which_too_few_replicas_are_in_sync_is_refused_and_written_when_they_are(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    if not AGAINST_KAFKA:
        serve_transactions(cluster.bootstrap, cluster.nodes.values())
    observer = observe(cluster)
    observer.create(topic, partitions=1, min_insync_replicas=3)
    leader = observer.leader(topic)
    bootstrap = cluster.nodes[leader].bootstrap
    share = Share(0, 20, 5, 1)
    assert writer_of(bootstrap, topic).write([rows_of_batch(0)], share) is Action.WRITE

    def committed() -> list[bytes | None]:
        return sorted(read_values(bootstrap, topic, **{"kafka.isolation.level": "read_committed"}))

    # readers see rows when the marker is written, which is behind the answer, and needs the replicas as well
    eventually(lambda: committed() == values_of_batches(1), 60)

    follower = next(number for number in cluster.nodes if number != leader)
    cluster.nodes[follower].stop()
    eventually(lambda: len(observer.partitions(topic)[0].isr) == 2, 60)
    refused = (
        rf"batch 1 was not written to partition 0 of topic {topic} within 3 s: partition 0 of topic {topic}: it has fewer in-sync replicas "
        r"than its min\.insync\.replicas \(NOT_ENOUGH_REPLICAS\): start the brokers that have its replicas"
    )
    with pytest.raises(ConsumerError, match=refused):
        writer_of(bootstrap, topic, timeout_s=3.0).write([rows_of_batch(1)], share._replace(batch=1))

    cluster.nodes[follower].start()
    observer.wait_until_whole(topic, 60)
    assert writer_of(bootstrap, topic).write([rows_of_batch(1)], share._replace(batch=1)) is Action.WRITE
    eventually(lambda: committed() == values_of_batches(2), 60)
