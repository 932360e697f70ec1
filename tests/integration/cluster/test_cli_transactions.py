"""``esp transactions`` on three nodes: transactions that stay open, also while the coordinator's node is down."""

import pytest

from esp.groups.partitioning import partition_for
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.open_transactions import SETTINGS, esp, leave_open, told, write_late
from tests.integration.transactions import TIMEOUT_S, read_all, serve_transactions, transactional_producer


@pytest.mark.timeout(300)
def test_a_transaction_that_hangs_is_told_from_an_owned_one_and_ended_while_a_node_is_down(
    make_cluster: ClusterFactory, observe: Observe
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    serve_transactions(cluster.bootstrap, cluster.nodes.values())
    topic, owned, late = "orders", "owned", "late"
    observer.create(topic, partitions=1)
    leave_open(cluster.bootstrap, owned, topic)
    leader = observer.leader(topic, 0)
    offset = write_late(cluster.bootstrap, cluster.nodes[leader], late, topic)
    where = ("--topic", topic, "--partition", "0", "--start-offset", str(offset))

    for number, node in cluster.nodes.items():
        assert {each["transactional_id"] for each in told(node.bootstrap, "list")} == {owned, late}
        [row] = told(node.bootstrap, "oldest")
        assert (row["transactional_id"], row["open_transactions"]) == (owned, 2)
        [hanging] = told(node.bootstrap, "find-hanging")
        assert hanging["start_offset"] == offset
        of_replica = told(node.bootstrap, "find-hanging", "--broker-id", str(number))
        assert of_replica == [hanging], "a follower knows its leader's transactions"

    coordinator = observer.leader("__transaction_state", partition_for(owned, 3))
    cluster.nodes[coordinator].kill()
    at = next(node.bootstrap for number, node in cluster.nodes.items() if number != coordinator)

    def is_found() -> bool:
        try:
            return [each["start_offset"] for each in told(at, "find-hanging")] == [offset]
        except AssertionError:  # another node has not taken over yet
            return False

    eventually(is_found, TIMEOUT_S)
    [described] = told(at, "describe", "--transactional-id", owned)
    assert described["coordinator"] != coordinator
    assert "does not hang" in esp(at, "abort", *where[:-1], str(row["start_offset"]), "--execute", status=1)[1]
    assert esp(at, "abort", *where, "--execute")[0].startswith("Wrote the marker")
    assert told(at, "find-hanging") == []
    [left] = told(at, "oldest")
    assert (left["transactional_id"], left["open_transactions"]) == (owned, 1)

    transactional_producer(at, owned)  # the owner's next producer ends the other one
    eventually(lambda: told(at, "oldest") == [], TIMEOUT_S)
    assert read_all(at, topic, 1, partitions=1) == [b"committed"]
