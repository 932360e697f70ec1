import socket

import pytest

from esp.cli.node.cluster_plan import (
    CLUSTER_FILE,
    ClusterPlan,
    NodeEntry,
    format_added_node,
    format_cluster,
    read_cluster_file,
    require_free_ports,
    write_cluster_file,
)
from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.raft.snapshot import read_voters
from esp.runtime.env import real_env
from esp.settings.node import load_broker_settings
from esp.storage.meta_properties import read_meta_properties
from esp.testing.ports import free_port

FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def plan(path, nodes=3, port=20_000, overrides=None, **changes):
    return ClusterPlan(directory=path, nodes=nodes, port=port, overrides=overrides or {}, **changes)


def meta(path, node):
    return read_meta_properties(real_env().disk, f"{path}/node-{node}/meta.properties")


def voters(path, node):
    return read_voters((path / f"node-{node}" / FIRST_SNAPSHOT).read_bytes())


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [(1, (1,)), (2, (1,)), (3, (1, 2, 3)), (4, (1, 2, 3)), (5, (1, 2, 3, 4, 5)), (7, (1, 2, 3, 4, 5))],
)
def test_an_odd_number_of_nodes_votes(tmp_path, nodes, expected):
    assert plan(tmp_path, nodes).voter_ids == expected


def test_settings_name_what_tells_the_nodes_apart(tmp_path):
    settings = plan(tmp_path).settings_of(NodeId(2))
    assert settings["node.id"] == "2"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20101"
    assert settings["controller.quorum.bootstrap.servers"] == "127.0.0.1:20100,127.0.0.1:20101,127.0.0.1:20102"
    assert settings["log.dirs"] == str(tmp_path / "node-2")


def test_a_node_that_does_not_vote_is_a_broker_only(tmp_path):
    settings = plan(tmp_path, 4).settings_of(NodeId(4))
    assert settings["process.roles"] == "broker"
    assert "CONTROLLER" not in settings["listeners"]


def test_three_copies_are_kept_from_three_nodes_on_unless_told_otherwise(tmp_path):
    assert "min.insync.replicas" not in plan(tmp_path, 2).settings_of(NodeId(1))
    default = plan(tmp_path, 3).settings_of(NodeId(1))
    assert (default["default.replication.factor"], default["min.insync.replicas"]) == ("3", "2")
    chosen = plan(tmp_path, 3, overrides={"min.insync.replicas": "1"}).settings_of(NodeId(1))
    assert (chosen["default.replication.factor"], chosen["min.insync.replicas"]) == ("3", "1")


def test_each_node_may_be_a_rack(tmp_path):
    assert "broker.rack" not in plan(tmp_path).settings_of(NodeId(1))
    assert plan(tmp_path, rack_per_node=True).settings_of(NodeId(3))["broker.rack"] == "rack-3"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"overrides": {"node.id": "4"}}, "node.id"),
        ({"overrides": {"log.dirs": "/x"}}, "log.dirs"),
        ({"port": 65_500}, "--port"),
        ({"port": 0}, "--port"),
        ({"nodes": 101}, "--port"),
    ],
)
def test_what_the_cluster_decides_itself_and_what_has_no_room_is_refused(tmp_path, changes, word):
    with pytest.raises(OperatorError, match=word):
        plan(tmp_path, **changes)


def test_a_directory_with_a_comma_is_refused(tmp_path):
    with pytest.raises(OperatorError, match="commas"):
        plan(tmp_path / "a,b")


def test_the_written_settings_are_those_of_the_plan(tmp_path):
    chosen = plan(tmp_path, overrides={"num.partitions": "7"})
    settings = chosen.write_config(NodeId(1))
    text = (tmp_path / "node-1.properties").read_text()
    assert settings == load_broker_settings(text)
    assert (settings.num_partitions, settings.default_replication_factor) == (7, 3)
    assert not settings.is_quorum_of_its_own


def test_all_nodes_of_a_new_cluster_know_the_same_voters(tmp_path):
    format_cluster(real_env(), plan(tmp_path, 4))
    metas = {node: meta(tmp_path, node) for node in (1, 2, 3, 4)}
    assert len({one.cluster_id for one in metas.values()}) == 1
    expected = {(node, metas[node].directory_id) for node in (1, 2, 3)}
    assert [voters(tmp_path, node).keys() for node in (1, 2, 3, 4)] == [expected] * 4


def test_what_is_formatted_stays_and_a_lost_disk_gets_another_identity_and_no_vote(tmp_path):
    env, chosen = real_env(), plan(tmp_path)
    format_cluster(env, chosen)
    write_cluster_file(tmp_path, chosen.entries({}))
    before = {node: meta(tmp_path, node) for node in (1, 2, 3)}
    (tmp_path / "node-2/meta.properties").unlink()
    env.disk.remove_tree(f"{tmp_path}/node-2")
    format_cluster(env, chosen)
    after = {node: meta(tmp_path, node) for node in (1, 2, 3)}
    assert (after[1], after[3]) == (before[1], before[3])
    assert after[2].cluster_id == before[2].cluster_id
    assert after[2].directory_id != before[2].directory_id
    assert not (tmp_path / "node-2" / FIRST_SNAPSHOT).exists()


def test_a_cluster_whose_making_was_cut_off_is_not_run(tmp_path):
    format_cluster(real_env(), plan(tmp_path))
    with pytest.raises(OperatorError, match="was interrupted"):
        format_cluster(real_env(), plan(tmp_path))


def test_the_file_says_who_runs_where(tmp_path):
    entries = plan(tmp_path).entries({NodeId(1): 77})
    write_cluster_file(tmp_path, entries)
    assert read_cluster_file(tmp_path) == entries
    assert entries[0] == NodeEntry(1, 77, "127.0.0.1", 20_000, str(tmp_path / "node-1"))
    assert entries[0].address == "127.0.0.1:20000"
    assert entries[1].pid == 0


def test_a_file_that_is_missing_or_damaged_is_told(tmp_path):
    with pytest.raises(OperatorError, match="holds no cluster"):
        read_cluster_file(tmp_path)
    (tmp_path / CLUSTER_FILE).write_text("{")
    with pytest.raises(OperatorError, match="cannot be read"):
        read_cluster_file(tmp_path)


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path):
    chosen = plan(tmp_path, 2, free_port())
    require_free_ports(chosen)
    taken = socket.create_server(("127.0.0.1", chosen.controller_port_of(NodeId(2))))
    with taken, pytest.raises(OperatorError, match="Node 2 cannot listen on"):
        require_free_ports(chosen)


def test_node_that_is_added_is_of_the_cluster_and_leaves_the_others_alone(tmp_path):
    three = plan(tmp_path, overrides={"num.partitions": "7"})
    format_cluster(real_env(), three)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.properties")}
    four = three.with_one_more()
    format_added_node(real_env(), four)
    assert meta(tmp_path, 4).cluster_id == meta(tmp_path, 1).cluster_id
    settings = load_broker_settings((tmp_path / "node-4.properties").read_text())
    assert (settings.node_id, settings.num_partitions) == (4, 7)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert not (tmp_path / "node-4" / FIRST_SNAPSHOT).exists() or not voters(tmp_path, 4)


def test_node_without_a_port_is_not_added(tmp_path):
    with pytest.raises(OperatorError, match="would need the ports up to"):
        plan(tmp_path, nodes=3, port=65_433).with_one_more()
