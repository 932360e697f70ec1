import uuid

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId, NodeId
from esp.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties_blocking
from tests.unit.storage.helpers import new_disk

META = MetaProperties("abcdefghijklmnopqrstuv", NodeId(3), DirectoryId(uuid.UUID(int=2**100 + 5)))


def test_it_survives_a_power_loss() -> None:
    disk = new_disk()
    write_meta_properties_blocking(disk, "meta.properties", META)
    disk.power_loss()
    assert read_meta_properties(disk, "meta.properties") == META


def test_a_file_of_kafka_is_understood() -> None:
    text = (
        b"#\n#Sat Nov 21 12:00:00 UTC 2026\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nversion=1\ncluster.id=xyz\n"
    )
    assert MetaProperties.decode(text) == MetaProperties("xyz", NodeId(1), DirectoryId(uuid.UUID(int=1)))


def test_no_file_means_an_unformatted_directory() -> None:
    assert read_meta_properties(new_disk(), "meta.properties") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node.id=1\nversion=1\ncluster.id=xyz\n",
        "node.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nversion=0\ncluster.id=xyz\n",
        "node.id=one\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nversion=1\ncluster.id=xyz\n",
        "node.id=-1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nversion=1\ncluster.id=xyz\n",
        "node.id=1\ndirectory.id=AA\nversion=1\ncluster.id=xyz\n",
        "what is this",
    ],
)
def test_a_damaged_file_is_the_operator_s_to_mend(text: str) -> None:
    disk = new_disk()
    disk.write_file("meta.properties", text.encode())
    with pytest.raises(OperatorError, match=r"meta\.properties"):
        read_meta_properties(disk, "meta.properties")


def test_the_directory_of_another_node_or_cluster_is_refused() -> None:
    META.require("data", cluster_id=META.cluster_id, node_id=NodeId(3))
    META.require("data", cluster_id=None, node_id=NodeId(3))
    with pytest.raises(OperatorError, match=r"belongs to node 3.*node\.id is 4"):
        META.require("data", cluster_id=None, node_id=NodeId(4))
    with pytest.raises(OperatorError, match="belongs to cluster"):
        META.require("data", cluster_id="other", node_id=NodeId(3))
