"""Voters that stand in everybody's settings (``controller.quorum.voters``, ``kraft.version`` 0)."""

import json

import pytest

from esp.simulation.checkers.client_history import check
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import active_controller, voters, wait_for_another_controller
from tests.integration.load import Load, read_everything


@pytest.mark.timeout(120)
def test_static_voters_fail_over_and_survive_restarts(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(static_voters=True)
    observer = observe(cluster)
    observer.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_acks(300)
        active = active_controller(cluster)
        cluster.nodes[active].kill()
        assert wait_for_another_controller(cluster, active) != active
        load.wait_for_acks(300)
        cluster.nodes[active].start()
        observer.wait_until_whole(topic)
        load.finish()
    assert load.errors == []
    cluster.stop()
    for node in cluster.nodes.values():
        state = json.loads((node.data_dir / "__cluster_metadata-0" / "quorum-state").read_text())
        assert state["data_version"] == 0
        assert {voter["voterId"] for voter in state["currentVoters"]} == {1, 2, 3}
        assert not list((node.data_dir / "__cluster_metadata-0").glob("*-0000000000.checkpoint"))
    cluster.start()
    observer.wait_until_whole(topic)
    assert voters(cluster, 1) == {1, 2, 3}
    assert check(load.sent, read_everything(cluster, topic)) == []
