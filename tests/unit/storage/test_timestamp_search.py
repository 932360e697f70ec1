"""Searches by time rely neither on the word of a time index file, which has no checksum, nor on a header that may have rotted (REC-4)."""

import dataclasses
import struct
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from esp.model.errors import CorruptionError
from esp.records.batch_header import HEADER_SIZE, LENGTH_OFFSET, MAX_TIMESTAMP_OFFSET
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from esp.storage.steps import read
from esp.storage.time_proof import TimeProof
from esp.storage.timestamp_search import _scan, _Wanted
from tests.unit.storage.helpers import CPU, REPLICA, append, headers, new_disk, new_log, reopen, run

SETTINGS = TopicSettings(segment_bytes=700, index_interval_bytes=0)
TIMES = (1000, 1200, 1100, 1500, 1700, 1650, 1800, 2100, 2000, 1300, 2300, 2500, 2400, 2600)
"""The times of batches of one record each; three segments, the last of them active."""
ENTRY = struct.Struct(">qi")


def time_index(base_offset: int) -> str:
    return f"{REPLICA}/{base_offset:020d}.timeindex"


def closed(
    disk: SimulatedDisk, times: tuple[int, ...] = TIMES, settings: TopicSettings = SETTINGS, size: int = 60
) -> list[int]:
    """Write a log of one batch for each time, and close it; returns the base offsets of its segments."""
    directory, log = new_log(disk, settings)
    for timestamp in times:
        append(log, timestamp=timestamp, size=size)
    directory.close_blocking(1)
    return [segment.base_offset for segment in log.files.segments]


def opened(disk: SimulatedDisk, settings: TopicSettings = SETTINGS) -> Log:
    log = reopen(disk, settings)[1]
    log.high_watermark = log.log_end_offset
    return log


def found_by_time(log: Log, timestamp: int) -> int | None:
    found = run(log.find_offset_by_timestamp(timestamp, CPU))
    return None if found is None else found.offset


def first_since(timestamp: int) -> int | None:
    return next((offset for offset, each in enumerate(TIMES) if each >= timestamp), None)


def with_flipped_bit(base: int, bit: int) -> Log:
    disk = new_disk()
    closed(disk)
    disk.corrupt(time_index(base), bit // 8, 1 << bit % 8)
    return opened(disk)


@pytest.mark.parametrize("number", range(3))
def test_one_flipped_bit_of_a_time_index_misleads_no_search(number: int) -> None:
    disk = new_disk()
    bases = closed(disk)
    assert len(bases) == 3
    base = bases[number]
    wanted = {timestamp: first_since(timestamp) for known in TIMES for timestamp in (known, known + 1)}
    data = disk.read_file(time_index(base))
    assert len(data) >= 2 * ENTRY.size, "entries within the index, too"
    for bit in range(len(data) * 8):
        log = with_flipped_bit(base, bit)
        assert {timestamp: found_by_time(log, timestamp) for timestamp in wanted} == wanted, bit
        largest = run(with_flipped_bit(base, bit).find_max_timestamp(CPU))
        assert largest is not None
        assert (largest.timestamp, largest.offset) == (2600, 13), bit


def test_what_was_read_for_a_search_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    step = TimeProof._step_blocking
    monkeypatch.setattr(
        TimeProof, "_step_blocking", lambda proof: (read.append(proof.segment.base_offset), step(proof))[1]
    )
    disk = new_disk()
    [first, *_] = closed(disk)
    disk.write_file(time_index(first), ENTRY.pack(1100, 1))
    log = opened(disk)
    for _ in range(2):
        assert found_by_time(log, 1150) == 1
        assert found_by_time(log, 1600) == 4
        assert run(log.find_max_timestamp(CPU)) == (2600, 13, 0)
    assert read == [first]


def test_a_batch_that_has_rotted_is_reported_by_a_search() -> None:
    disk = new_disk()
    [first, *_] = closed(disk)
    disk.write_file(time_index(first), ENTRY.pack(1100, 1))
    disk.corrupt(f"{REPLICA}/{first:020d}.log", 70, 1)
    log = opened(disk)
    for _ in range(2):
        with pytest.raises(
            CorruptionError
        ):  # its timestamps are unknown, and the index says nothing that can be relied on
            found_by_time(log, 2400)
    assert log.rot is not None


LAST_DELTA_OFFSET = 23
HEADER_BITS = (
    *range((LENGTH_OFFSET + 3) * 8, (LENGTH_OFFSET + 3) * 8 + 3),
    *range((LAST_DELTA_OFFSET + 3) * 8, (LAST_DELTA_OFFSET + 3) * 8 + 3),
    *range((MAX_TIMESTAMP_OFFSET + 6) * 8, (MAX_TIMESTAMP_OFFSET + 6) * 8 + 4),
    *range((MAX_TIMESTAMP_OFFSET + 7) * 8 + 4, (MAX_TIMESTAMP_OFFSET + 8) * 8),
    MAX_TIMESTAMP_OFFSET * 8 + 7,
)
"""The positions of bits of the fields by which a search passes a batch."""


def places() -> list[tuple[str, int]]:
    """The file and position of each batch of the log, but for the last one, without which a log is not opened."""
    disk = new_disk()
    bases = closed(disk)
    found = []
    for base in bases:
        path = f"{REPLICA}/{base:020d}.log"
        position = 0
        for header in headers(disk.read_file(path)):
            found.append((path, position))
            position += header.size
    return found[:-1]


def in_one_process(disk: SimulatedDisk, settings: TopicSettings, _flip: Callable[[], None]) -> Log:
    log = opened(disk, settings)
    for segment in log.files.segments:
        run(read(log.files.segments.load_indexes(segment)))
    return log


def after_a_clean_stop(disk: SimulatedDisk, settings: TopicSettings, flip: Callable[[], None]) -> Log:
    flip()
    return opened(disk, settings)


def after_a_kill(disk: SimulatedDisk, settings: TopicSettings, flip: Callable[[], None]) -> Log:
    opened(disk, settings)
    disk.crash()
    flip()
    return opened(disk, settings)


@pytest.mark.parametrize("open_flipped", [in_one_process, after_a_clean_stop, after_a_kill])
@pytest.mark.parametrize("interval", [0, 250, 100_000])
def test_one_flipped_bit_of_a_header_hides_no_record(
    interval: int, open_flipped: Callable[[SimulatedDisk, TopicSettings, Callable[[], None]], Log]
) -> None:
    settings = dataclasses.replace(SETTINGS, index_interval_bytes=interval)
    noticed = 0
    for path, position in places():
        for bit in HEADER_BITS:
            disk = new_disk()
            closed(disk, settings=settings)
            flip = partial(disk.corrupt, path, position + bit // 8, 1 << bit % 8)
            try:
                log = open_flipped(disk, settings, flip)
            except CorruptionError:  # a length; the node does not start
                continue
            if open_flipped is in_one_process:
                flip()
            noticed += is_noticed(log)
    assert noticed > 100


def is_noticed(log: Log) -> bool:
    """Search for each timestamp: the answer is right, or an error, and the rot is noted. Return True if it was noted."""
    for timestamp in TIMES:
        try:
            assert found_by_time(log, timestamp) == first_since(timestamp)
        except CorruptionError:
            assert log.rot is not None
    try:
        assert run(log.find_max_timestamp(CPU)) == (2600, 13, 0)
    except CorruptionError:
        assert log.rot is not None
    return log.rot is not None


def test_indexes_that_were_made_from_headers_are_not_relied_on() -> None:
    disk = new_disk()
    [first, *_] = closed(disk)
    log = opened(disk)
    disk.corrupt(f"{REPLICA}/{first:020d}.index", 3, 4)  # the entry that a search for an offset looks at
    position = headers(disk.read_file(f"{REPLICA}/{first:020d}.log"))[0].size
    # The batch of the timestamp 1200 says 176 now; the index of these headers goes on from 1000 at offset 0 to 1100 at offset 2.
    disk.corrupt(f"{REPLICA}/{first:020d}.log", position + MAX_TIMESTAMP_OFFSET + 6, 4)
    run(read(log.files.segments[0].load_indexes()))
    run(read(log.files.segments[0]._rebuild_indexes()))
    with pytest.raises(CorruptionError):
        found_by_time(log, 1150)


@pytest.mark.parametrize("size", [100, 5_000, 40_000])
def test_batches_of_one_time_are_checked_off_the_loop(size: int) -> None:
    settings = TopicSettings(segment_bytes=1 << 30)
    count = 3_000_000 // size
    disk = new_disk()
    closed(disk, (*(1000,) * count, 2000), settings, size)
    log = opened(disk, settings)
    assert found_by_time(log, 1500) == count
    [path] = [name for name in disk.listdir(REPLICA) if name.endswith(".log")]
    disk.corrupt(f"{REPLICA}/{path}", 1_500_000, 1)
    with pytest.raises(CorruptionError):
        found_by_time(log, 1500)
    assert log.rot is not None


def test_the_largest_timestamps_of_cold_segments_cost_one_read_each_and_once() -> None:
    reads: Counter[str] = Counter()

    async def count(operation: str, _size: int) -> None:
        reads[operation] += 1

    disk = SimulatedDisk(Random(0), wait=count)
    settings = TopicSettings(segment_bytes=400, index_interval_bytes=100)
    bases = closed(disk, tuple(range(1000, 2000)), settings)
    for base in bases:
        disk.make_cold(f"{REPLICA}/{base:020d}.log")
    log = opened(disk, settings)
    for base in bases:
        disk.make_cold(f"{REPLICA}/{base:020d}.log")
    sealed = len(bases) - 1
    assert sealed > 300
    reads.clear()
    assert found_by_time(log, 1999) == 999
    first = reads["read"]
    assert sealed <= first <= sealed + 5
    assert found_by_time(log, 1999) == 999
    assert run(log.find_max_timestamp(CPU)) == (1999, 999, 0)
    assert reads["read"] <= first + 5


def test_a_size_that_no_batch_has_ends_a_search_where_it_stands() -> None:
    disk = new_disk()
    closed(disk)
    chunk = bytearray(disk.read_file(f"{REPLICA}/{0:020d}.log"))
    struct.pack_into(">i", chunk, LENGTH_OFFSET, HEADER_SIZE - 1 - 12)
    with pytest.raises(CorruptionError, match="no batch at 0"):
        _scan("log", chunk, 0, len(chunk), _Wanted(timestamp=5000, start_offset=0, end_offset=9, proven_end=9))
