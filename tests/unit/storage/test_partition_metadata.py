"""partition.metadata: whole or not at all, in Kafka's two lines."""

import uuid
from random import Random

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import TopicId
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.partition_metadata import read_topic_id, write_topic_id, write_topic_id_blocking

TOPIC_ID = TopicId(uuid.UUID("3b1f02f0-5ea5-4fb3-8e93-2b1f3d9a3a01"))


def new_disk():
    disk = SimulatedDisk(Random(0))
    disk.make_directory("/r")
    return disk


def test_what_is_written_is_read_and_has_kafkas_two_lines():
    disk = new_disk()
    write_topic_id(disk, "/r", TOPIC_ID)
    assert read_topic_id(disk, "/r") == TOPIC_ID
    assert disk.read_file("/r/partition.metadata") == b"version: 0\ntopic_id: Ox8C8F6lT7OOkysfPZo6AQ"


def test_a_missing_file_is_nothing_a_damaged_one_is_the_operators_to_mend():
    disk = new_disk()
    assert read_topic_id(disk, "/r") is None
    for damaged in (b"", b"version: 0\n", b"version: 0\ntopic_id: ???", b"\xff\xfe"):
        disk.write_file("/r/partition.metadata", damaged)
        with pytest.raises(OperatorError, match="cannot be read"):
            read_topic_id(disk, "/r")


def test_a_power_loss_leaves_the_file_whole_or_not_there():
    for seed in range(50):
        disk = SimulatedDisk(Random(seed))
        disk.make_directory("/r")
        disk.sync_directory_blocking("/")
        write_topic_id_blocking(disk, "/r", TOPIC_ID)
        disk.power_loss()
        assert read_topic_id(disk, "/r") in (TOPIC_ID, None)
