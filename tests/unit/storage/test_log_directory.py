"""One entry of log.dirs: lock, identity, clean stop, replicas, checkpoints."""

import uuid
from contextlib import suppress

import pytest

from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import BrokerEpoch, DirectoryId, NodeId, TopicId, TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.simulation.machine.disk_image import make_tree, take_image
from esp.storage.last_stop import previous_broker_epoch
from esp.storage.layout import RUNNING_FILE
from esp.storage.log_directory import LogDirectory
from esp.storage.meta_properties import MetaProperties
from esp.storage.settling import settle_all_blocking
from tests.unit.storage.helpers import DATA, PARTITION, REPLICA, TOPIC_ID, append, new_disk, new_log, read_all, reopen

OTHER_ID = TopicId(uuid.UUID(int=99))


def test_a_directory_that_is_in_use_is_refused() -> None:
    disk = new_disk()
    first = LogDirectory.open_blocking(disk, DATA)
    with pytest.raises(OperatorError, match="in use by another process"):
        LogDirectory.open_blocking(disk, DATA)
    first.close_blocking(1)
    LogDirectory.open_blocking(disk, DATA)


def test_a_path_that_is_no_directory_is_refused() -> None:
    disk = new_disk()
    disk.write_file(DATA, b"")
    with pytest.raises(OperatorError, match="cannot be used"):
        LogDirectory.open_blocking(disk, DATA)


def test_a_damaged_identity_is_refused_and_the_lock_released() -> None:
    disk = new_disk()
    disk.make_directory(DATA)
    disk.write_file(f"{DATA}/meta.properties", b"garbage")
    for _ in range(2):
        with pytest.raises(OperatorError, match=r"meta\.properties"):
            LogDirectory.open_blocking(disk, DATA)


def test_a_formatted_directory_keeps_its_identity() -> None:
    disk = new_disk()
    meta = MetaProperties("cluster", NodeId(1), DirectoryId(uuid.UUID(int=3)))
    directory = LogDirectory.open_blocking(disk, DATA)
    assert directory.meta is None
    directory.format_blocking(meta)
    disk.power_loss()
    assert LogDirectory.open_blocking(disk, DATA).meta == meta


# --- the marker of an orderly stop -------------------------------------------------------------------------------------------------


def test_the_marker_is_kafka_s_and_gone_for_good_after_the_start() -> None:
    disk = new_disk()
    directory, _ = new_log(disk)
    directory.close_blocking(1341)
    assert disk.read_file(f"{DATA}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":1341}'
    directory, _ = reopen(disk)
    assert directory.clean_broker_epoch == 1341
    disk.power_loss()
    directory = LogDirectory.open_blocking(disk, DATA)
    assert (directory.was_clean, directory.clean_broker_epoch) == (False, -1)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version":0,"brokerEpoch":null}', b"\xff"])
def test_an_unreadable_marker_means_an_unclean_stop(content: bytes) -> None:
    disk = new_disk()
    directory, _ = new_log(disk)
    directory.close_blocking(1)
    disk.write_file(f"{DATA}/.kafka_cleanshutdown", content)
    directory, log = reopen(disk)
    assert not directory.was_clean
    assert log.log_end_offset == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_marker_that_a_cut_off_start_removed_does_not_come_back(seed: int) -> None:
    disk = new_disk(seed)
    directory, _ = new_log(disk)
    directory.close_blocking(7)
    disk.crash()
    disk.remove(f"{DATA}/.kafka_cleanshutdown")  # the start died before it synced that
    disk.crash()
    assert not LogDirectory.open_blocking(disk, DATA).was_clean
    disk.power_loss()
    assert not LogDirectory.open_blocking(disk, DATA).was_clean


def test_a_stop_that_fails_leaves_no_marker_but_releases_the_lock() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    disk.fail("sync", "*.log")
    with pytest.raises(OSError, match="Input/output"):
        directory.close_blocking(1)
    assert not disk.exists(f"{DATA}/.kafka_cleanshutdown")
    assert not reopen(disk)[0].was_clean


def survived(disk: SimulatedDisk, boot_id: str = "boot") -> int:
    """The broker epoch of which the directory says, to the next process, that nothing was lost."""
    disk.crash()
    directory = LogDirectory.open_blocking(disk, DATA)
    epoch = previous_broker_epoch([directory], boot_id)
    directory.unlock()
    return epoch


def test_who_is_killed_has_lost_nothing_as_long_as_the_machine_runs() -> None:
    """BRK-3."""
    disk = new_disk()
    directory, log = new_log(disk)
    directory.running_marker.write("boot", 7)  # type: ignore[arg-type]
    append(log)
    assert survived(disk) == 7
    assert survived(disk, "next boot") == -1
    assert survived(disk) == 7, "who is killed before it has registered has changed nothing"


def test_a_copy_of_a_directory_in_which_a_process_ran_is_not_what_it_left() -> None:
    """BRK-3: a copy that was taken while the process ran says the same of boot and epoch, and lacks what came after it."""
    disk = new_disk()
    directory, log = new_log(disk)
    directory.running_marker.write("boot", 7)  # type: ignore[arg-type]
    image = take_image(disk, DATA, lambda _path: True)
    append(log)
    disk.crash()
    disk.install(make_tree(image))
    assert survived(disk) == -1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"brokerEpoch":7}', b'{"brokerEpoch":"x","bootId":"boot"}'])
def test_a_running_marker_that_was_cut_off_says_nothing(content: bytes) -> None:
    disk = new_disk()
    new_log(disk)
    disk.write_file(f"{DATA}/{RUNNING_FILE}", content)
    assert survived(disk) == -1


def test_what_a_failed_sync_may_have_dropped_is_not_taken_for_whole() -> None:
    """SYNC-1: the kernel forgets what it could not write, and the next process would not notice."""
    disk = new_disk()
    directory, log = new_log(disk)
    directory.running_marker.write("boot", 7)  # type: ignore[arg-type]
    append(log)
    disk.fail("sync", "*.log")
    with pytest.raises(OSError, match="Input/output"):
        log.flush_blocking()
    assert survived(disk) == -1


def test_an_orderly_stop_replaces_the_running_marker() -> None:
    disk = new_disk()
    directory, _ = new_log(disk)
    directory.running_marker.write("boot", 6)  # type: ignore[arg-type]
    directory.close_blocking(7)  # type: ignore[arg-type]
    assert not disk.exists(f"{DATA}/{RUNNING_FILE}")
    assert survived(disk, "next boot") == 7


def test_directories_must_agree_about_the_broker_epoch() -> None:
    disk = new_disk()
    for path, epoch in (("a", 5), ("b", 5), ("c", 6)):
        LogDirectory.open_blocking(disk, path).close_blocking(epoch)  # type: ignore[arg-type]
    a, b, c = (LogDirectory.open_blocking(disk, path) for path in "abc")
    fresh = LogDirectory.open_blocking(disk, "d")
    assert previous_broker_epoch([a, b], "boot") == 5
    assert previous_broker_epoch([a, b, c], "boot") == -1
    assert previous_broker_epoch([a, fresh], "boot") == -1
    assert previous_broker_epoch([], "boot") == -1


# --- replicas ----------------------------------------------------------------------------------------------------------------------


def test_replicas_are_listed_with_the_topic_ids_they_say() -> None:
    disk = new_disk()
    directory, _ = new_log(disk)
    disk.make_directory(f"{DATA}/no-id-7")
    disk.write_file(f"{DATA}/no-id-7/{0:020d}.log", b"")
    disk.make_directory(f"{DATA}/begun-1")
    disk.make_directory(f"{DATA}/lost+found")
    directory.close_blocking(1)
    directory = LogDirectory.open_blocking(disk, DATA)
    assert directory.replicas == {PARTITION: TOPIC_ID, TopicPartition("no-id", 7): None}
    with pytest.raises(CorruptionError, match=r"partition\.metadata"):
        directory.load_log_blocking(TopicPartition("no-id", 7), TopicSettings(), 0)


@pytest.mark.parametrize("changes", range(12))
def test_a_creation_that_was_cut_off_is_taken_over(changes: int) -> None:
    disk = new_disk()
    directory = LogDirectory.open_blocking(disk, DATA)
    directory.write_checkpoints_blocking()
    disk.kill_after(changes)
    with suppress(ProcessKilledError):
        directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
    disk.power_loss()
    directory = LogDirectory.open_blocking(disk, DATA)
    if directory.replicas.get(PARTITION) is None:
        log = directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
    else:
        log = directory.load_log_blocking(PARTITION, TopicSettings(), 0)
    append(log)
    assert len(read_all(log)) == 1


def test_a_created_log_survives_a_power_loss_from_its_first_flush_on() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    log.flush_blocking()
    disk.power_loss()
    _, log = reopen(disk)
    assert log.topic_id == TOPIC_ID


@pytest.mark.parametrize("content", [b"", b"version: 0", b"version: 0\ntopic_id: x", b"\xff"])
def test_a_replica_whose_identity_is_damaged_is_the_operator_s_to_mend(content: bytes) -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    directory.close_blocking(1)
    disk.write_file(f"{REPLICA}/partition.metadata", content)
    with pytest.raises(OperatorError, match=r"partition\.metadata cannot be read"):
        LogDirectory.open_blocking(disk, DATA)


def test_making_logs_and_stopping_without_a_record_in_them_syncs_nothing_of_theirs() -> None:
    disk = new_disk()
    directory = LogDirectory.open_blocking(disk, DATA)
    disk.fail("sync", f"{DATA}/flights-*")
    for number in range(5):
        directory.create_log_blocking(TopicPartition("flights", number), TOPIC_ID, TopicSettings()).begin_epoch(7)
    directory.close_blocking(1)
    for _ in range(2):
        directory, _log = reopen(disk)
        assert directory.was_clean
        directory.close_blocking(1)


def test_what_failed_while_logs_were_settled_is_not_synced_again_when_they_are_closed() -> None:
    """SYNC-1: the second sync of lost pages would succeed, and the directory would count as clean (REC-1)."""
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    disk.fail("sync", f"{REPLICA}*")
    assert directory.begin_to_close_blocking() == [log]
    settle_all_blocking([log])
    disk.heal()
    with pytest.raises(OSError, match=REPLICA):
        directory.close_blocking(1)
    disk.power_loss()
    assert not LogDirectory.open_blocking(disk, DATA).was_clean


def test_logs_that_were_settled_are_closed_without_another_sync() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    settle_all_blocking(directory.begin_to_close_blocking())
    assert directory.begin_to_close_blocking() == []
    disk.fail("sync", f"{REPLICA}*")
    directory.close_blocking(1)
    disk.heal()
    disk.power_loss()
    directory, log = reopen(disk)
    assert directory.was_clean
    assert log.log_end_offset == 1


def test_a_log_that_nobody_wrote_to_since_an_orderly_stop_is_closed_without_a_sync() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    directory.close_blocking(1)
    directory, log = reopen(disk)
    log.begin_epoch(7)
    disk.fail("sync", f"{REPLICA}*")
    directory.close_blocking(1)
    disk.heal()
    disk.power_loss()
    _, log = reopen(disk)
    assert len(read_all(log)) == 1
    assert log.leader_epochs.epoch_of(0) == 0


@pytest.mark.parametrize("seed", range(20))
def test_an_orderly_stop_makes_a_log_durable_that_was_written_to_after_one_that_did_not(seed: int) -> None:
    disk = new_disk(seed)
    directory, _ = new_log(disk)
    directory.close_blocking(1)
    directory, log = reopen(disk)
    append(log)
    directory.close_blocking(1)
    disk.power_loss()
    _, log = reopen(disk)
    assert (log.topic_id, len(read_all(log))) == (TOPIC_ID, 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_follows_from_a_later_offset_on_is_known_before_its_recovery_point_is(seed: int) -> None:
    disk = new_disk(seed)
    directory, log = new_log(disk)
    log.truncate_fully_and_start_at(500)
    disk.power_loss()
    directory = LogDirectory.open_blocking(disk, DATA)
    assert directory.replicas.get(PARTITION, TOPIC_ID) in (TOPIC_ID, None), "never damaged"


def test_a_log_that_is_begun_again_begins_at_its_beginning() -> None:
    """A power loss took the front of it, what was in it, and whose it is: names go one by one."""
    disk = new_disk()
    LogDirectory.open_blocking(disk, DATA).close_blocking(1)
    disk.make_directory(REPLICA)
    for suffix in ("log", "index", "timeindex"):
        disk.write_file(f"{REPLICA}/{14:020d}.{suffix}", b"")
    directory = LogDirectory.open_blocking(disk, DATA)
    log = directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
    assert (log.log_start_offset, log.first_segment_offset, log.log_end_offset) == (0, 0, 0)


def nameless(disk: SimulatedDisk, content: bytes | None) -> None:
    """What a power loss may leave of a log that was never flushed: its records, and not whose they are."""
    directory, log = new_log(disk)
    directory.running_marker.write("boot", 7)  # type: ignore[arg-type]
    append(log)
    disk.crash()
    disk.remove(f"{REPLICA}/partition.metadata")
    if content is not None:
        disk.write_file(f"{REPLICA}/partition.metadata", content)


@pytest.mark.parametrize("content", [None, b"", b"version: 0\ntopic_id: Ox8C8F6lT7OO", bytes(43)])
def test_records_of_which_nobody_knows_the_topic_are_put_aside_and_not_called_whole(content: bytes | None) -> None:
    """They may be those of an earlier topic of that name (REASSIGN-4, BRK-3)."""
    disk = new_disk()
    nameless(disk, content)
    directory = LogDirectory.open_blocking(disk, DATA)
    assert directory.replicas == {}
    assert previous_broker_epoch([directory], "boot") == -1
    assert [name for name in disk.listdir(DATA) if name.endswith("-stray")]
    assert not read_all(directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings()))


@pytest.mark.parametrize("content", [None, b"", bytes(43)])
def test_an_empty_log_of_which_nobody_knows_the_topic_is_begun_again(content: bytes | None) -> None:
    disk = new_disk()
    directory, _ = new_log(disk)
    directory.close_blocking(1)
    disk.remove(f"{REPLICA}/partition.metadata")
    if content is not None:
        disk.write_file(f"{REPLICA}/partition.metadata", content)
    directory = LogDirectory.open_blocking(disk, DATA)
    assert directory.replicas == {PARTITION: None}
    log = directory.create_log_blocking(PARTITION, OTHER_ID, TopicSettings())
    assert (log.topic_id, log.log_end_offset) == (OTHER_ID, 0)


def test_a_topic_that_comes_again_costs_one_write_of_each_checkpoint() -> None:
    disk = new_disk()
    directory = LogDirectory.open_blocking(disk, DATA)
    names = [TopicPartition("flights", number) for number in range(10)]
    logs = [directory.create_log_blocking(name, TOPIC_ID, TopicSettings()) for name in names]
    for log in logs:
        append(log)
        log.high_watermark = 1
        log.flush_blocking()
    directory.write_checkpoints_blocking()
    directory.schedule_delete_blocking(logs, 0)
    disk.fail("sync", "*", after=6)  # recovery points, log starts and high watermarks: the file, and its name
    for name in names:
        directory.create_log_blocking(name, OTHER_ID, TopicSettings())
    disk.heal()
    disk.power_loss()
    assert disk.read_file(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n0\n"


def test_logs_are_put_aside_with_one_sync() -> None:
    disk = new_disk()
    directory = LogDirectory.open_blocking(disk, DATA)
    names = [TopicPartition("flights", number) for number in range(5)]
    logs = [directory.create_log_blocking(name, TOPIC_ID, TopicSettings()) for name in names]
    disk.fail("sync", "*", after=1)
    directory.schedule_delete_blocking(logs, 0)
    disk.power_loss()
    assert not any(name.startswith("flights") and not name.endswith("-delete") for name in disk.listdir(DATA))


def test_a_deleted_log_is_put_aside_and_removed_later() -> None:
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(file_delete_delay_ms=100))
    append(log)
    directory.schedule_delete_blocking([log], 1000)
    aside = f"{DATA}/flights-3.{TOPIC_ID.hex}-delete"
    assert disk.exists(aside)
    assert not disk.exists(REPLICA)
    assert (directory.logs, directory.replicas) == ({}, {})
    directory.purge(1099)
    assert disk.exists(aside)
    directory.purge(1100)
    assert not disk.exists(aside)


def test_a_put_aside_log_is_removed_after_a_restart_too() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    directory.schedule_delete_blocking([log], 1000)
    directory.close_blocking(1)
    directory = LogDirectory.open_blocking(disk, DATA)
    assert directory.replicas == {}
    assert directory.purge(0) == 1
    assert not any(name.endswith("-delete") for name in disk.listdir(DATA))


def test_a_topic_of_the_same_name_inherits_nothing_from_a_deleted_one() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    for _ in range(5):
        append(log)
    log.high_watermark = 5
    log.raise_log_start(3)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    directory.schedule_delete_blocking([log], 0)
    log = directory.create_log_blocking(PARTITION, OTHER_ID, TopicSettings())
    append(log)
    disk.crash()
    _, log = reopen(disk)
    assert (log.topic_id, log.log_start_offset, log.high_watermark, log.log_end_offset) == (OTHER_ID, 0, 0, 1)


def test_the_same_replica_can_be_put_aside_twice() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    directory.schedule_delete_blocking([log], 0)
    directory.schedule_delete_blocking([directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())], 0)
    assert sum(name.endswith("-delete") for name in disk.listdir(DATA)) == 2
    assert directory.purge(10**9) == 2


def test_a_stray_replica_is_kept_for_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    directory.close_blocking(1)
    directory = LogDirectory.open_blocking(disk, DATA)
    directory.mark_stray(PARTITION)
    stray = f"{DATA}/flights-3.{TOPIC_ID.hex}-stray"
    assert disk.exists(f"{stray}/{0:020d}.log")
    assert "renamed" in caplog.text
    directory.purge(10**12)
    directory.close_blocking(1)
    assert LogDirectory.open_blocking(disk, DATA).replicas == {}
    assert disk.exists(stray)


# --- checkpoints -------------------------------------------------------------------------------------------------------------------


def test_checkpoints_hold_what_kafka_s_hold() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    for _ in range(5):
        append(log)
    log.high_watermark = 4
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    assert disk.read_file(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\nflights 3 5\n"
    assert disk.read_file(f"{DATA}/replication-offset-checkpoint") == b"0\n1\nflights 3 4\n"
    assert disk.read_file(f"{DATA}/log-start-offset-checkpoint") == b"0\n1\nflights 3 0\n", "Kafka leaves this one out"
    log.raise_log_start(2)
    directory.write_checkpoints_blocking()
    assert disk.read_file(f"{DATA}/log-start-offset-checkpoint") == b"0\n1\nflights 3 2\n"


def test_damaged_checkpoints_never_stop_the_start() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    log.high_watermark = 1
    directory.close_blocking(1)
    for name in ("recovery-point", "log-start", "replication"):
        disk.write_file(f"{DATA}/{name}-offset-checkpoint", b"\xff garbage")
    for was_clean in (True, False):
        directory, log = reopen(disk)
        assert directory.was_clean is was_clean
        assert (log.log_end_offset, log.high_watermark) == (1, 0)
        disk.crash()


def test_entries_of_replicas_that_are_not_loaded_are_kept() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    log.high_watermark = 1
    directory.close_blocking(1)
    directory = LogDirectory.open_blocking(disk, DATA)
    directory.write_checkpoints_blocking()
    assert disk.read_file(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\nflights 3 1\n"


def test_a_log_that_was_created_before_a_crash_is_durable_once_it_is_flushed() -> None:
    disk = new_disk()
    new_log(disk)
    disk.crash()
    _, log = reopen(disk)
    append(log)
    log.flush_blocking()
    disk.power_loss()
    assert reopen(disk)[1].log_end_offset == 1


def test_segments_of_another_topic_that_had_the_name_are_not_missed_in_a_restored_log() -> None:
    """REC-11: the clean shutdown counted the segments of the topic that was deleted since."""
    disk, compacted = new_disk(), TopicSettings(cleanup_policy="compact")
    directory, log = new_log(disk, compacted)
    append(log)
    directory.trash_logs_blocking([log], 0, 50, lambda _log: 0)
    other = directory.create_log_blocking(PARTITION, TopicId(uuid.UUID(int=9)), compacted)
    for _ in range(2):
        append(other)
        other.roll(0)
    directory.close_blocking(BrokerEpoch(0))
    directory = LogDirectory.open_blocking(disk, DATA)
    directory.mark_stray(PARTITION)
    [replica] = directory.trashed.by_key.values()
    restored = directory.restore_log_blocking(replica, PARTITION, compacted, 0, 0)
    assert restored.path == REPLICA
    assert len(read_all(restored)) == 1
