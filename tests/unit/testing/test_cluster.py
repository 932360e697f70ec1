"""How the nodes of a cluster are set up; that it runs is shown by the tests that use it."""

from pathlib import Path

from esp.testing.cluster import Cluster
from esp.testing.node_networks import ProxyNetwork


def test_nodes_know_each_other(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3, {"num.partitions": "4"}, node_settings={2: {"broker.rack": "b"}})
    settings = {number: node.settings for number, node in cluster.nodes.items()}
    assert [one["node.id"] for one in settings.values()] == ["1", "2", "3"]
    assert len({one["controller.quorum.bootstrap.servers"] for one in settings.values()}) == 1
    assert settings[1]["controller.quorum.bootstrap.servers"].count("127.0.0.1:") == 3
    assert all(one["num.partitions"] == "4" and one["min.insync.replicas"] == "2" for one in settings.values())
    assert "broker.rack" not in settings[1]
    assert settings[2]["broker.rack"] == "b"
    assert cluster.bootstrap == ",".join(node.bootstrap for node in cluster.nodes.values())


def test_a_node_beyond_the_voters_is_a_broker(tmp_path: Path) -> None:
    node = Cluster(tmp_path, 1).make(2)
    assert node.settings["process.roles"] == "broker"
    assert "CONTROLLER" not in node.settings["listeners"]
    assert node.data_dir == tmp_path / "node-2"


def test_behind_proxies_nodes_are_known_by_the_proxies_ports(tmp_path: Path) -> None:
    network = ProxyNetwork()
    cluster = Cluster(tmp_path, 2, network=network)
    try:
        one = cluster.nodes[1]
        assert one.settings["listeners"].startswith(f"PLAINTEXT://127.0.0.1:{one.port},")
        public = network.public_port(1, one.port)
        assert public != one.port
        assert one.settings["advertised.listeners"].startswith(f"PLAINTEXT://127.0.0.1:{public},")
        assert cluster.bootstrap.startswith(f"127.0.0.1:{public},")
    finally:
        cluster.close()
