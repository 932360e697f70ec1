"""Transactions in a compacted log: readers of decided transactions get the latest records that count, and no others (CLEAN-3, LSO-2)."""

from dataclasses import replace
from random import Random

import pytest

from esp.records.batch_header import BatchHeader, read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import build_marker
from esp.simulation.log_tier.transacted import read_committed
from esp.storage.compaction.cleaning import clean_blocking, cleanable_part
from esp.storage.log import Log
from esp.storage.producer_snapshots import snapshot_offsets
from esp.storage.transaction_index import AbortedTransaction
from tests.unit.storage.compaction.cleaned import COMPACTED, SMALL, batches_of, clean, headers_of, records_of, settle
from tests.unit.storage.helpers import REPLICA, new_disk, new_log, reopen
from tests.unit.storage.test_transaction_index import DAMAGES


def put(
    log: Log, producer: int, sequence: int, *pairs: tuple[bytes, bytes | None], transactional: bool | None = None
) -> None:
    data = build_batch(
        [NewRecord(value, key, timestamp=1000) for key, value in pairs],
        base_offset=log.log_end_offset,
        leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=producer >= 0 if transactional is None else transactional,
    )
    log.append(data, read_header(data), 0)


def end(log: Log, producer: int, *, is_commit: bool) -> None:
    data = bytearray(build_marker(producer, 0, is_commit=is_commit, coordinator_epoch=3, timestamp_ms=1000))
    log.append(data, BatchHeader(*stamp(data, read_header(data), log.log_end_offset, 0)), 0)


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in records_of(log) if len(record.key or b"") == 1]


def states(log: Log) -> dict[int, tuple[int, int, int]]:
    return {p: (s.epoch, s.last_sequence, s.transaction_first_offset) for p, s in log.producers.items()}


def markers(log: Log) -> list[tuple[int, int]]:
    """Producer and number of records of each control batch."""
    return [(header.producer_id, header.record_count) for header in headers_of(log) if header.is_control]


def test_records_of_committed_transactions_are_superseded_and_those_of_aborted_ones_go() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, -1, -1, (b"k", b"1"), (b"l", b"1"))
    put(log, 7, 0, (b"k", b"2"), (b"n", b"2"))
    put(log, 8, 0, (b"l", b"aborted"), (b"k", b"aborted"))
    end(log, 7, is_commit=True)
    end(log, 8, is_commit=False)
    put(log, 7, 2, (b"k", b"3"))
    end(log, 7, is_commit=True)
    settle(log)
    clean(log)
    assert values(log) == [b"1", b"2", b"3"]
    assert markers(log) == [(7, 1), (8, 1), (7, 1)]
    assert states(log) == {7: (0, 2, -1), 8: (0, 1, -1)}


def test_a_transactional_batch_without_a_producer_belongs_to_no_transaction() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, -1, -1, (b"k", b"1"), transactional=True)
    put(log, 7, 0, (b"k", b"aborted"))
    end(log, 7, is_commit=False)
    put(log, -1, -1, (b"l", b"1"))
    settle(log)
    before = list(log.aborted.find_blocking(0, log.log_end_offset))
    clean(log)
    assert values(log) == [b"1", b"1"]
    assert list(log.aborted.find_blocking(0, log.log_end_offset)) == before


def test_a_marker_stays_until_no_record_of_its_transaction_was_found_and_for_a_while_then() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, delete_retention_ms=1000))
    put(log, 7, 0, (b"k", b"aborted"))
    end(log, 7, is_commit=False)
    put(log, 7, 1, (b"k", b"1"))
    end(log, 7, is_commit=True)
    for now_ms, left in ((2000, [1, 1]), (3000, [1, 1]), (3999, [1, 1]), (4000, [1])):
        settle(log)
        put(log, -1, -1, (b"l", b"%d" % now_ms))
        settle(log)
        clean(log, now_ms)
        assert [count for _, count in markers(log)] == left, now_ms
        assert values(log) == [b"1", b"%d" % now_ms]


@pytest.mark.parametrize("set_back_to", [3999, 3000, 1])
def test_a_marker_stays_where_the_clock_is_set_back_over_its_horizon(set_back_to: int) -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, delete_retention_ms=1000))
    put(log, 7, 0, (b"k", b"aborted"))
    end(log, 7, is_commit=False)
    put(log, 7, 1, (b"k", b"1"))
    end(log, 7, is_commit=True)
    times = ((2000, [1, 1]), (3000, [1, 1]), (set_back_to, [1, 1]), (set_back_to, [1, 1]), (4000, [1]))
    for number, (now_ms, left) in enumerate(times):
        put(log, -1, -1, (b"l", b"%d" % number))
        settle(log)
        clean(log, now_ms)
        assert [count for _, count in markers(log)] == left, (number, now_ms)


def test_the_header_of_a_producer_s_last_marker_says_its_epoch() -> None:
    disk = new_disk()
    directory, log = new_log(disk, replace(COMPACTED, delete_retention_ms=0))
    put(log, 7, 0, (b"k", b"1"))
    data = bytearray(build_marker(7, 1, is_commit=True, coordinator_epoch=3, timestamp_ms=1000))
    log.append(data, BatchHeader(*stamp(data, read_header(data), log.log_end_offset, 0)), 0)
    for number in range(4):
        put(log, -1, -1, (b"k", b"%d" % number))
        settle(log)
        clean(log, 2000 + number)
    assert markers(log) == [(7, 0)]
    directory.close_blocking(1)
    for name in disk.listdir(REPLICA):
        if name.endswith(".snapshot"):
            disk.remove(f"{REPLICA}/{name}")
    assert states(reopen(disk, COMPACTED)[1]) == {7: (1, -1, -1)}


def test_no_snapshot_stays_that_has_a_transaction_open_without_a_marker() -> None:
    disk = new_disk()
    directory, log = new_log(disk, replace(COMPACTED, delete_retention_ms=0))
    put(log, 7, 0, (b"k", b"aborted"))
    settle(log)
    put(log, -1, -1, (b"l", b"1"))
    settle(log)
    end(log, 7, is_commit=False)
    for number in range(4):
        put(log, 7, 1 + number, (b"k", b"%d" % number))
        end(log, 7, is_commit=True)
        settle(log)
        clean(log, 2000 + number)
    newest = max(snapshot_offsets(disk, REPLICA))
    disk.remove(f"{REPLICA}/{newest:020d}.snapshot")
    assert log.last_stable_offset == log.log_end_offset
    directory.close_blocking(1)
    for offset in snapshot_offsets(disk, REPLICA):
        if offset >= newest:
            disk.remove(f"{REPLICA}/{offset:020d}.snapshot")
    log = reopen(disk, COMPACTED)[1]
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.log_end_offset


def test_a_transaction_that_is_open_where_the_log_begins_is_ended_by_what_is_left_of_its_marker() -> None:
    disk = new_disk()
    directory, log = new_log(disk, replace(COMPACTED, delete_retention_ms=0))
    put(log, 7, 0, (b"k", b"aborted"))
    settle(log)
    put(log, -1, -1, (b"l", b"1"))
    end(log, 7, is_commit=False)
    end(log, 7, is_commit=False)
    settle(log)
    log.raise_log_start(1)
    log.delete_old_segments_blocking(0)
    for number in range(3):
        put(log, -1, -1, (b"m", b"%d" % number))
        settle(log)
        clean(log, 2000 + number)
    assert markers(log) == [(7, 0), (7, 0)]
    directory.close_blocking(1)
    for offset in snapshot_offsets(disk, REPLICA)[1:]:
        disk.remove(f"{REPLICA}/{offset:020d}.snapshot")
    log = reopen(disk, COMPACTED)[1]
    assert states(log)[7][2] == -1


def test_aborted_records_in_a_segment_that_cannot_be_replaced_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esp.storage.compaction.output.RELATIVE_OFFSET_MAX", 250)
    _, log = new_log(new_disk(), replace(COMPACTED, delete_retention_ms=0))
    put(log, 7, 0, (b"k", b"aborted"))
    put(log, -1, -1, (b"l", bytes(240)))
    settle(log)
    put(log, -1, -1, (b"m", b"1"))
    end(log, 7, is_commit=False)
    for number in range(4):
        put(log, -1, -1, (b"m", b"%d" % number))
        settle(log)
        clean(log, 2000 + number)
        assert b"aborted" in values(log)
        assert [record.value for record in read_committed(log)] == [bytes(240), b"%d" % number]


def test_nothing_is_cleaned_that_is_not_decided() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, -1, -1, (b"k", b"1"))
    settle(log)
    put(log, 7, 0, (b"k", b"2"))
    settle(log)
    put(log, -1, -1, (b"k", b"3"))
    settle(log)
    assert cleanable_part(log, 0).end == 1
    clean(log)
    assert values(log) == [b"1", b"2", b"3"]
    end(log, 7, is_commit=False)
    settle(log)
    clean(log)
    assert values(log) == [b"3"]


@pytest.mark.parametrize("seed", range(25))
def test_readers_of_decided_transactions_get_the_latest_records_that_count(seed: int) -> None:
    random = Random(seed)
    settings = replace(COMPACTED, delete_retention_ms=random.choice((0, 50, 100_000)))
    disk = new_disk(seed)
    directory, log = new_log(disk, settings)
    sequences = {1: 0, 2: 0, 3: 0}
    open_records: dict[int, dict[int, tuple[bytes, bytes]]] = {}
    counts: dict[int, tuple[bytes, bytes]] = {}
    now_ms = 2000

    def check() -> None:
        stable = log.last_stable_offset
        known = {offset: pair for offset, pair in counts.items() if offset < stable}
        for start_offset in {0, random.randrange(stable + 1)}:
            found = {record.offset: (record.key, record.value) for record in read_committed(log, start_offset)}
            assert found.items() <= known.items(), "an aborted record, or one that was never written"
            latest = {key: offset for offset, (key, _) in sorted(known.items())}
            assert {offset for offset in latest.values() if offset >= start_offset} <= found.keys()

    for number in range(120):
        producer = random.choice((1, 2, 3))
        choice = random.random()
        now_ms += random.choice((0, 10))
        if choice < 0.55:
            pair = b"%d" % random.randrange(6), b"value %d" % number
            if random.random() < 0.3:
                counts[log.log_end_offset] = pair
                put(log, -1, -1, pair)
                continue
            open_records.setdefault(producer, {})[log.log_end_offset] = pair
            put(log, producer, sequences[producer], pair)
            sequences[producer] += 1
        elif choice < 0.75 and producer in open_records:
            written = open_records.pop(producer)
            is_commit = random.random() < 0.6
            if is_commit:
                counts |= written
            end(log, producer, is_commit=is_commit)
        elif choice < 0.85:
            settle(log)
        else:
            clean(log, now_ms)
        check()
        if random.random() < 0.05:
            log.high_watermark = log.log_end_offset
            directory.close_blocking(1)
            directory, log = reopen(disk, settings)
            check()
    for producer in list(open_records):
        end(log, producer, is_commit=False)
    settle(log)
    clean(log, now_ms)
    check()
    known = states(log)
    directory.close_blocking(1)
    for name in disk.listdir(REPLICA):
        if name.endswith(".snapshot"):
            disk.remove(f"{REPLICA}/{name}")
    log = reopen(disk, settings)[1]
    assert states(log) == known
    check()
    assert log.rot is None


def test_aborted_records_beside_a_segment_that_is_dropped_in_the_round_are_passed_over() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, segment_bytes=250))
    put(log, 7, 0, (b"k", b"aborted"))
    settle(log)
    put(log, 7, 1, (b"l", b"aborted"))
    settle(log)
    put(log, -1, -1, (b"m", bytes(240)))
    settle(log)
    put(log, -1, -1, (b"m", b"1"))
    end(log, 7, is_commit=False)
    settle(log)
    put(log, -1, -1, (b"m", b"2"))
    settle(log)

    def drop_the_first() -> None:
        log.raise_log_start(1)
        log.delete_old_segments_blocking(0)

    clean_blocking(log, 2000, SMALL, drop_the_first)
    assert b"aborted" in values(log)
    assert [record.value for record in read_committed(log, 1)] == [b"2"]


class Transacted:
    """A compacted log of three producers' transactions, most of them aborted, whose steps follow from a seed.

    Two of one seed are alike: what becomes of one beside the other shows what was done to it.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = new_disk(seed)
        self.directory, self.log = new_log(self.disk, COMPACTED)
        self.sequences = {1: 0, 2: 0, 3: 0}
        self.open: set[int] = set()

    def fill(self, steps: int) -> None:
        """Write so many batches and markers; all of it may be cleaned then."""
        for number in range(steps):
            producer = self.random.choice((1, 2, 3))
            if producer in self.open and self.random.random() < 0.5:
                self.end(producer)
            else:
                put(self.log, producer, self.sequences[producer], (b"%d" % self.random.randrange(6), b"%d" % number))
                self.sequences[producer] += 1
                self.open.add(producer)
        for producer in sorted(self.open):
            self.end(producer)
        settle(self.log)

    def end(self, producer: int) -> None:
        end(self.log, producer, is_commit=self.random.random() < 0.3)
        self.open.discard(producer)

    def reopen(self, *, is_clean: bool, damage: str | None = None) -> None:
        """Stop and start again, with all transaction indexes damaged meanwhile."""
        if is_clean:
            self.directory.close_blocking(1)
        else:
            self.directory.write_checkpoints_blocking()
            self.disk.crash()
        paths = [f"{REPLICA}/{name}" for name in self.disk.listdir(REPLICA) if name.endswith(".txnindex")]
        assert len(paths) > 2
        for path in paths if damage is not None else ():
            self.disk.replace_file_blocking(path, DAMAGES[damage](self.disk.read_file(path)))
        self.directory, self.log = reopen(self.disk, COMPACTED)
        self.log.high_watermark = self.log.log_end_offset

    def aborted(self) -> list[list[AbortedTransaction]]:
        """The aborted transactions of every short range."""
        ends = range(1, self.log.log_end_offset + 1)
        return [list(self.log.aborted.find_blocking(max(0, offset - 5), offset)) for offset in ends]

    def files(self) -> dict[str, bytes]:
        """The log and its transaction indexes, as they stand on the disk."""
        names = [name for name in self.disk.listdir(REPLICA) if name.endswith((".log", ".txnindex"))]
        return {name: self.disk.read_file(f"{REPLICA}/{name}") for name in names}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
@pytest.mark.parametrize("is_cleaned_before", [False, True], ids=["dirty", "cleaned"])
def test_a_damaged_transaction_index_changes_nothing_of_what_is_compacted(
    damage: str, *, is_clean: bool, is_cleaned_before: bool
) -> None:
    """A round has the aborted transactions from the batches, where a file does not match them; and so has the index that it writes."""
    damaged, intact = Transacted(7), Transacted(7)
    for each in (damaged, intact):
        each.fill(60)
        if is_cleaned_before:
            clean(each.log)
            each.fill(20)
        each.reopen(is_clean=is_clean, damage=damage if each is damaged else None)
        counts = clean(each.log)
        assert counts is not None
        assert counts.bytes_after < counts.bytes_before
    assert batches_of(damaged.log) == batches_of(intact.log)
    assert damaged.aborted() == intact.aborted()
    assert damaged.log.rot is None
    for each in (damaged, intact):
        each.reopen(is_clean=True)
    assert damaged.files() == intact.files()
