"""A cluster that may repair itself loses a broker for good, makes its copies anew within the budget, and sees it come back (REPAIR-4)."""

import json
import re
import time
from typing import Final

import pytest

from esp.model.ids import METADATA_TOPIC
from esp.settings.throttled_replicas import REPAIRED_REPLICAS
from esp.simulation.checkers.client_history import Outcome, check
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.rebalancer import MIB, Rebalancer, run_here
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka does not repair itself")

LOST: Final = 3
"""The broker that is killed; a voter too."""
SPARE: Final = 4
"""The only one that can take its place. It holds something from the beginning, so that nothing is spread onto it."""
PLACES: Final = ((1, 2, LOST), (2, LOST, 1), (LOST, 1, 2), (SPARE, 1, 2))
FULL: Final = "full"
"""The topic whose copies take their time."""
LIVE: Final = "live"
"""The topic that is written to meanwhile."""
RECORD_BYTES: Final = 16_000
RECORDS: Final = 2000
BUDGET: Final = 5 * MIB
"""About five seconds for what has to be copied."""
TOLD_WITHIN_S: Final = 60.0
"""For what takes about three seconds, which is how often the controller looks."""
COPIED_WITHIN_S: Final = 120.0
SETTINGS: Final = {
    "rebalance.mode": "apply",
    "rebalance.broker.dead.after.ms": "500",
    "rebalance.bytes.per.second.max": "0",
    "broker.session.timeout.ms": "60000",  # nobody is given up because the machine is slow
}


def marks(node: NodeProcess) -> dict[str, str | None]:
    """The copies that go by the budget of self-repair, of each topic that ever had some, as the node's metadata log tells."""
    paths = map(str, sorted((node.data_dir / f"{METADATA_TOPIC}-0").glob("*.log")))
    said = run_here("dump-log", "--cluster-metadata-decoder", "--skip-record-metadata", "--json", *paths)
    found: dict[str, str | None] = {}
    for line in said.out.splitlines():
        payload = json.loads(line).get("payload", {})
        if payload.get("type") == "CONFIG_RECORD" and payload["data"]["name"] == REPAIRED_REPLICAS:
            found[payload["data"]["resourceName"]] = payload["data"]["value"]
    return found


def directories(node: NodeProcess, topic: str) -> dict[str, int]:
    """What has become of a topic's replicas on a node, by the names of their directories without ids: bytes of records."""
    return {
        re.sub(r"\.[0-9a-f]{32}", "", path.name): sum(file.stat().st_size for file in path.glob("*.log"))
        for directory in node.log_dirs
        for path in directory.glob(f"{topic}-*")
    }


def set_for_all(rebalancer: Rebalancer, name: str, value: object) -> None:
    """Change a setting of all brokers while they run."""
    rebalancer("configs", "--alter", "--broker-defaults", "--add-config", f"{name}={value}")


def places(rebalancer: Rebalancer) -> list[frozenset[int]]:
    """Where all partitions are, those that leave and those that come included."""
    return [one.replicas for topic in (FULL, LIVE) for one in rebalancer.observer.partitions(topic).values()]


@pytest.mark.timeout(400)
def test_copies_of_a_lost_broker_are_made_anew_within_the_budget_and_its_own_are_put_aside(
    make_cluster: ClusterFactory,
) -> None:
    cluster = make_cluster(4, SETTINGS, brokers_only=(SPARE,))
    rebalancer = Rebalancer(cluster)
    for topic in (FULL, LIVE):
        rebalancer.make_topic(topic, PLACES, mib=0)
    with Load(cluster, FULL, padding=RECORD_BYTES) as load:
        load.wait_for_acks(RECORDS)
        load.finish()
    lost_bytes = RECORD_BYTES * sum(
        each.outcome is Outcome.ACKED and LOST in PLACES[each.partition] for each in load.sent
    )

    with Load(cluster, LIVE, pause_s=0.02) as live:
        live.wait_for_acks(300)
        cluster.nodes[LOST].kill()
        marked = dict.fromkeys((FULL, LIVE), f"0:{SPARE},1:{SPARE},2:{SPARE}")
        eventually(
            lambda: set(places(rebalancer)) == {frozenset({1, 2, LOST, SPARE}), frozenset({1, 2, SPARE})}, TOLD_WITHIN_S
        )
        eventually(lambda: marks(cluster.nodes[1]) == marked, TOLD_WITHIN_S)
        live.wait_for_acks(300)

        began = time.monotonic()
        set_for_all(rebalancer, "rebalance.bytes.per.second.max", BUDGET)
        live.wait_for_acks(300)
        live.finish()
    assert live.errors == []
    eventually(lambda: all(LOST not in replicas for replicas in places(rebalancer)), COPIED_WITHIN_S)
    assert time.monotonic() - began > lost_bytes / BUDGET - 1, "a broker receives no more than the budget"
    eventually(lambda: not any(marks(cluster.nodes[1]).values()), TOLD_WITHIN_S)

    set_for_all(rebalancer, "rebalance.mode", "off")
    cluster.nodes[LOST].start()
    kept = directories(cluster.nodes[LOST], FULL)
    assert set(kept) == {f"{FULL}-{number}-stray" for number in range(3)}, "none is adopted"
    assert sum(kept.values()) >= lost_bytes, "what it held is there for the operator, as Kafka keeps it"
    assert set(places(rebalancer)) == {frozenset({1, 2, SPARE})}
    for sent, topic in ((load.sent, FULL), (live.sent, LIVE)):
        assert check(sent, read_everything(cluster, topic)) == []
