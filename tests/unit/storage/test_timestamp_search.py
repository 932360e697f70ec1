"""Searches by time do not rely on the word of a time index file, which has no checksum (REC-4)."""

import struct
from collections import Counter
from random import Random

import pytest

from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from esp.storage.time_proof import TimeProof
from tests.unit.storage.helpers import CPU, REPLICA, append, new_disk, new_log, reopen, run

SETTINGS = TopicSettings(segment_bytes=700, index_interval_bytes=0)
TIMES = (1000, 1200, 1100, 1500, 1700, 1650, 1800, 2100, 2000, 1300, 2300, 2500, 2400, 2600)
"""Of batches of one record each; three segments, the last of them active."""
ENTRY = struct.Struct(">qi")


def time_index(base_offset: int) -> str:
    return f"{REPLICA}/{base_offset:020d}.timeindex"


def closed(disk: SimulatedDisk, times: tuple[int, ...] = TIMES, settings: TopicSettings = SETTINGS) -> list[int]:
    """Write a log of one batch for each time, and close it; returns the base offsets of its segments."""
    directory, log = new_log(disk, settings)
    for timestamp in times:
        append(log, timestamp=timestamp, size=60)
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
    assert found_by_time(log, 2400) == 11
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
