"""Transactions in a compacted log: what readers of decided transactions get stays the same (CLEAN-3, LSO-2)."""

from random import Random

import pytest

from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import build_marker
from esp.storage.compaction.cleaning import cleanable_part
from esp.storage.log import Log
from tests.unit.storage.compaction.cleaned import COMPACTED, batches_of, clean, headers_of, records_of, settle
from tests.unit.storage.helpers import REPLICA, new_disk, new_log, reopen


def put(log: Log, producer: int, sequence: int, *pairs: tuple[bytes, bytes | None]) -> None:
    data = build_batch(
        [NewRecord(value, key, timestamp=1000) for key, value in pairs],
        base_offset=log.log_end_offset,
        leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=producer >= 0,
    )
    log.append(data, read_header(data), 0)


def end(log: Log, producer: int, *, is_commit: bool) -> None:
    data = bytearray(build_marker(producer, 0, is_commit=is_commit, coordinator_epoch=3, timestamp_ms=1000))
    log.append(data, BatchHeader(*stamp(data, read_header(data), log.log_end_offset, 0)), 0)


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in records_of(log) if len(record.key or b"") == 1]


def test_committed_records_supersede_others_and_aborted_ones_do_not() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, -1, -1, (b"k", b"1"), (b"l", b"1"))
    put(log, 7, 0, (b"k", b"2"))
    put(log, 8, 0, (b"l", b"aborted"), (b"k", b"aborted"))
    end(log, 7, is_commit=True)
    end(log, 8, is_commit=False)
    put(log, 7, 1, (b"m", b"3"))
    end(log, 7, is_commit=True)
    settle(log)
    clean(log)
    assert values(log) == [b"1", b"2", b"aborted", b"aborted", b"3"]
    markers = [header for header in headers_of(log) if header.is_control]
    assert [header.producer_id for header in markers] == [7, 8, 7]
    assert [(each.producer_id, each.first_offset) for each in log.aborted.find_blocking(0, 99)] == [(8, 3)]


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
    assert values(log) == [b"2", b"3"], "records of transactions stay, and the aborted one is passed over by readers"


@pytest.mark.parametrize("seed", range(25))
def test_readers_of_decided_transactions_get_the_same_before_and_after(seed: int) -> None:
    random = Random(seed)
    disk = new_disk(seed)
    directory, log = new_log(disk, COMPACTED)
    sequences = {1: 0, 2: 0, 3: 0}
    undecided: dict[int, dict[bytes, bytes | None]] = {}
    latest: dict[bytes, bytes | None] = {}
    written: dict[int, list[tuple[int, bytes]]] = {1: [], 2: [], 3: []}
    order: dict[bytes, int] = {}
    for number in range(90):
        producer = random.choice((1, 2, 3))
        choice = random.random()
        if choice < 0.55:
            key, value = b"%d" % random.randrange(6), b"value %d" % number
            if random.random() < 0.3:
                latest[key], order[key] = value, log.log_end_offset
                put(log, -1, -1, (key, value))
                continue
            written[producer].append((log.log_end_offset, key))
            undecided.setdefault(producer, {})[key] = value
            put(log, producer, sequences[producer], (key, value))
            sequences[producer] += 1
        elif choice < 0.75 and producer in undecided:
            is_commit = random.random() < 0.6
            for key, value in undecided.pop(producer).items():
                offset = max(at for at, each in written[producer] if each == key)
                if is_commit and offset >= order.get(key, -1):  # the later offset counts, whichever was decided first
                    latest[key], order[key] = value, offset
            written[producer] = []
            end(log, producer, is_commit=is_commit)
        elif choice < 0.85:
            settle(log)
        else:
            stable = log.last_stable_offset
            before = [log.aborted.find_blocking(at, stable) for at in range(0, stable, 3)]
            clean(log)
            assert [log.aborted.find_blocking(at, stable) for at in range(0, stable, 3)] == before
        if random.random() < 0.05:
            log.high_watermark = log.log_end_offset
            aborted = log.aborted.find_blocking(0, log.last_stable_offset)
            directory.close_blocking(1)
            directory, log = reopen(disk, COMPACTED)
            assert log.aborted.find_blocking(0, log.last_stable_offset) == aborted
    for producer in list(undecided):
        end(log, producer, is_commit=False)
    settle(log)
    clean(log)
    aborted_ranges = log.aborted.find_blocking(0, log.last_stable_offset)
    read: dict[bytes, bytes | None] = {}
    for data in batches_of(log):
        header = read_header(data)
        is_aborted = any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
            for each in aborted_ranges
        )
        if not is_aborted and not header.is_control:
            read.update((record.key or b"", record.value) for record in iterate_records(data))
    assert read == latest
    producers = {p: (s.last_sequence, s.transaction_first_offset) for p, s in log.producers.items()}
    directory.close_blocking(1)
    for name in disk.listdir(REPLICA):
        if name.endswith(".snapshot"):
            disk.remove(f"{REPLICA}/{name}")
    log = reopen(disk, COMPACTED)[1]
    assert {p: (s.last_sequence, s.transaction_first_offset) for p, s in log.producers.items()} == producers
    assert log.rot is None
