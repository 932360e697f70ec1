"""What a replica that comes back must still have, whatever its process was about when it ended."""

from types import SimpleNamespace

import pytest

from esp.simulation.checkers.recovery import LostLife, check_producers
from esp.simulation.checkers.replica_view import ReplicaView
from esp.simulation.checkers.violation import ViolationError
from tests.unit.storage.helpers import DATA, REPLICA, TOPIC_ID, append, new_disk, new_log, run


def view_of(disk, end_offset, start_offset=0):
    view = ReplicaView("node 1", disk, REPLICA, TOPIC_ID, start_offset)
    view.read_to(end_offset)
    return view


@pytest.fixture
def disk():
    return new_disk()


@pytest.fixture
def log(disk):
    opened = new_log(disk)[1]
    for _ in range(4):
        append(opened)
    return opened


def test_a_recovery_that_drops_what_the_page_cache_had_is_found_out(disk, log):
    lost = LostLife.of(view_of(disk, 4), keeps_page_cache=True, has_faulty_disk=False)
    lost.check(view_of(disk, 4))
    with pytest.raises(ViolationError, match="INV-RECOVER-PREFIX"):
        lost.check(view_of(disk, 3))


@pytest.mark.parametrize("kept", [0, 2])
def test_what_a_process_was_cutting_away_when_it_died_need_not_come_back(disk, log, kept):
    before = view_of(disk, 4)
    log.truncate_to(kept)
    lost = LostLife.of(before, keeps_page_cache=True, has_faulty_disk=False)
    assert lost.floor_offset == kept
    lost.check(view_of(disk, kept))


def test_what_it_knew_to_be_committed_must_come_back_even_if_it_was_cutting_it_away(disk, log):
    before = view_of(disk, 4)
    before.high_watermark = 3
    log.truncate_to(2)
    lost = LostLife.of(before, keeps_page_cache=True, has_faulty_disk=False)
    with pytest.raises(ViolationError, match="and 3 was there for certain"):
        lost.check(view_of(disk, 2))


def test_after_a_power_loss_what_was_flushed_is_certain_and_no_more(disk, log):
    run(log.flush())
    append(log)
    before = view_of(disk, 5)
    before.recovery_point = 4
    lost = LostLife.of(before, keeps_page_cache=False, has_faulty_disk=False)
    assert lost.floor_offset == 4
    assert lost.as_found().after_power_loss().floor_offset == 4


def test_of_a_disk_that_failed_nothing_is_certain(disk, log):
    before = view_of(disk, 4)
    before.recovery_point = 4
    assert LostLife.of(before, keeps_page_cache=True, has_faulty_disk=True).floor_offset == 0


def test_what_stands_before_the_first_rotten_batch_must_come_back_and_no_more(disk, log):
    run(log.flush())
    before = view_of(disk, 4)
    before.recovery_point = 4
    lost = LostLife.of(before, keeps_page_cache=True, has_faulty_disk=False)
    third = before.batches[2]
    third.content.rot(third.position + third.size - 1, 1)
    assert third.is_rotten()
    assert third.is_whole(), "what was written was"
    assert not before.batches[1].is_rotten()
    found = lost.as_found()
    assert (found.floor_offset, found.synced_offset) == (2, 2)
    found.check(view_of(disk, 2))
    with pytest.raises(ViolationError, match="and 2 was there for certain"):
        found.check(view_of(disk, 1))


@pytest.fixture
def log_start_file(disk, log):
    """The file that says that the log starts at 2."""
    path = f"{DATA}/log-start-offset-checkpoint"
    disk.replace_file_blocking(path, b"0\n1\nflights 3 2\n")
    return disk.content(path)


@pytest.mark.parametrize("end_offset", [4, 2])
def test_records_below_the_log_start_come_back_only_when_its_file_has_rotted(disk, log_start_file, end_offset):
    lost = LostLife.of(view_of(disk, end_offset, 2), keeps_page_cache=True, has_faulty_disk=False)
    with pytest.raises(ViolationError, match="before the end there was None"):
        lost.as_found().check(view_of(disk, end_offset))
    log_start_file.rot(0, 0x80)
    found = lost.as_found()
    assert found.check(view_of(disk, end_offset))
    assert found.check(view_of(disk, end_offset, 1))
    assert not found.check(view_of(disk, end_offset, 2))


def test_records_below_a_rotten_log_start_come_back_as_they_stood_there(disk, log, log_start_file):
    lost = LostLife.of(view_of(disk, 4, 2), keeps_page_cache=True, has_faulty_disk=False)
    log_start_file.rot(0, 0x80)
    found = lost.as_found()
    log.truncate_fully_and_start_at(0)
    for _ in range(4):
        append(log, size=11)
    with pytest.raises(ViolationError, match="recovered 0-0 of epoch 0"):
        found.check(view_of(disk, 4))


def test_a_copy_that_a_failed_directory_kept_comes_back_as_it_was_left(disk, log):
    left_behind = view_of(disk, 4).batches
    later = ReplicaView("node 1", disk, "/other/flights-3", TOPIC_ID, 0)
    lost = LostLife.of(later, keeps_page_cache=True, has_faulty_disk=True)
    assert not lost.check(view_of(disk, 4), None, left_behind)
    with pytest.raises(ViolationError, match="recovered 3-3 of epoch 0"):
        lost.check(view_of(disk, 4), None, left_behind[:3])


def producer_batch(producer_id, base_offset, *, rotten):
    return SimpleNamespace(
        producer_id=producer_id,
        producer_epoch=0,
        is_control=False,
        base_sequence=0,
        base_offset=base_offset,
        next_offset=base_offset + 1,
        is_rotten=lambda: rotten,
    )


def test_a_batch_that_has_rotted_may_be_missing_from_the_producers_of_its_log_and_that_is_told():
    batches = [producer_batch(7, 0, rotten=False), producer_batch(8, 1, rotten=True)]
    states = {7: (0, 0, 0), 8: (0, 0, 1)}
    view = SimpleNamespace(who="node 1", batches=batches, producers=lambda: states)
    known = {number: SimpleNamespace(epoch=0, last_sequence=0, last_offset=number - 7) for number in (7, 8)}
    log = SimpleNamespace(log_start_offset=0, rot=None, producers=known)
    assert not check_producers(view, log)
    log.producers = {7: known[7]}
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        check_producers(view, log)
    log.rot = "found"
    assert check_producers(view, log)
    log.producers = {}
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        check_producers(view, log)


def test_nothing_is_certain_of_a_log_whose_device_failed_not_even_its_log_start(disk, log):
    lost = LostLife.of(view_of(disk, 4, 2), keeps_page_cache=True, has_faulty_disk=True)
    assert (lost.floor_offset, lost.synced_offset) == (0, 0)
