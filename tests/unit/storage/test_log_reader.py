"""Reads that go on where one ended, against the batches that were appended."""

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    SIZE_BEFORE_LENGTH_ENDS,
    pack_header,
    read_header,
)
from esp.settings.topic import TopicSettings
from esp.storage.log import Log
from esp.storage.log_reader import SEGMENTS_AT_ONCE
from tests.unit.storage.helpers import append, headers, make_batch, new_disk, new_log, reopen


def _fit(sizes: list[int], limit: int) -> int:
    """How many batches of ``sizes``, from the first on, fit into ``limit`` bytes; one at least."""
    count, total = 1, sizes[0]
    while count < len(sizes) and total + sizes[count] <= limit:
        total += sizes[count]
        count += 1
    return count


@given(
    records=st.lists(st.integers(1, 6), min_size=1, max_size=40),
    limits=st.lists(st.integers(0, 2000), min_size=1, max_size=5),
    index_interval_bytes=st.sampled_from((0, 300, 4096)),
)
@settings(max_examples=150, deadline=None)
def test_who_reads_on_gets_as_many_whole_batches_as_fit(
    records: list[int], limits: list[int], index_interval_bytes: int
) -> None:
    _, log = new_log(new_disk(), TopicSettings(index_interval_bytes=index_interval_bytes))
    appended = [append(log, records=count, size=20) for count in records]
    offset = reads = 0
    while appended:
        limit = limits[reads % len(limits)]
        data = log.read(offset, limit, log.log_end_offset, at_least_one=True)
        assert data is not None
        count = _fit([len(batch) for batch in appended], limit)
        assert data == b"".join(appended[:count])
        del appended[:count]
        offset = headers(data)[-1].next_offset
        reads += 1
    assert offset == log.log_end_offset


@given(st.integers(1, 30), st.integers(0, 1500), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_who_reads_on_is_not_told_of_what_is_not_committed(batches: int, limit: int, uncommitted: int) -> None:
    _, log = new_log(new_disk(), TopicSettings(index_interval_bytes=0))
    for _ in range(batches):
        append(log, records=2, size=20)
    committed = log.log_end_offset
    for _ in range(uncommitted):
        append(log, records=2, size=20)
    offset = 0
    while offset < committed:
        data = log.read(offset, limit, committed, at_least_one=True)
        assert data is not None
        found = headers(data)
        assert found[0].base_offset == offset
        offset = found[-1].next_offset
    assert offset == committed


def test_who_reads_on_gets_nothing_of_a_batch_that_does_not_fit_unless_asked_for() -> None:
    _, log = new_log(new_disk(), TopicSettings(index_interval_bytes=0))
    small = append(log, size=20)
    large = append(log, size=2000)
    append(log, size=20)
    assert log.read(0, len(small), 3, at_least_one=False) == small
    assert log.read(1, 500, 3, at_least_one=False) == b""
    assert log.read(1, 500, 3, at_least_one=True) == large


def test_end_that_lies_in_a_gap_between_segments_ends_no_read_within_the_next_one() -> None:
    """Compaction leaves such gaps, and a follower may know an end within one to be committed."""
    _, log = new_log(new_disk())
    first = append(log, records=4)
    log.begin_segment(20, 0)
    append(log, size=len(first))
    assert log.read(0, 2000, 10, at_least_one=True) == first
    assert log.read(5, 2000, 10, at_least_one=True) == b""


def _append_emptied(log: Log, records: int) -> bytes:
    """Append what compaction leaves of a batch of which no record stays."""
    header = read_header(make_batch(log.log_end_offset, records=records))
    emptied = bytearray(
        pack_header(header._replace(batch_length=HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS, record_count=0))
    )
    emptied = bytearray(pack_header(read_header(emptied)._replace(crc=crc32c(emptied[ATTRIBUTES_OFFSET:]))))
    log.append(emptied, read_header(emptied), 0)
    return bytes(emptied)


@pytest.mark.parametrize("in_order", [True, False])
def test_segments_without_records_come_together_with_records(*, in_order: bool) -> None:
    """A client that is given no record asks for more each time, and librdkafka gives up in the end."""
    disk = new_disk()
    _, log = new_log(disk)
    first = append(log)
    log.begin_segment(1, 0)
    emptied = []
    for _ in range(3):
        emptied.append(_append_emptied(log, 4))
        log.begin_segment(log.log_end_offset, 0)
    last = append(log)
    uncommitted = append(log)
    end_offset = log.log_end_offset - 1
    if not in_order:
        disk.crash()
        _, log = reopen(disk)
    behind = b"".join(emptied) + last
    assert log.read(0, 1_000_000, end_offset, at_least_one=True) == first, "here are records"
    assert log.read(1, 1_000_000, end_offset, at_least_one=True) == behind
    assert log.read(1, 1_000_000, end_offset, at_least_one=True) == behind
    assert log.read(5, 1_000_000, end_offset, at_least_one=True) == b"".join(emptied[1:]) + last
    assert log.read(1, 1_000_000, end_offset + 1, at_least_one=True) == behind + uncommitted
    assert log.read(1, 1_000_000, 9, at_least_one=True) == b"".join(emptied[:2])
    assert log.read(1, len(behind) - 1, end_offset, at_least_one=True) == b"".join(emptied)
    assert log.read(1, 60, end_offset, at_least_one=True) == emptied[0]


def test_a_read_goes_through_no_more_segments_than_its_bound() -> None:
    _, log = new_log(new_disk())
    for _ in range(SEGMENTS_AT_ONCE + 1):
        _append_emptied(log, 1)
        log.begin_segment(log.log_end_offset, 0)
    append(log)
    read = log.read(0, 1_000_000, log.log_end_offset, at_least_one=True)
    assert len(read or b"") == SEGMENTS_AT_ONCE * HEADER_SIZE


def test_damage_behind_segments_without_records_is_told_when_the_reader_gets_there() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    emptied = _append_emptied(log, 1)
    log.begin_segment(1, 0)
    append(log)
    log.begin_segment(2, 0)
    append(log)
    damaged = log.files.segments[1]
    disk.corrupt(damaged.file.path, 70)
    damaged.suspect()
    assert log.read(0, 1_000_000, 2, at_least_one=True) == emptied
    with pytest.raises(CorruptionError):
        log.read(1, 1_000_000, 2, at_least_one=True)
