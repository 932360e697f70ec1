"""What the simulated disk loses, keeps and breaks."""

import errno
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.simulation.machine.file_content import SECTOR_BYTES

SEEDS = range(60)


def disk_with(name: str, synced: bytes, unsynced: bytes = b"", seed: int = 0) -> SimulatedDisk:
    """A disk with one file whose name and first bytes are durable and whose last bytes are not."""
    disk = SimulatedDisk(Random(seed))
    file = disk.open(name, create=True)
    file.append([synced])
    file.sync_blocking()
    disk.sync_directory_blocking("/")
    if unsynced:
        file.append([unsynced])
    return disk


def test_process_crash_keeps_unsynced_bytes_and_names() -> None:
    disk = disk_with("a", b"synced", b" unsynced")
    disk.make_directory("d")
    disk.rename("a", "d/b")
    disk.crash()
    assert disk.read_file("d/b") == b"synced unsynced"
    assert disk.listdir("/") == ["d"]


def test_handles_of_a_dead_process_cannot_be_used() -> None:
    disk = SimulatedDisk(Random(1))
    file = disk.open("a", create=True)
    disk.crash()
    with pytest.raises(AssertionError, match="dead"):
        file.append([b"x"])
    with pytest.raises(AssertionError, match="dead"):
        file.size()


def test_nothing_fails_while_faults_are_suspended() -> None:
    disk = disk_with("a", b"synced")
    disk.fail("sync")
    with disk.faults.suspended():
        disk.sync_directory_blocking("/")
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_directory_blocking("/")


def test_crash_releases_locks_and_leaves_their_files() -> None:
    disk = SimulatedDisk(Random(1))
    old = disk.lock("lock")
    assert old is not None
    assert disk.lock("lock") is None
    disk.crash()
    assert disk.exists("lock")
    new = disk.lock("lock")
    assert new is not None
    old.release()
    assert disk.lock("lock") is None


@pytest.mark.parametrize("seed", SEEDS)
def test_power_loss_never_costs_synced_bytes(seed: int) -> None:
    synced = Random(seed).randbytes(2 * SECTOR_BYTES + 100)
    disk = disk_with("a", synced, b"x" * 3 * SECTOR_BYTES, seed)
    disk.power_loss()
    assert disk.read_file("a")[: len(synced)] == synced


def test_power_loss_has_every_outcome_for_unsynced_bytes() -> None:
    synced, unsynced = b"a" * SECTOR_BYTES, b"b" * (3 * SECTOR_BYTES)
    outcomes = set()
    for seed in range(400):
        disk = disk_with("a", synced, unsynced, seed)
        disk.power_loss()
        after = disk.read_file("a")
        assert after[:SECTOR_BYTES] == synced
        assert len(after) <= 4 * SECTOR_BYTES
        assert set(after[SECTOR_BYTES:]) <= {0, ord("b")}
        if len(after) == SECTOR_BYTES:
            outcomes.add("all lost")
        elif after == synced + unsynced:
            outcomes.add("all kept")
        elif not after[SECTOR_BYTES:].strip(b"\0"):
            outcomes.add("extended with zeros")
        elif b"\0b" in after:
            outcomes.add("hole before kept bytes")
        elif b"b\0" in after and after.index(b"\0") % SECTOR_BYTES:
            outcomes.add("torn sector")
        if len(after) % SECTOR_BYTES:
            outcomes.add("cut within a sector")
    assert outcomes == {
        "all lost",
        "all kept",
        "extended with zeros",
        "hole before kept bytes",
        "torn sector",
        "cut within a sector",
    }


def test_power_loss_may_undo_an_unsynced_truncation() -> None:
    lengths = set()
    for seed in SEEDS:
        disk = disk_with("a", b"a" * 9000, seed=seed)
        file = disk.open("a")
        file.truncate(5000)
        disk.power_loss()
        after = disk.read_file("a")
        assert after[:5000] == b"a" * 5000
        lengths.add(len(after))
    assert {5000, 9000} <= lengths


def test_power_loss_cannot_undo_a_synced_truncation() -> None:
    for seed in SEEDS:
        disk = disk_with("a", b"a" * 9000, seed=seed)
        file = disk.open("a")
        file.truncate(5000)
        file.sync_blocking()
        disk.power_loss()
        assert disk.read_file("a") == b"a" * 5000


def test_file_sync_does_not_bring_its_name_along() -> None:
    kept = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        file = disk.open("a", create=True)
        file.append([b"data"])
        file.sync_blocking()
        disk.power_loss()
        kept.add(disk.exists("a"))
        if disk.exists("a"):
            assert disk.read_file("a") == b"data"
    assert kept == {True, False}


def test_directory_sync_does_not_bring_the_bytes_along() -> None:
    contents = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.open("a", create=True).append([b"data"])
        disk.sync_directory_blocking("/")
        disk.power_loss()
        contents.add(disk.read_file("a"))
    assert {b"", b"data"} <= contents


def test_unsynced_names_are_lost_one_by_one() -> None:
    outcomes = set()
    for seed in range(200):
        disk = SimulatedDisk(Random(seed))
        disk.open("a", create=True)
        disk.open("b", create=True)
        disk.power_loss()
        outcomes.add(tuple(disk.listdir("/")))
    assert outcomes == {(), ("a",), ("b",), ("a", "b")}


@pytest.mark.parametrize("seed", SEEDS)
def test_rename_is_atomic_under_power_loss(seed: int) -> None:
    disk = disk_with("old", b"data", seed=seed)
    disk.rename("old", "new")
    disk.power_loss()
    assert disk.listdir("/") in (["old"], ["new"])
    assert disk.read_file(disk.listdir("/")[0]) == b"data"


@pytest.mark.parametrize("seed", SEEDS)
def test_chained_renames_never_leave_one_file_under_two_names(seed: int) -> None:
    disk = disk_with("a", b"data", seed=seed)
    disk.rename("a", "b")
    disk.rename("b", "c")
    disk.power_loss()
    assert len(disk.listdir("/")) == 1


def test_syncing_one_directory_keeps_the_other_half_of_a_move() -> None:
    disk = SimulatedDisk(Random(1))
    disk.make_directory("d")
    disk.open("d/a", create=True)
    disk.sync_directory_blocking("/")
    disk.rename("d/a", "a")
    disk.sync_directory_blocking("/")
    disk.power_loss()
    assert disk.listdir("/") == ["a", "d"]
    assert disk.listdir("d") == []


def test_directory_without_durable_name_takes_its_files_along() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.make_directory("d/e")
        disk.open("d/e/a", create=True)
        disk.sync_directory_blocking("d/e")
        disk.sync_directory_blocking("d")
        disk.power_loss()
        outcomes.add(disk.exists("d/e/a"))
        assert disk.exists("d") == disk.exists("d/e/a")
    assert outcomes == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_replaced_file_is_old_or_new_wherever_the_process_or_the_power_ends(seed: int) -> None:
    for changes in range(100):
        disk = disk_with("a", b"old" * 3000, seed=seed * 1000 + changes)
        disk.kill_after(changes)
        try:
            disk.replace_file_blocking("a", b"new" * 3000)
        except ProcessKilledError:
            disk.power_loss()
            assert disk.read_file("a") in (b"old" * 3000, b"new" * 3000)
        else:
            disk.power_loss()
            assert disk.read_file("a") == b"new" * 3000
            assert changes > 4
            return
    raise AssertionError("replace_file_blocking never finished")


def test_killed_process_does_nothing_more() -> None:
    disk = disk_with("a", b"")
    file = disk.open("a")
    disk.kill_after(1)
    file.append([b"1"])
    with pytest.raises(ProcessKilledError):
        file.truncate(0)
    for attempt in (lambda: file.append([b"2"]), lambda: disk.remove("a"), lambda: disk.read_file("a")):
        with pytest.raises(ProcessKilledError):
            attempt()
    disk.crash()
    assert disk.read_file("a") == b"1"


def test_failing_write_leaves_a_prefix() -> None:
    lengths = set()
    for seed in SEEDS:
        disk = disk_with("a", b"", seed=seed)
        disk.fail("write", "a")
        file = disk.open("a")
        with pytest.raises(OSError, match="Input/output"):
            file.append([b"01234", b"56789"])
        assert b"0123456789".startswith(disk.read_file("a"))
        lengths.add(file.size())
        file.append([b"x"])
    assert len(lengths) > 5


def test_fault_hits_the_named_paths_after_its_countdown_as_often_as_told() -> None:
    disk = disk_with("a.log", b"x")
    disk.open("a.index", create=True)
    disk.fail("read", "*.log", after=1, times=2, error=errno.ENXIO)
    disk.read_file("a.log")
    for _ in range(2):
        disk.read_file("a.index")
        with pytest.raises(OSError, match="No such device or address"):
            disk.read_file("a.log")
    disk.read_file("a.log")


def test_failed_sync_loses_pages_that_a_new_handle_syncs_with_success() -> None:
    lost = 0
    for seed in SEEDS:
        disk = disk_with("a", b"", b"x" * SECTOR_BYTES, seed)
        disk.fail("sync", "a")
        file = disk.open("a")
        with pytest.raises(OSError, match="Input/output"):
            file.sync_blocking()
        with pytest.raises(OSError, match="Input/output"):
            file.sync_blocking()
        disk.open("a").sync_blocking()
        assert disk.read_file("a") == b"x" * SECTOR_BYTES, "still in the page cache"
        disk.power_loss()
        assert len(disk.read_file("a")) == SECTOR_BYTES
        lost += disk.read_file("a") == bytes(SECTOR_BYTES)
    assert 0 < lost < len(SEEDS)


def test_full_disk_takes_what_fits_and_removal_makes_room() -> None:
    disk = disk_with("a", b"123456")
    disk.fill_up(4)
    file = disk.open("b", create=True)
    with pytest.raises(OSError, match="No space"):
        file.append([b"abcdef"])
    assert disk.read_file("b") == b"abcd"
    assert disk.free_bytes("/") == 0
    disk.remove("a")
    assert disk.free_bytes("/") == 6
    file.append([b"ef"])
    file.truncate(0)
    assert disk.free_bytes("/") == 10


def test_cold_bytes_are_not_cached_until_read() -> None:
    disk = disk_with("a", b"x" * 3 * SECTOR_BYTES)
    file = disk.open("a")
    disk.make_cold("a", SECTOR_BYTES, 2 * SECTOR_BYTES)
    assert file.read_cached(0, SECTOR_BYTES) == b"x" * SECTOR_BYTES
    assert file.read_cached(SECTOR_BYTES - 1, 2) is None
    assert file.read_blocking(SECTOR_BYTES, 1) == b"x"
    assert file.read_cached(0, 3 * SECTOR_BYTES) == b"x" * 3 * SECTOR_BYTES


def test_dirty_bytes_stay_cached() -> None:
    disk = disk_with("a", b"", b"x" * SECTOR_BYTES)
    disk.make_cold("a")
    assert disk.open("a").read_cached(0, 10) == b"x" * 10


def test_nothing_is_cached_after_power_loss() -> None:
    disk = disk_with("a", b"x" * SECTOR_BYTES)
    disk.power_loss()
    assert disk.open("a").read_cached(0, 1) is None


def test_corruption_survives_power_loss() -> None:
    disk = disk_with("a", b"abc")
    disk.corrupt("a", 1, mask=0x20)
    assert disk.read_file("a") == b"aBc"
    disk.power_loss()
    assert disk.read_file("a") == b"aBc"


async def test_bytes_appended_while_a_sync_runs_are_not_covered_by_it() -> None:
    async def append_meanwhile(_operation: str, _size: int) -> None:
        file.append([b"b" * SECTOR_BYTES])

    outcomes = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed), wait=append_meanwhile)
        file = disk.open("a", create=True)
        disk.sync_directory_blocking("/")
        file.append([b"a" * (SECTOR_BYTES + 1)])
        await file.sync()
        assert disk.unsynced_bytes("a")
        disk.power_loss()
        after = disk.read_file("a")
        assert after.startswith(b"a" * (SECTOR_BYTES + 1))
        outcomes.add(len(after))
    assert SECTOR_BYTES + 1 in outcomes
    assert 2 * SECTOR_BYTES + 1 in outcomes


async def test_names_made_while_a_directory_sync_runs_are_not_covered_by_it() -> None:
    async def create_meanwhile(_operation: str, _size: int) -> None:
        disk.open("b", create=True)

    outcomes = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed), wait=create_meanwhile)
        disk.open("a", create=True)
        await disk.sync_directory("/")
        disk.power_loss()
        outcomes.add(tuple(disk.listdir("/")))
    assert outcomes == {("a",), ("a", "b")}


@given(seed=st.integers(), steps=st.lists(st.tuples(st.sampled_from("acstpn"), st.integers(0, 12_000)), max_size=25))
def test_same_seed_and_calls_give_the_same_bytes(seed: int, steps: list[tuple[str, int]]) -> None:
    def run() -> dict[str, bytes]:
        disk = SimulatedDisk(Random(seed))
        for step, number in steps:
            file = disk.open("f", create=True)
            if step == "a":
                file.append([b"%d" % number * (number // 4)])
            elif step == "c":
                file.sync_blocking()
            elif step == "s":
                disk.sync_directory_blocking("/")
            elif step == "t":
                file.truncate(min(number, file.size()))
            elif step == "p":
                disk.power_loss()
            else:
                disk.rename("f", f"g{number % 3}")
        disk.power_loss()
        return {name: disk.read_file(name) for name in disk.listdir("/")}

    assert run() == run()


def test_a_sync_of_the_file_system_makes_all_bytes_and_names_durable() -> None:
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        file_system = disk.file_system("/")
        disk.make_directory("d")
        disk.open("d/a", create=True).append([b"a" * 9000])
        disk.open("b", create=True).append([b"old"])
        file_system.sync_blocking()
        disk.open("b").truncate(0)
        file_system.sync_blocking()
        disk.power_loss()
        assert disk.read_file("d/a") == b"a" * 9000
        assert disk.read_file("b") == b""


def test_power_that_goes_while_the_file_system_is_synced_leaves_any_part_of_it() -> None:
    left = set()
    for seed in range(60):
        disk = SimulatedDisk(Random(seed))
        file_system = disk.file_system("/")
        for name in "ab":
            disk.open(name, create=True).append([b"data"])
        disk.kill_after(1)
        with pytest.raises(ProcessKilledError):
            file_system.sync_blocking()
        disk.power_loss()
        left.add(tuple((name, disk.read_file(name) == b"data") for name in disk.listdir("/")))
    assert {(), (("a", True), ("b", True)), (("a", True),), (("a", True), ("b", False))} <= left


def test_a_file_system_whose_sync_failed_stays_failed_and_other_files_are_durable() -> None:
    disk = SimulatedDisk(Random(3))
    file_system = disk.file_system("/")
    for name in "ab":
        disk.open(name, create=True).append([b"data"])
    disk.fail("sync", "/a")
    for _ in range(2):
        with pytest.raises(OSError, match="/"):
            file_system.sync_blocking()
    disk.power_loss()
    assert disk.read_file("b") == b"data"


def test_a_file_system_reports_what_failed_since_it_was_opened() -> None:
    disk = SimulatedDisk(Random(1))
    earlier = disk.file_system("/")
    file = disk.open("a", create=True)
    file.append([b"data"])
    disk.fail("sync", "a")
    with pytest.raises(OSError, match="a"):
        file.sync_blocking()
    later = disk.file_system("/")
    later.sync_blocking()
    with pytest.raises(OSError, match="/"):
        earlier.sync_blocking()
