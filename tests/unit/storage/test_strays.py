"""What a broker held of partitions that went to others while it was away."""

import uuid

import pytest

from esp.model.ids import TopicId
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log_directory import LogDirectory
from tests.unit.storage.helpers import DATA, PARTITION, TOPIC_ID, append, new_disk, new_log

STRAY = f"{DATA}/{PARTITION}.{TOPIC_ID.hex}-stray"


def put_aside(disk: SimulatedDisk, topic_id: TopicId = TOPIC_ID) -> None:
    """The node stops with a replica of two batches, and finds when it starts that this is nobody's."""
    directory = LogDirectory.open_blocking(disk, DATA)
    log = directory.create_log_blocking(PARTITION, topic_id, TopicSettings())
    log.begin_epoch(0)
    for _ in range(2):
        append(log)
    directory.close_blocking(1)
    directory = LogDirectory.open_blocking(disk, DATA)
    directory.mark_stray(PARTITION)
    directory.close_blocking(2)


def strays(disk: SimulatedDisk) -> list[str]:
    return sorted(name for name in disk.listdir(DATA) if name.endswith("-stray"))


def test_replica_that_comes_back_is_begun_anew_beside_its_stray() -> None:
    disk = new_disk()
    put_aside(disk)
    directory, log = new_log(disk)
    assert log.log_end_offset == 0
    assert disk.stat(f"{STRAY}/{0:020d}.log").size > 0
    directory.close_blocking(3)
    assert LogDirectory.open_blocking(disk, DATA).replicas == {PARTITION: TOPIC_ID}


def test_replica_that_is_put_aside_again_takes_no_other_stray_s_place() -> None:
    disk = new_disk()
    for _ in range(3):
        put_aside(disk)
    assert len(strays(disk)) == 3
    put_aside(disk, TopicId(uuid.UUID(int=7)))
    assert len(strays(disk)) == 4


def test_strays_outlive_starts_deletions_and_a_power_loss() -> None:
    disk = new_disk()
    put_aside(disk)
    directory, log = new_log(disk)
    directory.schedule_delete_blocking([log], 0)
    directory.purge(10**12)
    assert [name for name in disk.listdir(DATA) if name.startswith("flights")] == [STRAY.removeprefix(f"{DATA}/")]
    disk.power_loss()
    LogDirectory.open_blocking(disk, DATA).purge(10**13)
    assert disk.stat(f"{STRAY}/{0:020d}.log").size > 0


def test_operator_hears_of_them_at_each_start(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    put_aside(disk)
    size = sum(disk.stat(f"{STRAY}/{name}").size for name in disk.listdir(STRAY))
    for epoch in (3, 4):
        caplog.clear()
        LogDirectory.open_blocking(disk, DATA).close_blocking(epoch)
        assert f"{DATA}: 1 directories that end in -stray, {size} bytes" in caplog.text
    disk.remove_tree(STRAY)
    caplog.clear()
    LogDirectory.open_blocking(disk, DATA)
    assert "stray" not in caplog.text
