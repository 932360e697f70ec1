"""What is believed of a log's files after a stop: REC-1..7, PROD-7, PROD-9."""

import contextlib
import dataclasses
import struct
from itertools import count

import pytest

from esp.model.errors import CorruptionError
from esp.model.ids import BrokerEpoch
from esp.records.batch_header import MAGIC_OFFSET, read_header
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.storage.layout import LOG_SUFFIX
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.producer_state import ProducerStates
from esp.storage.recovery import is_cut_off
from tests.unit.storage.helpers import (
    CPU,
    DATA,
    PARTITION,
    REPLICA,
    append,
    make_batch,
    new_disk,
    new_log,
    read_all,
    reopen,
    run,
)

PRODUCER_ID_OFFSET = 43
"""The position of the producer id in a batch; epoch and first sequence follow it."""

SMALL = TopicSettings(segment_bytes=400, index_interval_bytes=0)


def path(offset: int, suffix: str) -> str:
    return f"{REPLICA}/{offset:020d}{suffix}"


def filled(disk: SimulatedDisk, batches: int = 20) -> tuple[LogDirectory, Log]:
    directory, log = new_log(disk, SMALL)
    for number in range(batches):
        append(log, timestamp=1000 + number, producer=(5, 0, number))
    return directory, log


def replace(disk: SimulatedDisk, name: str, data: bytes) -> None:
    disk.write_file(name, data)


# --- after a crash -----------------------------------------------------------------------------------------------------------------


def test_kill_9_loses_nothing() -> None:
    disk = new_disk()
    _, log = filled(disk)
    wanted = read_all(log)
    disk.crash()
    directory, log = reopen(disk, SMALL)
    assert not directory.was_clean
    assert read_all(log) == wanted
    assert log.recovery_point == 0
    run(log.flush())
    assert log.recovery_point == 20
    disk.power_loss()
    assert read_all(reopen(disk, SMALL)[1]) == wanted


@pytest.mark.parametrize(
    "tail", [b"\0" * 100, b"\0" * 12, b"\xff" * 200, make_batch(20)[:-1], make_batch(5), make_batch(20)[:30]]
)
def test_what_is_no_batch_is_cut_off_and_said(tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    _, log = new_log(disk)
    for _ in range(20):
        append(log)
    file = log.files.segments.active.file
    whole = file.size()
    file.append((tail,))
    disk.crash()
    _, log = reopen(disk)
    assert log.log_end_offset == 20
    assert disk.stat(path(0, ".log")).size == whole
    assert f"{len(tail)} bytes at {whole} are cut off" in caplog.text
    append(log)
    assert len(read_all(log)) == 21


@pytest.mark.parametrize(
    ("tail", "is_whole"),
    [
        (b"", True),
        (b"\0" * 11, True),
        (make_batch(2)[:12], True),
        (make_batch(2)[:-1], True),
        (make_batch(3)[:-1], False),  # an offset that was not next
        (make_batch(2)[:-1] + b"\xff", False),  # as long as it says, and broken
        (make_batch(2)[:8] + b"\x7f\xff\xff\xff" + make_batch(2)[12:], False),  # longer than any batch may be
        (b"\0" * 100, False),
    ],
)
def test_only_a_write_that_was_cut_off_leaves_the_log_whole(tail: bytes, is_whole: bool) -> None:
    """BRK-3: anything else that is cut may have been a record that was committed."""
    disk = new_disk()
    _, log = new_log(disk)
    append(log, records=2)
    log.files.segments.active.file.append((tail,))
    disk.crash()
    log = reopen(disk)[1]
    assert (log.log_end_offset, log.is_whole) == (2, is_whole)


def test_a_bad_batch_above_the_recovery_point_ends_the_log_and_later_segments_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    _, log = filled(disk)
    bases = [segment.base_offset for segment in log.files.segments]
    disk.crash()
    disk.corrupt(path(bases[2], ".log"), 70)
    _, log = reopen(disk, SMALL)
    assert log.log_end_offset == bases[2]
    assert [segment.base_offset for segment in log.files.segments] == bases[:3]
    assert "does not match its checksum" in caplog.text
    assert caplog.text.count("is dropped") == len(bases) - 3
    assert log.producers.check(read_header(make_batch(0, producer=(5, 0, bases[2])))) is None


def test_a_missing_segment_above_the_recovery_point_ends_the_log() -> None:
    disk = new_disk()
    _, log = filled(disk)
    bases = [segment.base_offset for segment in log.files.segments]
    disk.crash()
    disk.remove(path(bases[1], ".log"))
    _, log = reopen(disk, SMALL)
    assert log.log_end_offset == bases[1]
    assert not disk.exists(path(bases[1], ".index"))


def test_a_batch_of_an_older_epoch_ends_the_log() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log, epoch=3)
    log.files.segments.active.file.append((make_batch(1, epoch=2),))
    disk.crash()
    assert reopen(disk)[1].log_end_offset == 1


def test_a_rotten_batch_below_the_recovery_point_is_never_cut_off() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    size = disk.stat(path(0, ".log")).size
    disk.crash()
    disk.corrupt(path(0, ".log"), 16)
    disk.remove(path(0, ".index"))
    with pytest.raises(CorruptionError, match="broken"):
        reopen(disk, SMALL)
    assert disk.stat(path(0, ".log")).size == size


def test_a_segment_that_is_missing_below_the_recovery_point_is_an_error() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    last = log.files.segments.active.base_offset
    disk.crash()
    disk.remove(path(last, ".log"))
    with pytest.raises(CorruptionError, match="flushed up to 20"):
        reopen(disk, SMALL)


def test_a_log_that_ends_below_its_start_starts_over_empty() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    log.flush_blocking()
    append(log, records=5)
    log.high_watermark = 5
    log.raise_log_start(4)
    directory.write_checkpoints_blocking()
    disk.crash()
    disk.write_file(path(0, ".log"), b"")
    _, log = reopen(disk)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 4, 4)
    append(log)
    assert [header.base_offset for header in read_all(log)] == [4]


def test_the_high_watermark_is_a_hint() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    log.high_watermark = 20
    directory.write_checkpoints_blocking()
    bases = [segment.base_offset for segment in log.files.segments]
    disk.crash()
    disk.corrupt(path(bases[-1], ".log"), 70)
    _, log = reopen(disk, SMALL)
    assert log.high_watermark == log.log_end_offset == bases[-1]


# --- after an orderly stop ---------------------------------------------------------------------------------------------------------


def test_an_orderly_stop_leaves_everything_synced_and_known() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    log.high_watermark = 20
    wanted = read_all(log)
    directory.close_blocking(7)
    disk.power_loss()
    directory, log = reopen(disk, SMALL)
    assert (directory.was_clean, directory.clean_broker_epoch) == (True, 7)
    assert read_all(log) == wanted
    assert (log.high_watermark, log.recovery_point) == (20, 20)


@pytest.mark.parametrize("segment", [0, -1])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeros", "beyond", "garbage"])
def test_a_damaged_index_is_rebuilt(segment: int, suffix: str, damage: str) -> None:
    disk = new_disk()
    directory, log = filled(disk)
    base = log.files.segments[segment].base_offset
    log.high_watermark = 20
    wanted = read_all(log)
    times = [run(log.find_offset_by_timestamp(1000 + number, CPU)) for number in range(20)]
    directory.close_blocking(7)
    name = path(base, suffix)
    data = disk.read_file(name)
    if damage == "missing":
        disk.remove(name)
    else:
        entry = (2**31 - 1).to_bytes(4, "big")
        damaged = {
            "cut": data[:-1],
            "zeros": bytes(len(data)),
            "beyond": data + (entry * 2 if suffix == ".index" else (10**6).to_bytes(8, "big") + entry),
            "garbage": b"\xa5" * len(data),
        }[damage]
        replace(disk, name, damaged)
    _, log = reopen(disk, SMALL)
    assert read_all(log) == wanted
    for offset in range(20):
        data_read = run(log.read_cold(offset, 1, 20, at_least_one=True))
        assert read_header(data_read).base_offset == offset
    assert [run(log.find_offset_by_timestamp(1000 + number, CPU)) for number in range(20)] == times
    append(log, timestamp=5000)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_a_sealed_segment_that_begins_within_an_entry_is_rebuilt_at_once(suffix: str) -> None:
    disk = new_disk()
    directory, log = filled(disk)
    name = path(log.files.segments[0].base_offset, suffix)
    directory.close_blocking(7)
    data = disk.read_file(name)
    replace(disk, name, b"\0" + data)  # the last bytes are an entry of the segment
    reopen(disk, SMALL)
    assert disk.read_file(name) == data


def test_a_segment_that_is_broken_after_an_orderly_stop_is_an_error() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    directory.close_blocking(1)
    replace(disk, path(0, ".log"), disk.read_file(path(0, ".log"))[:-1])
    with pytest.raises(CorruptionError, match="closed cleanly"):
        reopen(disk)


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"0\n1\n7 0\n", b"0\n2\n0 0\n0 0\n", b"0\n1\n2 8\n"])
def test_a_damaged_epoch_file_is_rebuilt_from_the_batches(content: bytes | None) -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    for number in range(12):
        append(log, epoch=number // 4)
    directory.close_blocking(1)
    name = f"{REPLICA}/leader-epoch-checkpoint"
    if content is None:
        disk.remove(name)
    else:
        replace(disk, name, content)
    _, log = reopen(disk, SMALL)
    if content != b"0\n1\n7 0\n":  # a file that can be right is believed
        assert log.leader_epochs.entries() == [(0, 0), (1, 4), (2, 8)]


def test_newer_batches_than_the_epoch_file_knows_are_learned_in_recovery() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log, epoch=0)
    append(log, epoch=0)
    append(log, epoch=5)
    disk.crash()
    assert reopen(disk)[1].leader_epochs.entries() == [(0, 0), (5, 2)]


def test_the_epoch_of_the_record_before_the_log_start_is_known_again() -> None:
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(segment_bytes=1))
    for epoch in (0, 5, 5, 7):
        append(log, epoch=epoch)
    log.high_watermark = log.log_end_offset
    log.raise_log_start(3)
    run(log.flush())
    directory.write_checkpoints_blocking()
    disk.crash()
    epochs = reopen(disk, TopicSettings(segment_bytes=1))[1].leader_epochs
    assert [epochs.epoch_of(offset) for offset in (2, 3)] == [5, 7]


def test_the_epoch_of_a_record_that_was_not_read_again_is_not_known() -> None:
    """What the file says holds up to the recovery point; the first segment that is left begins beyond it."""
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(segment_bytes=1))
    append(log, epoch=0)
    run(log.flush())
    directory.write_checkpoints_blocking()
    append(log, epoch=5)
    append(log, epoch=7)
    log.high_watermark = log.log_end_offset
    log.raise_log_start(2)
    directory.write_log_starts_blocking()
    disk.crash()
    _, log = reopen(disk, TopicSettings(segment_bytes=1))
    assert log.log_start_offset == log.first_segment_offset == 2
    assert log.leader_epochs.epoch_of(1) is None


@pytest.mark.parametrize("is_clean", [False, True])
def test_an_epoch_that_began_without_a_batch_is_forgotten(is_clean: bool) -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log, epoch=0)
    log.begin_epoch(5)
    if is_clean:
        directory.close_blocking(7)
    else:
        log.flush_blocking()
        disk.crash()
    assert reopen(disk)[1].leader_epochs.entries() == [(0, 0)]


def test_an_epoch_of_the_file_that_began_without_a_batch_gives_way_to_an_older_batch_in_its_place() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log, epoch=0)
    log.begin_epoch(5)
    log.flush_blocking()
    log.truncate_to(1)  # follows, and gets what was not committed when this node led
    append(log, epoch=2)
    append(log, epoch=6)
    disk.crash()
    assert reopen(disk)[1].leader_epochs.entries() == [(0, 0), (2, 1), (6, 2)]


def test_segments_below_the_log_start_whose_removal_was_lost_are_no_damage() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    log.flush_blocking()
    log.high_watermark = 20
    log.raise_log_start(20)
    directory.write_checkpoints_blocking()
    kept = log.files.segments[0].base_offset
    disk.crash()
    for segment in list(log.files.segments)[1:]:
        disk.remove(segment.path(".log"))
    assert disk.exists(path(kept, ".log"))
    log = reopen(disk, SMALL)[1]
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)


# --- producers ---------------------------------------------------------------------------------------------------------------------


def test_retries_of_the_last_five_batches_are_known_after_a_restart() -> None:
    for was_clean in (True, False):
        disk = new_disk()
        directory, log = filled(disk)
        if was_clean:
            directory.close_blocking(1)
        disk.crash()
        directory, log = reopen(disk, SMALL)
        assert directory.was_clean is was_clean
        for number in range(15, 20):
            assert log.producers.check(read_header(make_batch(0, producer=(5, 0, number)))) == number


@pytest.mark.parametrize("damage", [b"", b"\0\1garbage", None])
def test_a_damaged_snapshot_gives_way_to_an_older_one(damage: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    directory, _ = filled(disk)
    directory.close_blocking(1)
    name = path(20, ".snapshot")
    if damage is None:
        disk.corrupt(name, 20)
    else:
        replace(disk, name, damage)
    _, log = reopen(disk, SMALL)
    state = log.producers.get(5)
    assert state is not None
    assert state.last_sequence == 19
    assert not disk.exists(name)
    assert "an older snapshot used" in caplog.text


def test_snapshots_that_no_segment_needs_are_removed() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    bases = {segment.base_offset for segment in log.files.segments} - {0}
    directory.close_blocking(1)
    directory, log = reopen(disk, SMALL)
    append(log, producer=(5, 0, 20))
    directory.close_blocking(2)
    directory, log = reopen(disk, SMALL)
    bases |= {segment.base_offset for segment in log.files.segments} - {0}
    kept = {int(name[:20]) for name in disk.listdir(REPLICA) if name.endswith(".snapshot")}
    assert kept == bases | {21}


@pytest.mark.parametrize("seed", range(30))
def test_a_log_that_starts_again_begins_there_whatever_a_second_power_loss_leaves(seed: int) -> None:
    """No later segment of before comes back alone (REC-3, REC-7)."""
    disk = new_disk(seed)
    settings = TopicSettings(segment_bytes=1)
    directory, log = new_log(disk, settings)
    append(log, records=4)
    run(log.flush())
    for _ in range(2):
        append(log, records=4)
    disk.sync_directory_blocking(REPLICA)
    log.high_watermark = log.log_end_offset
    log.raise_log_start(5)
    directory.write_log_starts_blocking()
    disk.power_loss()
    for _ in range(3):
        _, log = reopen(disk, settings)
        assert log.log_start_offset == 5
        append(log)
        disk.power_loss()


@pytest.mark.parametrize("space", [0, None])
def test_snapshots_that_a_power_loss_took_are_written_again(
    space: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention may make any segment the first, and producers of earlier ones stay known (PROD-2)."""
    disk = new_disk()
    _, log = new_log(disk, SMALL)
    append(log, producer=(4, 0, 0))
    for number in range(20):
        append(log, producer=(5, 0, number))
    bases = [segment.base_offset for segment in log.files.segments][1:]
    for base in bases:
        disk.remove(path(base, ".snapshot"))
    disk.crash()
    if space is not None:
        disk.fill_up(space)
    directory, log = reopen(disk, SMALL)
    assert log.producers.next_sequence(5, 0) == 20
    disk.heal()
    assert [disk.exists(path(base, ".snapshot")) for base in bases] == [space is None] * len(bases)
    assert ("cannot be written" in caplog.text) is (space is not None)
    if space is None:
        run(log.flush())
        directory.write_checkpoints_blocking()
        log.high_watermark = log.log_end_offset
        log.raise_log_start(bases[-1])
        log.delete_old_segments_blocking(0)
        disk.power_loss()
        _, log = reopen(disk, SMALL)
        assert log.first_segment_offset == bases[-1]
        assert log.producers.get(4) is not None


@pytest.mark.parametrize("was_clean", [False, True])
@pytest.mark.parametrize("batches_left", [0, 1, 2])
def test_producers_of_which_retention_left_no_batch_are_known_after_a_restart(
    batches_left: int, was_clean: bool
) -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    append(log, producer=(5, 0, 7))
    while len(log.files.segments) < 3:
        append(log)
    append(log)
    log.high_watermark = log.log_end_offset
    log.raise_log_start(log.log_end_offset - batches_left)
    log.delete_old_segments_blocking(0)
    assert len(log.files.segments) == 1
    directory.write_checkpoints_blocking()
    if was_clean:
        directory.close_blocking(1)
    disk.crash()
    log = reopen(disk, SMALL)[1]
    assert log.producers.next_sequence(5, 0) == 8


@pytest.mark.parametrize("field", [PRODUCER_ID_OFFSET, PRODUCER_ID_OFFSET + 8, PRODUCER_ID_OFFSET + 10])
@pytest.mark.parametrize("has_snapshot", [False, True])
def test_what_a_rotten_batch_says_of_producers_is_not_believed(
    field: int, has_snapshot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    for sequence in range(4):
        append(log, producer=(5, 0, sequence))
    known = list(dict(log.producers.items())[5].batches)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    if has_snapshot:
        directory.close_blocking(1)
    disk.crash()
    size = disk.stat(path(0, ".log")).size // 4
    disk.corrupt(path(0, ".log"), 2 * size + field + 1)
    log = reopen(disk)[1]
    assert log.rot is not None
    assert f"is corrupt at {2 * size}" in caplog.text
    states = dict(log.producers.items())
    assert states.keys() == {5}
    assert states[5].batches == [batch for batch in known if batch.base_offset != 2]
    assert states[5].epoch == 0


def test_a_truncation_believes_nothing_of_a_rotten_batch() -> None:
    disk = new_disk()
    log = new_log(disk)[1]
    for sequence in range(4):
        append(log, producer=(5, 0, sequence))
    log.flush_blocking()
    rotten = []
    log.on_rot = lambda: rotten.append(log.rot)
    disk.corrupt(path(0, ".log"), disk.stat(path(0, ".log")).size // 4 + PRODUCER_ID_OFFSET + 1)
    log.truncate_to(3)
    assert [batch.base_offset for batch in dict(log.producers.items())[5].batches] == [0, 2]
    assert len(log.producers) == len(rotten) == 1


def test_a_truncation_that_cannot_read_what_stays_cuts_nothing() -> None:
    """The segment that is cut is sound, and the one before it has the last batches of a producer, and is no list of batches any more."""
    disk = new_disk()
    log = new_log(disk, SMALL)[1]
    for sequence in range(8):
        append(log, producer=(5, 0, sequence))
    log.flush_blocking()
    before = dict(log.producers.items())[5].last_offset
    *_, rotten, active = log.files.segments
    disk.corrupt(rotten.path(".log"), MAGIC_OFFSET)
    with pytest.raises(CorruptionError):
        log.truncate_to(active.base_offset + 1)
    assert log.rot is not None
    assert log.log_end_offset == 8
    assert dict(log.producers.items())[5].last_offset == before


def test_a_snapshot_before_the_first_segment_is_not_believed_after_a_truncation() -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    append(log, producer=(5, 0, 0))
    directory.close_blocking(1)
    log = reopen(disk, SMALL)[1]
    stale = path(1, ".snapshot")
    assert disk.exists(stale)
    for sequence in range(1, 20):
        append(log, producer=(5, 0, sequence))
    log.high_watermark = 15
    log.raise_log_start(15)
    log.delete_old_segments_blocking(0)
    assert disk.exists(stale)
    for segment in log.files.segments:
        disk.remove(path(segment.base_offset, ".snapshot"))
    disk.replace_file_blocking(stale, other_producers(sequence=0, producer_id=6).encode())
    log.truncate_to(log.files.segments.active.base_offset + 1)
    assert dict(log.producers.items()).keys() == {5}
    assert not disk.exists(stale)


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_above_the_end_that_recovery_removed_does_not_come_back(seed: int) -> None:
    disk = new_disk(seed)
    directory, log = new_log(disk)
    append(log, producer=(5, 0, 0))
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    disk.replace_file_blocking(path(2, ".snapshot"), other_producers(sequence=1).encode())
    disk.crash()
    log = reopen(disk)[1]
    append(log)
    log.files.segments.active.file.sync_blocking()
    disk.power_loss()
    state = reopen(disk)[1].producers.get(5)
    assert state is not None
    assert state.last_sequence == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_whose_removal_by_a_truncation_is_undone_is_not_believed(seed: int) -> None:
    """A process dies anywhere in a truncation, the next one writes other batches up to the snapshot's offset, and power is lost."""
    for changes in count(1):
        disk = new_disk(seed)
        directory, log = new_log(disk)
        append(log, producer=(5, 0, 0))
        append(log, producer=(5, 1, 0))
        directory.close_blocking(1)
        log = reopen(disk)[1]
        disk.kill_after(changes)
        try:
            log.truncate_to(1)
        except ProcessKilledError:
            disk.crash()
        else:
            break
        log = reopen(disk)[1]
        was_cut = log.log_end_offset == 1
        append(log)
        log.files.segments.active.file.sync_blocking()
        disk.power_loss()
        state = reopen(disk)[1].producers.get(5)
        assert state is not None
        assert state.epoch == (0 if was_cut else 1)


def test_a_snapshot_beyond_the_recovery_point_is_not_believed_after_a_crash() -> None:
    """Its removal may have been undone, where the device did not keep what it had synced."""
    disk = new_disk()
    directory, log = new_log(disk)
    append(log, producer=(5, 0, 0))
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    append(log, producer=(5, 0, 1))
    append(log, producer=(5, 0, 2))
    disk.replace_file_blocking(path(2, ".snapshot"), other_producers(sequence=8, producer_id=6).encode())
    disk.crash()
    assert dict(reopen(disk)[1].producers.items()).keys() == {5}


@pytest.mark.parametrize("seed", range(4))
def test_segments_that_a_killed_start_removed_do_not_come_back_beside_those_of_the_next_one(seed: int) -> None:
    """The next start has nothing to remove; with new batches up to their offsets, the old ones could be taken for the log's (REC-3)."""
    for changes in count():
        disk = new_disk(seed)
        settings = TopicSettings(segment_bytes=1)
        directory, log = new_log(disk, settings)
        for number in range(5):
            append(log, producer=(5, 0, number))
            if number == 1:
                log.flush_blocking()
                directory.write_checkpoints_blocking()
        log.flush_blocking()
        disk.crash()
        disk.open(path(2, LOG_SUFFIX)).truncate(20)
        disk.kill_after(changes)
        try:
            reopen(disk, settings)
        except ProcessKilledError:
            disk.crash()
        else:
            break
        log = reopen(disk, settings)[1]
        assert log.log_end_offset == 2
        there = set(disk.listdir(REPLICA))
        disk.power_loss()
        assert set(disk.listdir(REPLICA)) <= there


def count_syncs(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are synced from now on."""
    synced: list[str] = []
    sync = disk.sync_directory_blocking
    monkeypatch.setattr(disk, "sync_directory_blocking", lambda path: (synced.append(path), sync(path)))
    return synced


def test_a_start_syncs_the_names_of_a_log_only_if_something_was_removed_or_the_start_before_did_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each log of a killed node would cost a sync of the device else."""
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    synced = count_syncs(disk, monkeypatch)
    disk.crash()
    directory, _ = reopen(disk)
    assert REPLICA not in synced
    directory.end_loading()
    disk.crash()
    reopen(disk)
    assert REPLICA not in synced
    disk.crash()  # before its end
    directory, _ = reopen(disk)
    assert synced.count(REPLICA) == 1
    directory.end_loading()
    disk.crash()
    directory, log = reopen(disk)
    assert synced.count(REPLICA) == 1
    del directory.logs[PARTITION]
    directory.end_loading()
    directory.load_log_blocking(PARTITION, TopicSettings(), 0)  # as one that comes back from the trash
    assert synced.count(REPLICA) == 2


def test_a_full_disk_keeps_no_log_from_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log)
    log.flush_blocking()
    disk.crash()
    disk.fill_up(0)
    monkeypatch.setattr(disk, "write_file", lambda _path, _data: (_ for _ in ()).throw(OSError("no room")))
    assert reopen(disk)[1].log_end_offset == 1


def test_a_log_whose_directory_cannot_be_synced_at_a_start_is_opened_and_fails_with_its_next_flush() -> None:
    """A device that fails takes a data directory offline, and does not keep the node from starting."""
    disk = new_disk()
    append(new_log(disk)[1])
    disk.crash()
    disk.fail("sync", REPLICA)
    log = reopen(disk)[1]
    assert len(read_all(log)) == 1
    with pytest.raises(OSError, match="Input/output"):
        log.flush_blocking()
    assert log.is_offline


def other_producers(sequence: int, producer_id: int = 5) -> ProducerStates:
    states = ProducerStates()
    states.update(read_header(make_batch(1, producer=(producer_id, 0, sequence))))
    return states


def test_producers_that_are_expired_are_not_loaded() -> None:
    disk = new_disk()
    directory, _ = filled(disk)
    directory.close_blocking(1)
    _, log = reopen(disk, SMALL, now_ms=1019 + 86_400_000)
    assert len(log.producers) == 0


# --- leftovers ---------------------------------------------------------------------------------------------------------------------


def test_leftovers_of_a_crash_are_removed() -> None:
    disk = new_disk()
    filled(disk)
    disk.crash()
    leftovers = [
        f"{0:020d}.log.deleted",
        f"{0:020d}.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        f"{99:020d}.index",
        f"{99:020d}.timeindex",
    ]
    for name in leftovers:
        disk.write_file(f"{REPLICA}/{name}", b"x")
    _, log = reopen(disk, SMALL)
    assert log.log_end_offset == 20
    assert not set(leftovers) & set(disk.listdir(REPLICA))


def test_a_swap_that_was_decided_replaces_the_segments_it_covers() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    bases = [segment.base_offset for segment in log.files.segments]
    directory.close_blocking(1)
    compacted = make_batch(0, timestamp=1000, producer=(5, 0, 0)) + make_batch(
        bases[2] - 1, producer=(5, 0, bases[2] - 1)
    )
    disk.write_file(path(0, ".log.swap"), compacted)
    disk.write_file(path(0, ".index.swap"), b"")
    disk.write_file(path(0, ".timeindex.swap"), b"")
    _, log = reopen(disk, SMALL)
    assert [segment.base_offset for segment in log.files.segments] == [0, *bases[2:]]
    assert [header.base_offset for header in read_all(log)][:3] == [0, bases[2] - 1, bases[2]]


def test_a_swap_that_was_not_decided_is_thrown_away() -> None:
    disk = new_disk()
    _, log = filled(disk)
    wanted = read_all(log)
    disk.crash()
    disk.write_file(path(0, ".log.swap"), b"")
    disk.write_file(path(0, ".index.cleaned"), b"")
    assert read_all(reopen(disk, SMALL)[1]) == wanted


COMPACTED = dataclasses.replace(SMALL, cleanup_policy="compact")

SUFFIXES_OF_KAFKA = (".log", ".index", ".timeindex", ".txnindex")
"""Kafka renames the files of a segment in this order."""


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("done", range(30))
def test_a_swap_of_kafka_s_that_was_stopped_anywhere_loses_nothing(outputs: int, done: int) -> None:
    """CLEAN-7, for directories that a killed Kafka node leaves: two segments become one, or one of them becomes two."""
    disk = new_disk()
    directory, log = filled(disk)
    whole = read_all(log)
    bases = [segment.base_offset for segment in log.files.segments]
    sources = bases[:2] if outputs == 1 else bases[:1]
    end = bases[len(sources)]
    written = [[0, end - 1]] if outputs == 1 else [[0], [end - 1]]
    directory.close_blocking(1)

    operations = []
    for offsets in written:
        content = b"".join(make_batch(n, timestamp=1000 + n, producer=(5, 0, n)) for n in offsets)
        for suffix in SUFFIXES_OF_KAFKA:
            name, data = path(offsets[0], f"{suffix}.cleaned"), content if suffix == ".log" else b""
            operations.append(lambda name=name, data=data: disk.write_file(name, data))
    decided_at = len(operations) + 4 * (outputs - 1)
    for offsets in reversed(written):
        for suffix in SUFFIXES_OF_KAFKA:
            name = path(offsets[0], suffix)
            operations.append(lambda name=name: disk.rename(f"{name}.cleaned", f"{name}.swap"))
    for base in sources:
        for suffix in SUFFIXES_OF_KAFKA:
            name = path(base, suffix)
            if disk.exists(name):
                operations.append(lambda name=name: disk.rename(name, f"{name}.deleted"))
    for offsets in written:
        for suffix in SUFFIXES_OF_KAFKA:
            name = path(offsets[0], suffix)
            operations.append(lambda name=name: disk.rename(f"{name}.swap", name))
    for operation in operations[:done]:
        operation()
    disk.crash()

    _, log = reopen(disk, COMPACTED)
    compacted = [offset for offsets in written for offset in offsets] + [
        h.base_offset for h in whole if h.base_offset >= end
    ]
    found = [header.base_offset for header in read_all(log)]
    assert found == (compacted if done >= decided_at + 4 else [header.base_offset for header in whole])
    assert log.log_end_offset == 20
    assert not [name for name in disk.listdir(REPLICA) if name.endswith((".cleaned", ".swap", ".deleted"))]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("retained", [True, False])
def test_a_power_loss_never_takes_the_front_of_a_log_and_leaves_its_end(seed: int, retained: bool) -> None:
    """The names of segments that no flush has reached go one by one; what is left of the log must still begin where it began."""
    disk = new_disk(seed)
    _directory, log = new_log(disk, SMALL)
    disk.sync_directory_blocking(DATA)
    for number in range(24):
        append(log, timestamp=1000 + number)
    if retained:
        log.high_watermark = log.log_end_offset
        log.settings = dataclasses.replace(SMALL, retention_bytes=800)
        assert log.delete_old_segments_blocking(1_000)
    start = log.log_start_offset
    disk.power_loss()
    if LogDirectory.open_blocking(disk, DATA).replicas.get(
        PARTITION
    ):  # else nobody knows any more whose it is, and it is not read
        disk.crash()
        assert reopen(disk, SMALL)[1].log_start_offset == start


# --- what is missing (REC-11) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("which", ["first", "middle", "last", "all"])
def test_a_segment_that_is_gone_is_missed_if_it_was_flushed(which: str, *, in_order: bool) -> None:
    disk = new_disk()
    directory, log = filled(disk)
    bases = [segment.base_offset for segment in log.files.segments]
    if in_order:
        directory.close_blocking(7)
    else:
        run(log.flush())
        directory.write_checkpoints_blocking()
    disk.crash()
    gone = {"first": bases[:1], "middle": bases[2:3], "last": bases[-1:], "all": bases}[which]
    for base in gone:
        for suffix in (".log", ".index", ".timeindex"):
            if disk.exists(path(base, suffix)):
                disk.remove(path(base, suffix))
    with pytest.raises(CorruptionError, match=r"flushed|missing"):
        reopen(disk, SMALL)


@pytest.mark.parametrize("stopped_by_kafka", [False, True])
def test_a_segment_between_others_of_a_compacted_log_is_missed_after_a_clean_shutdown(
    *, stopped_by_kafka: bool
) -> None:
    """There gaps between segments tell nothing. Kafka, which leaves them, leaves no numbers of segments either."""
    compacted = dataclasses.replace(SMALL, cleanup_policy="compact,delete")
    disk = new_disk()
    directory, log = filled(disk)
    log.settings = compacted
    _, _, middle, *_ = (segment.base_offset for segment in log.files.segments)
    end_offset = log.log_end_offset
    directory.close_blocking(7)
    disk.crash()
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(path(middle, suffix))
    if stopped_by_kafka:
        disk.write_file(f"{DATA}/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":7}')
        assert reopen(disk, compacted)[1].log_end_offset == end_offset
    else:
        with pytest.raises(CorruptionError, match="a clean shutdown left"):
            reopen(disk, compacted)


def test_a_log_whose_only_segment_is_gone_was_not_there() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log)
    assert log.was_there
    disk.crash()
    disk.remove(path(0, ".log"))
    _, log = reopen(disk)
    assert not log.was_there


def test_a_log_that_ends_below_its_checkpointed_high_watermark_after_a_kill_is_not_whole() -> None:
    """Its newest segment is gone, and was not flushed."""
    disk = new_disk()
    directory, log = filled(disk)
    log.high_watermark = 20
    directory.write_checkpoints_blocking()
    newest = log.files.segments.active.base_offset
    disk.crash()
    disk.remove(path(newest, ".log"))
    _, log = reopen(disk, SMALL)
    assert log.log_end_offset == newest
    assert not log.is_whole


def test_segments_that_went_with_the_log_start_are_not_missed() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    run(log.flush())
    log.high_watermark = 20
    log.raise_log_start(10)
    directory.write_checkpoints_blocking()
    bases = [segment.base_offset for segment in log.files.segments]
    disk.crash()
    for base in [base for base in bases if base < 10][:-1]:
        disk.remove(path(base, ".log"))
    _, log = reopen(disk, SMALL)
    assert log.log_start_offset == 10
    assert log.is_whole


def test_a_log_of_kafka_s_that_starts_with_its_first_segment_has_no_line_and_is_believed() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    directory.close_blocking(7)
    disk.write_file(f"{DATA}/log-start-offset-checkpoint", b"0\n0\n")
    first = log.files.segments[0].base_offset
    disk.remove(path(first, ".log"))
    _, log = reopen(disk, SMALL)
    assert log.log_start_offset > 0


@pytest.mark.parametrize("changes", range(4))
@pytest.mark.parametrize("seed", range(6))
def test_a_cut_that_a_killed_recovery_left_unsynced_is_durable_after_a_clean_shutdown(changes: int, seed: int) -> None:
    """The next recovery finds the shorter file in the page cache and has nothing to cut: a power loss would bring back the torn batch."""
    disk = new_disk(seed)
    directory, log = filled(disk)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    active = path(log.files.segments.active.base_offset, LOG_SUFFIX)
    torn = disk.open(active)
    torn.append([make_batch(log.log_end_offset, size=200)[:150]])
    torn.sync_blocking()
    wanted = read_all(log)
    disk.crash()
    disk.kill_after(changes)
    with contextlib.suppress(ProcessKilledError):
        reopen(disk, SMALL)
    disk.crash()
    directory, log = reopen(disk, SMALL)
    assert read_all(log) == wanted
    directory.close_blocking(BrokerEpoch(1))
    disk.power_loss()
    directory, log = reopen(disk, SMALL)
    assert directory.was_clean
    assert read_all(log) == wanted


@pytest.mark.parametrize("changes", range(25))
@pytest.mark.parametrize("seed", range(4))
def test_a_truncation_that_a_killed_process_left_unsynced_is_durable_after_a_clean_shutdown(
    changes: int, seed: int
) -> None:
    disk = new_disk(seed)
    directory, log = filled(disk, batches=3)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    disk.kill_after(changes)
    with contextlib.suppress(ProcessKilledError):
        log.truncate_to(1)
    disk.crash()
    directory, log = reopen(disk, SMALL)
    wanted = read_all(log)
    directory.close_blocking(BrokerEpoch(1))
    disk.power_loss()
    directory, log = reopen(disk, SMALL)
    assert directory.was_clean
    assert read_all(log) == wanted


@pytest.mark.parametrize(("base_offset", "is_beginning"), [(3, True), (7, False)])
def test_the_first_twelve_bytes_say_whether_they_begin_the_next_batch(base_offset: int, is_beginning: bool) -> None:
    rest = struct.pack(">qi", base_offset, 100)
    assert is_cut_off(rest, len(rest), next_offset=3, max_message_bytes=1000) is is_beginning
    assert is_cut_off(rest[:-1], len(rest) - 1, next_offset=3, max_message_bytes=1000)
