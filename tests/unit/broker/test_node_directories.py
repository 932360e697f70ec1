from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.node_directories import controller_endpoints, open_directories_blocking
from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.settings.addresses import Listener, QuorumServer, QuorumVoter
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.last_stop import previous_broker_epoch
from tests.unit.broker.simulated_node import SETTINGS
from tests.unit.controller.samples import SeededRandom


def new_env():
    return SimpleNamespace(
        disk=SimulatedDisk(Random(0)),
        random=SeededRandom(),
        clock=SimpleNamespace(wall_ms=lambda: 1),
        host=SimpleNamespace(name="machine"),
    )


def settings(*log_dirs, metadata=None, **changes):
    return replace(SETTINGS, log_dirs=log_dirs, metadata_log_dir=metadata or log_dirs[0], **changes)


def test_new_directories_get_one_cluster_and_an_id_each():
    opened = open_directories_blocking(new_env(), settings("/a", "/b"))
    assert {directory.meta.cluster_id for directory in opened.all} == {opened.cluster_id}
    assert len(set(opened.ids)) == 2
    assert opened.metadata is opened.data[0]
    assert opened.all == opened.data


def test_the_metadata_log_may_have_a_directory_of_its_own():
    env = new_env()
    opened = open_directories_blocking(env, settings("/a", metadata="/m"))
    assert opened.metadata.path == "/m"
    assert [directory.path for directory in opened.all] == ["/a", "/m"]
    assert len(opened.ids) == 1, "the metadata directory holds no replicas of topics"
    assert env.disk.exists("/m/__cluster_metadata-0")
    assert not env.disk.exists("/a/__cluster_metadata-0")


def test_directories_are_found_again_whatever_their_order():
    env = new_env()
    first = open_directories_blocking(env, settings("/a", "/b"))
    env.disk.crash()
    second = open_directories_blocking(env, settings("/b", "/a", metadata="/a"))
    assert second.cluster_id == first.cluster_id
    assert second.ids == first.ids[::-1]


def test_a_directory_that_another_process_uses_is_refused():
    env = new_env()
    open_directories_blocking(env, settings("/a"))
    with pytest.raises(OperatorError, match="in use"):
        open_directories_blocking(env, settings("/a"))


@pytest.mark.parametrize("changes", [{"node_id": 2}])
def test_a_directory_of_another_node_is_refused(changes):
    env = new_env()
    open_directories_blocking(env, settings("/a"))
    env.disk.crash()
    with pytest.raises(OperatorError):
        open_directories_blocking(env, settings("/a", **changes))


def test_a_directory_that_is_added_joins_the_cluster_and_the_last_stop_counts_as_unclean():
    env = new_env()
    opened = open_directories_blocking(env, settings("/a"))
    for directory in opened.all:
        directory.close_blocking(7)
    again = open_directories_blocking(env, settings("/a", "/b"))
    assert again.cluster_id == opened.cluster_id
    assert previous_broker_epoch(again.all, "boot") == -1


TWO_VOTERS = (QuorumVoter(NodeId(1), "a", 9093), QuorumVoter(NodeId(2), "b", 9093))


@pytest.mark.parametrize(
    "changes",
    [
        {"controller_quorum_voters": TWO_VOTERS},
        {"controller_quorum_bootstrap_servers": (QuorumServer("b", 9093),)},
        {"process_roles": ("broker",), "controller_quorum_bootstrap_servers": (QuorumServer("b", 9093),)},
    ],
)
def test_a_node_that_is_told_of_other_controllers_does_not_begin_a_cluster_by_itself(changes):
    env = new_env()
    with pytest.raises(OperatorError, match="not formatted") as caught:
        open_directories_blocking(env, settings("/a", **changes))
    assert "esp format --cluster-id" in caught.value.remedy
    assert not env.disk.exists("/a/meta.properties")


def test_a_formatted_node_that_is_told_of_other_controllers_formats_a_directory_that_is_added():
    env = new_env()
    opened = open_directories_blocking(env, settings("/a"))
    env.disk.crash()
    again = open_directories_blocking(env, settings("/a", "/b", controller_quorum_voters=TWO_VOTERS))
    assert again.cluster_id == opened.cluster_id
    assert not env.disk.exists("/b/__cluster_metadata-0")


def test_the_epoch_of_an_orderly_stop_is_remembered_by_all_directories():
    env = new_env()
    for directory in open_directories_blocking(env, settings("/a", "/b")).all:
        directory.close_blocking(7)
    assert previous_broker_epoch(open_directories_blocking(env, settings("/a", "/b")).all, "boot") == 7


def test_a_controller_listener_without_a_host_is_told_by_the_machines_own_name():
    told = (Listener("CONTROLLER", "", 9093),)
    [endpoint] = controller_endpoints(settings("/a", advertised_controller_listeners=told), "machine")
    assert endpoint == ("CONTROLLER", "machine", 9093)
