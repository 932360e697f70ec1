"""A broker that was eligible comes back first, and a log of its own is gone: it must not lead with an empty one (BRK-11)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from esp.simulation.checkers.client_history import check
from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything

PARTITIONS = 4
FIRST_BACK = 3

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka elects the empty log after an orderly stop")


def lose_directory(cluster: Cluster, paths: list[Path], _topic: str) -> None:
    """A disk is gone, and its directory was taken out of the setting, as the node's own message advises."""
    shutil.rmtree(paths[1])
    cluster.nodes[FIRST_BACK] = cluster.make(FIRST_BACK, {"log.dirs": str(paths[0])})


def lose_partition(_cluster: Cluster, paths: list[Path], topic: str) -> None:
    """One replica's directory is gone."""
    [found] = [path for directory in paths for path in directory.glob(f"{topic}-0")]
    shutil.rmtree(found)


def end(node: NodeProcess, *, in_order: bool) -> None:
    if in_order:
        node.stop()
    else:
        node.kill()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("in_order", [False, True], ids=["killed", "stopped in order"])
@pytest.mark.parametrize("lose", [lose_directory, lose_partition])
def test_a_broker_that_lost_a_log_while_it_was_down_costs_nobody_a_record(
    make_cluster: ClusterFactory,
    observe: Observe,
    topic: str,
    tmp_path: Path,
    lose: Callable[[Cluster, list[Path], str], None],
    *,
    in_order: bool,
) -> None:
    paths = [tmp_path / "3-a", tmp_path / "3-b"]
    cluster = make_cluster(
        4,
        controllers_only=(4,),
        brokers_only=(1, 2, 3),
        node_settings={FIRST_BACK: {"log.dirs": ",".join(map(str, paths))}},
    )
    observer = observe(cluster)
    observer.create(topic, PARTITIONS)
    eventually(lambda: all(list(path.glob(f"{topic}-*")) for path in paths))
    with Load(cluster, topic) as load:
        load.wait_for_acks(400)
        load.finish()
    observer.wait_until_whole(topic)
    for number in (1, 2):
        end(cluster.nodes[number], in_order=in_order)
    eventually(lambda: all(one.isr == {FIRST_BACK} for one in observer.partitions(topic).values()), 60)
    end(cluster.nodes[FIRST_BACK], in_order=in_order)
    lose(cluster, paths, topic)
    cluster.nodes[FIRST_BACK].start()
    for number in (1, 2):
        cluster.nodes[number].start()
    observer.wait_until_whole(topic, 60)
    assert load.errors == []
    assert check(load.sent, read_everything(cluster, topic)) == []
    assert f"{topic}-0 is gone" in cluster.nodes[FIRST_BACK].output or lose is lose_directory
