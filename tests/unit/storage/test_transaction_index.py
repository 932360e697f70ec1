"""LSO-2: the aborted transactions of every range, whatever happened to the files that name them."""

import struct
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import read_header
from esp.records.transaction_marker import read_marker
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.unit.storage.helpers import CPU, REPLICA, append, append_marker, headers, new_disk, new_log, reopen, run

SMALL = TopicSettings(segment_bytes=500)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:-1],
    "an entry is missing": lambda data: data[:-34],
    "empty": lambda _data: b"",
    "version": lambda data: b"\x01" + data[1:],
    "another producer": lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
    "another first offset": lambda data: data[:17] + bytes([data[17] ^ 1]) + data[18:],
    "another last offset": lambda data: data[:25] + bytes([data[25] ^ 1]) + data[26:],
    "twice": lambda data: data + data[-34:],
}


def test_an_entry_has_kafka_s_bytes() -> None:
    index = TransactionIndex()
    index.entries.append(AbortedTransaction(3, 32, 35, 36))
    assert index.encode(0) == struct.pack(">hqqqq", 0, 3, 32, 35, 36)
    assert TransactionIndex.decode(index.encode(0)).entries == index.entries


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 33,
        struct.pack(">hqqqq", 1, 3, 32, 35, 36),
        struct.pack(">hqqqq", 0, 3, 36, 35, 36),
        struct.pack(">hqqqq", 0, 3, -1, 35, 36),
        struct.pack(">hqqqqhqqqq", 0, 3, 1, 5, 6, 0, 3, 2, 5, 6),
    ],
    ids=["size", "version", "order", "negative", "same marker"],
)
def test_impossible_entries_are_noticed(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        TransactionIndex.decode(data)


def test_a_search_ends_behind_the_entry_that_tells_that_all_later_transactions_began_behind_the_range() -> None:
    index = TransactionIndex()
    first, second, third = (
        AbortedTransaction(1, 0, 10, 4),  # that of producer 2 had been open since offset 4
        AbortedTransaction(2, 4, 20, 21),
        AbortedTransaction(3, 30, 40, 41),
    )
    index.entries += (first, second, third)
    for start, end, wanted, is_over in (
        (0, 4, [first], True),
        (0, 5, [first, second], True),
        (11, 12, [second], True),
        (11, 22, [second], True),
        (0, 99, [first, second, third], False),
        (41, 99, [], False),
    ):
        found: list[AbortedTransaction] = []
        assert index.collect(start, end, found) == is_over
        assert found == wanted


# --- a log beside a model ----------------------------------------------------------------------------------------------------------


class History:
    """Transactions of several producers in one log, and the list of all that were aborted."""

    def __init__(self, disk: SimulatedDisk, directory: LogDirectory, log: Log) -> None:
        self.disk = disk
        self.directory = directory
        self.log = log
        self.sequences: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    def write(self, producer: int) -> None:
        sequence = self.sequences.get(producer, 0)
        self.open.setdefault(producer, self.log.log_end_offset)
        append(self.log, producer=(producer, 0, sequence), transactional=True)
        self.sequences[producer] = sequence + 1

    def end(self, producer: int, *, is_commit: bool) -> None:
        marker = append_marker(self.log, (producer, 0), is_commit=is_commit)
        first = self.open.pop(producer, None)
        if first is not None and not is_commit:
            stable = min(self.open.values(), default=marker + 1)
            self.aborted.append(AbortedTransaction(producer, first, marker, stable))

    def fill(self, steps: int, seed: int = 0) -> None:
        random = Random(seed)
        for _ in range(steps):
            producer = random.randint(1, 3)
            if producer in self.open and random.random() < 0.4:
                self.end(producer, is_commit=random.random() < 0.3)
            else:
                self.write(producer)

    def reopen(self, *, is_clean: bool) -> None:
        if is_clean:
            self.directory.close_blocking(1)
        else:
            self.directory.write_checkpoints_blocking()
            self.disk.crash()
        self.directory, self.log = reopen(self.disk, SMALL)

    def wanted(self, start: int, end: int) -> list[AbortedTransaction]:
        return [entry for entry in self.aborted if entry.last_offset >= start and entry.first_offset < end]

    def check(self) -> None:
        """Every range by every way to ask; the first ones read what is not in memory yet."""
        log = self.log
        for start in range(log.log_start_offset, log.log_end_offset):
            for end in range(start + 1, min(log.log_end_offset, start + 9) + 1):
                cached = log.aborted.find(start, end)
                read = run(log.find_aborted_transactions(start, end, CPU))
                assert cached in (None, read)
                assert read == self.wanted(start, end), (start, end)
                assert log.aborted.find_blocking(start, end) == read

    def check_files(self) -> None:
        """What Kafka would read: every sealed segment's entries in its file, and no file where there are none."""
        for segment in self.log.files.segments:
            path = segment.path(".txnindex")
            wanted = [
                entry for entry in self.aborted if segment.base_offset <= entry.last_offset < segment.next_base_offset
            ]
            if wanted:
                assert TransactionIndex.decode(self.disk.read_file(path)).entries == wanted
            else:
                assert not self.disk.exists(path)


def new_history(steps: int = 60, seed: int = 0) -> History:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    history = History(disk, directory, log)
    history.fill(steps, seed)
    return history


def index_paths(disk: SimulatedDisk) -> list[str]:
    return [f"{REPLICA}/{name}" for name in disk.listdir(REPLICA) if name.endswith(".txnindex")]


def test_without_aborts_there_is_no_file_and_no_search() -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    history = History(disk, directory, log)
    for _ in range(9):
        history.write(1)
        history.end(1, is_commit=True)
    append_marker(log, (2, 0), is_commit=False)  # it had no data
    assert log.aborted.find(0, log.log_end_offset) == []
    history.reopen(is_clean=True)
    assert not index_paths(disk)
    assert history.log.aborted.find(0, history.log.log_end_offset) == []


def test_an_abort_is_found_in_every_range_that_it_touches() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    history = History(disk, directory, log)
    for producer in (1, 2, 1):
        history.write(producer)
    history.end(2, is_commit=False)
    history.end(1, is_commit=True)
    history.check()
    assert log.aborted.find(2, 3) == [AbortedTransaction(2, 1, 3, 0)]
    assert log.aborted.find(4, 5) == []


@given(st.integers(0, 2**32), st.integers(5, 80), st.lists(st.booleans(), max_size=3))
def test_aborts_match_a_naive_model_over_restarts(seed: int, steps: int, stops: list[bool]) -> None:
    history = new_history(steps, seed)
    history.check()
    for is_clean in stops:
        history.reopen(is_clean=is_clean)
        history.check()
        history.fill(10, seed)
    history.reopen(is_clean=True)
    history.check_files()


def test_an_index_that_was_not_written_before_a_crash_is_made_from_the_log() -> None:
    history = new_history()
    for path in index_paths(history.disk):
        history.disk.remove(path)
    history.disk.crash()
    history.directory, history.log = reopen(history.disk, SMALL)
    history.check()
    history.reopen(is_clean=True)
    history.check_files()


def test_flushed_segments_have_their_index_on_the_device() -> None:
    history = new_history()
    history.log.flush_blocking()
    history.directory.write_checkpoints_blocking()
    history.disk.power_loss()
    history.directory, history.log = reopen(history.disk, SMALL)
    history.check()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
def test_damaged_files_are_held_against_the_batches(damage: str, *, is_clean: bool) -> None:
    history = new_history()
    history.log.flush_blocking()
    if is_clean:
        history.directory.close_blocking(1)
    else:
        history.directory.write_checkpoints_blocking()
    paths = index_paths(history.disk)
    assert len(paths) > 3
    for path in paths:
        history.disk.replace_file_blocking(path, DAMAGES[damage](history.disk.read_file(path)))
    if not is_clean:
        history.disk.crash()
    history.directory, history.log = reopen(history.disk, SMALL)
    history.check()
    assert history.log.rot is None
    history.fill(9)
    history.check()
    history.reopen(is_clean=True)
    history.check_files()


def test_entries_that_were_let_go_are_read_and_compared_again() -> None:
    history = new_history()
    history.check()
    segments = history.log.files.segments
    gone = [segment for segment in segments if segment.aborted is None]
    assert gone
    for segment in gone:
        path = segment.path(".txnindex")
        history.disk.replace_file_blocking(path, DAMAGES["another first offset"](history.disk.read_file(path)))
    history.check()


def test_a_lost_snapshot_is_made_up_for_by_an_older_one() -> None:
    for is_clean in (True, False):
        history = new_history()
        history.log.flush_blocking()
        if is_clean:
            history.directory.close_blocking(1)
        else:
            history.directory.write_checkpoints_blocking()
        for number, name in enumerate(history.disk.listdir(REPLICA)):
            if name.endswith(".snapshot") and number % 3:
                history.disk.remove(f"{REPLICA}/{name}")
        if not is_clean:
            history.disk.crash()
        history.directory, history.log = reopen(history.disk, SMALL)
        history.check()


@pytest.mark.parametrize("is_clean", [False, True])
def test_producers_of_a_log_without_any_snapshot_are_learned_from_its_batches(*, is_clean: bool) -> None:
    """Kafka writes empty snapshots then, and replays nothing after a clean shutdown."""
    history = new_history()
    history.log.flush_blocking()
    producers = {producer: state.last_sequence for producer, state in history.log.producers.items()}
    assert producers
    history.directory.close_blocking(1)
    for name in history.disk.listdir(REPLICA):
        if name.endswith(".snapshot"):
            history.disk.remove(f"{REPLICA}/{name}")
    if not is_clean:
        history.disk.crash()
    history.directory, history.log = reopen(history.disk, SMALL)
    assert {producer: state.last_sequence for producer, state in history.log.producers.items()} == producers
    history.check()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_truncation_takes_the_aborts_behind_it_along(*, is_restarted: bool) -> None:
    for back in range(1, 30, 3):
        history = new_history()
        log = history.log
        if is_restarted:
            history.reopen(is_clean=True)
            log = history.log
            log.begin_epoch(1)
        log.truncate_to(log.log_end_offset - back)
        end = log.log_end_offset
        history.aborted = [entry for entry in history.aborted if entry.last_offset < end]
        history.check()
        log.truncate_fully_and_start_at(end) if back % 2 else log.truncate_to(end)
        if back % 2:
            history.aborted = []
            assert not index_paths(history.disk)
        history.reopen(is_clean=True)
        history.check()
        history.check_files()


def test_a_deletion_within_an_aborted_transaction_keeps_its_old_first_offset() -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    history = History(disk, directory, log)
    history.write(1)
    for _ in range(12):
        append(log)
    log.high_watermark = log.log_end_offset
    log.raise_log_start(9)
    log.delete_old_segments_blocking(0)
    assert log.first_segment_offset > 0
    history.end(1, is_commit=False)
    history.check()
    assert history.aborted == [AbortedTransaction(1, 0, 13, 14)]
    for is_clean in (False, True, False):
        history.reopen(is_clean=is_clean)
        history.check()


def test_retention_takes_the_files_of_its_segments() -> None:
    history = new_history()
    log = history.log
    log.high_watermark = log.log_end_offset
    log.settings = TopicSettings(segment_bytes=500, retention_bytes=0)
    log.delete_old_segments_blocking(0)
    history.directory.purge(10**9)
    kept = {segment.path(".txnindex") for segment in log.files.segments}
    assert set(index_paths(history.disk)) <= kept
    history.check()


def test_a_follower_that_is_fed_the_batches_has_the_same_files() -> None:
    leader = new_history()
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    follower = History(disk, directory, log)
    follower.aborted = leader.aborted
    offset = 0
    while offset < leader.log.log_end_offset:
        data = run(leader.log.read_cold(offset, 1 << 20, leader.log.log_end_offset, at_least_one=True))
        position = 0
        for header in headers(data):
            log.append(memoryview(data)[position : position + header.size], header, 0)
            position += header.size
            offset = header.next_offset
    follower.check()
    assert log.producers.encode() == leader.log.producers.encode()
    leader.reopen(is_clean=True)
    follower.reopen(is_clean=True)
    for path in index_paths(disk):
        assert disk.read_file(path) == leader.disk.read_file(path)
    assert index_paths(disk) == index_paths(leader.disk)


def test_a_rotten_marker_is_reported_and_ends_nothing() -> None:
    history = new_history()
    history.directory.close_blocking(1)
    entry = next(entry for entry in history.aborted if entry.first_offset > 3)
    segment = history.log.files.segments[history.log.files.segments.floor(entry.last_offset)]
    path = segment.path(".log")
    data = bytearray(history.disk.read_file(path))
    position = 0
    while read_header(data, position).base_offset != entry.last_offset:
        position += read_header(data, position).size
    assert not read_marker(memoryview(data)[position:]).is_commit
    data[position + 77 - 2] ^= 1
    history.disk.replace_file_blocking(path, bytes(data))
    history.directory, history.log = reopen(history.disk, SMALL)
    found = history.log.aborted.find_blocking(entry.first_offset, entry.last_offset + 1)
    assert history.log.rot is not None
    assert entry not in found


def test_a_cut_meanwhile_begins_the_search_anew() -> None:
    history = new_history()
    history.reopen(is_clean=True)
    log = history.log

    class CuttingCpu:
        cuts = 0

        async def run(self, function: Callable[[], bool]) -> bool:
            has_more = function()
            if not self.cuts:
                self.cuts = 1
                log.begin_epoch(1)
                log.truncate_to(log.log_end_offset - 20)
            return has_more

    cpu = CuttingCpu()
    end = log.log_end_offset - 20
    found = run(log.find_aborted_transactions(0, end, cpu))  # type: ignore[arg-type]
    assert cpu.cuts
    history.aborted = [entry for entry in history.aborted if entry.last_offset < log.log_end_offset]
    assert found == history.wanted(0, end)
