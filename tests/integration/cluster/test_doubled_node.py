"""Two processes claim one node.id: a copy of a data directory runs beside the node that it was taken from."""

import shutil

import pytest

from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually

REGISTERED = "broker 2 is registered with epoch"
REFUSED = "broker 2 is not registered yet: another broker with node.id 2 is registered and alive"


def registrations(node: NodeProcess) -> int:
    return node.stderr_path.read_text().count(REGISTERED)


@pytest.mark.timeout(300)
def test_a_copy_of_a_node_behind_the_same_address_waits_until_the_node_is_gone(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(2, controllers_only=(1,), brokers_only=(2,))
    observer = observe(cluster)
    observer.create(topic, 1, 1)
    original = cluster.nodes[2]
    original.stop()
    port = free_port()
    # It listens elsewhere, and tells the address of the original, as two containers behind one address do.
    copy = cluster.make(2, {"listeners": f"PLAINTEXT://{original.host}:{port}"}, name="copy")
    shutil.copytree(original.data_dir, copy.data_dir)
    original.start()
    before = registrations(original)
    copy.launch()
    try:
        eventually(lambda: REFUSED in copy.stderr_path.read_text() or registrations(original) > before, 60)
        assert registrations(original) == before, "the two take turns"
        assert registrations(copy) == 0
        original.kill()
        eventually(lambda: registrations(copy) == 1, 5)
        original.launch()
        eventually(lambda: REFUSED in original.stderr_path.read_text() or registrations(copy) > 1, 60)
        assert registrations(copy) == 1
        assert registrations(original) == before
    finally:
        copy.kill()
