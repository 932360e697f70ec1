import uuid

import pytest

from esp.model.ids import TopicId, TopicPartition
from esp.storage.layout import (
    DirectoryKind,
    DirectoryName,
    marked_directory_name,
    offset_file_name,
    parse_directory_name,
    parse_offset_file_name,
    replica_directory_name,
)

UNIQUE = TopicId(uuid.UUID(int=7))


def test_segment_files_are_named_by_twenty_digits() -> None:
    assert offset_file_name(4711, ".log") == "00000000000000004711.log"
    assert parse_offset_file_name("00000000000000004711.log") == (4711, ".log")


@pytest.mark.parametrize("name", ["0.log", "00000000000000004711.log.deleted", "leader-epoch-checkpoint", ".lock"])
def test_other_files_belong_to_no_offset(name: str) -> None:
    assert parse_offset_file_name(name) is None


@pytest.mark.parametrize("topic", ["t", "a-b.c_d-1", "a.b-2"])
def test_replica_directories_are_read_back(topic: str) -> None:
    partition = TopicPartition(topic, 12)
    assert parse_directory_name(replica_directory_name(partition)) == DirectoryName(partition, DirectoryKind.REPLICA)
    for kind in (DirectoryKind.DELETE, DirectoryKind.STRAY, DirectoryKind.FUTURE):
        assert parse_directory_name(marked_directory_name(partition, UNIQUE, kind)) == DirectoryName(partition, kind)


def test_names_of_long_topics_are_cut_to_what_file_systems_allow() -> None:
    name = marked_directory_name(TopicPartition("x" * 249, 99), UNIQUE, DirectoryKind.DELETE)
    assert len(name) == 255
    parsed = parse_directory_name(name)
    assert parsed is not None
    assert parsed.partition.partition == 99


@pytest.mark.parametrize("name", ["meta.properties", "nodigits-", "-3"])
def test_other_directories_are_no_replicas(name: str) -> None:
    assert parse_directory_name(name) is None
