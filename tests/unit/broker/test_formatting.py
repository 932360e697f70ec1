"""New data directories get their identity; others keep theirs."""

import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.formatting import Standalone, format_new_directories_blocking
from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId, NodeId
from esp.raft.snapshot import read_voters
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.storage.log_directory import LogDirectory
from tests.unit.controller.samples import SeededRandom

NODE = NodeId(1)
PATH = "/data"
LOG_PATH = "/data/__cluster_metadata-0"
_OTHER = "/other"
_ENDPOINTS = (VoterEndpoint("CONTROLLER", "localhost", 9093),)


class Node:
    """The outside of a node that has not been formatted."""

    def __init__(self, seed=0):
        self.disk = SimulatedDisk(Random(seed))
        clock = SimpleNamespace(wall_ms=lambda: 1_795_000_000_000)
        self.env = SimpleNamespace(disk=self.disk, clock=clock, random=SeededRandom(seed))


def _open(node, *paths):
    return [LogDirectory.open_blocking(node.disk, path) for path in paths]


def _format(node, directories, metadata=None, **changes):
    arguments = {"node_id": NODE, "voters": Standalone(_ENDPOINTS)} | changes
    return format_new_directories_blocking(node.env, directories, metadata or directories[0], **arguments)


def test_new_directories_become_one_new_cluster():
    node = Node()
    first, second = _open(node, PATH, _OTHER)
    cluster_id = _format(node, [first, second])
    assert {first.meta.cluster_id, second.meta.cluster_id} == {cluster_id}
    assert first.meta.directory_id != second.meta.directory_id
    voters = read_voters(node.disk.read_file(f"{LOG_PATH}/00000000000000000000-0000000000.checkpoint"))
    assert voters.keys() == {VoterKey(NODE, first.meta.directory_id)}
    assert voters.voters[0].endpoints == _ENDPOINTS
    for path in (PATH, _OTHER):
        assert node.disk.exists(f"{path}/bootstrap.checkpoint")
    assert not node.disk.exists(f"{_OTHER}/__cluster_metadata-0")


def test_all_nodes_get_the_same_voters_and_each_its_own_directory_id():
    ids = [DirectoryId(uuid.UUID(int=number)) for number in (7, 8)]
    voters = VoterSet(tuple(Voter(VoterKey(NodeId(n), ids[n - 1]), _ENDPOINTS) for n in (1, 2)))
    for number in (1, 2):
        node = Node()
        first, second = _open(node, PATH, _OTHER)
        _format(node, [first, second], node_id=NodeId(number), voters=voters, cluster_id="abcdefghijklmnopqrstuv")
        assert first.meta.directory_id == ids[number - 1]
        assert second.meta.directory_id not in ids
        assert read_voters(node.disk.read_file(f"{LOG_PATH}/00000000000000000000-0000000000.checkpoint")) == voters


def test_a_node_that_joins_gets_no_voters():
    node = Node()
    directories = _open(node, PATH)
    _format(node, directories, voters=None)
    assert node.disk.exists(f"{PATH}/bootstrap.checkpoint")
    assert not node.disk.exists(LOG_PATH)


def test_a_chosen_cluster_id_is_kept():
    node = Node()
    assert _format(node, _open(node, PATH), cluster_id="abcdefghijklmnopqrstuv") == "abcdefghijklmnopqrstuv"


def test_what_is_formatted_stays_as_it_is():
    node = Node()
    directories = _open(node, PATH)
    cluster_id = _format(node, directories)
    changes = node.disk.faults.changes
    assert _format(node, directories) == cluster_id
    assert node.disk.faults.changes == changes


def test_a_new_directory_joins_the_cluster_of_the_others():
    node = Node()
    (first,) = _open(node, PATH)
    cluster_id = _format(node, [first])
    (second,) = _open(node, _OTHER)
    assert _format(node, [first, second]) == cluster_id == second.meta.cluster_id


def test_an_empty_metadata_directory_beside_others_is_refused():
    node = Node()
    (other,) = _open(node, _OTHER)
    _format(node, [other])
    (first,) = _open(node, PATH)
    with pytest.raises(OperatorError, match="is empty, but /other belongs to cluster"):
        _format(node, [first, other])


@pytest.mark.parametrize("name", ["topic-0", "__cluster_metadata-0"])
def test_partitions_without_an_identity_are_refused(name):
    node = Node()
    node.disk.make_directory(f"{PATH}/{name}")
    node.disk.write_file(f"{PATH}/{name}/00000000000000000000.log", b"")
    for metadata, may_be_empty in ((PATH, False), (_OTHER, True)):
        directories = dict(zip((PATH, _OTHER), _open(node, PATH, _OTHER), strict=True))
        with pytest.raises(OperatorError, match=r"holds partitions but no meta\.properties") as found:
            _format(node, list(directories.values()), directories[metadata])
        assert ("an empty directory in its place will do" in found.value.remedy) is may_be_empty
        node.disk.crash()


@pytest.mark.parametrize(
    ("changes", "word"), [({"node_id": NodeId(2)}, "node 1"), ({"cluster_id": "abcdefghijklmnopqrstuv"}, "abcdefgh")]
)
def test_directories_of_others_are_refused(changes, word):
    node = Node()
    directories = _open(node, PATH)
    _format(node, directories)
    with pytest.raises(OperatorError, match=word):
        _format(node, directories, **changes)


def test_a_disk_that_fails_is_the_operators_to_mend():
    node = Node()
    directories = _open(node, PATH)
    node.disk.fail("write", "*bootstrap*")
    with pytest.raises(OperatorError, match="cannot be formatted"):
        _format(node, directories)


@pytest.mark.parametrize("power", [False, True])
def test_a_format_that_was_cut_off_anywhere_is_completed(power):
    for step in range(100):
        node = Node(seed=step)
        directories = _open(node, PATH, _OTHER)
        node.disk.kill_after(step)
        try:
            _format(node, directories)
        except ProcessKilledError:
            if power:
                node.disk.power_loss()
            else:
                node.disk.crash()
            directories = _open(node, PATH, _OTHER)
            _format(node, directories)
            assert all(directory.meta is not None for directory in directories)
            voters = read_voters(node.disk.read_file(f"{LOG_PATH}/00000000000000000000-0000000000.checkpoint"))
            assert voters.keys() == {VoterKey(NODE, directories[0].meta.directory_id)}
        else:
            assert step > 10
            return
    pytest.fail("formatting never ends")


def test_a_copy_of_a_directory_beside_it_is_refused():
    """The controller refuses a broker with one id for two directories, again and again."""
    node = Node()
    first, second = _open(node, PATH, _OTHER)
    _format(node, [first, second])
    node.disk.write_file(f"{_OTHER}/meta.properties", node.disk.read_file(f"{PATH}/meta.properties"))
    first.unlock()
    second.unlock()
    first, second = _open(node, PATH, _OTHER)
    with pytest.raises(OperatorError, match=f"{PATH} and {_OTHER} have the same directory.id"):
        _format(node, [first, second])
