"""What stands in a replica's directory when segments were begun, taken out and cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import read_header
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.storage.log import Log
from esp.storage.segment_files import CutPlace
from tests.unit.storage.helpers import REPLICA, append, headers, make_batch, new_disk, new_log, read_all

SEVERAL = TopicSettings(segment_bytes=250, index_interval_bytes=100)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.files.segments]


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=12), gap=st.integers(0, 2), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_cut_leaves_the_batches_that_end_before_the_offset(counts: list[int], gap: int, data: st.DataObject) -> None:
    _, log = new_log(new_disk(), SEVERAL)
    for count in counts:  # compaction may leave gaps between offsets
        batch = make_batch(log.log_end_offset + gap, records=count)
        log.append(batch, read_header(batch), 0)
    batches = read_all(log)
    offset = data.draw(st.integers(1, log.log_end_offset))
    files = log.files
    place = files.find_cut(offset)
    kept = [batch for batch in batches if batch.last_offset < offset]
    files.cut(place)
    segment = files.segments.active
    assert segment is files.segments[place.number]
    assert segment.next_base_offset == LONG_MAX
    stands = b"".join(part.file.read_blocking(0, part.file.size()) for part in files.segments)
    assert headers(stands) == kept
    assert place.end_offset == (kept[-1].next_offset if segment.size else segment.base_offset)
    assert segment.size == segment.file.size()
    assert place.position in (None, segment.size)


def test_looking_for_the_place_to_cut_changes_nothing() -> None:
    disk = new_disk()
    _, log = new_log(disk, SEVERAL)
    for _ in range(6):
        append(log, records=2)
    before = {name: disk.read_file(f"{REPLICA}/{name}") for name in disk.listdir(REPLICA)}
    first = log.files.segments[0]
    assert log.files.find_cut(3) == CutPlace(0, first.size // 2, 2)
    assert log.files.find_cut(4) == CutPlace(0, None, 4)
    assert {name: disk.read_file(f"{REPLICA}/{name}") for name in disk.listdir(REPLICA)} == before


def test_readers_of_what_was_cut_forget_where_they_stood() -> None:
    _, log = new_log(new_disk())
    for _ in range(3):
        append(log)
    assert log.read(0, 1000, 2, at_least_one=True)  # the place of offset 2 is remembered
    log.truncate_to(1)
    append(log, size=300)
    last = append(log)
    assert log.read(2, 1000, 3, at_least_one=True) == last


def test_what_is_put_aside_keeps_its_bytes_until_it_is_purged() -> None:
    disk = new_disk()
    directory, log = new_log(disk, SEVERAL)
    for _ in range(6):
        append(log)
    oldest = log.files.segments[0]
    stood = disk.read_file(f"{REPLICA}/{0:020d}.log")
    left = bases(log)[1:]
    log.files.remove_front(1, due_ms=500)
    assert bases(log) == left
    assert oldest.file.read_blocking(0, len(stood)) == stood
    assert disk.read_file(f"{REPLICA}/{0:020d}.log.deleted") == stood
    directory.purge(499)
    assert disk.exists(f"{REPLICA}/{0:020d}.log.deleted")
    directory.purge(500)
    assert [name for name in disk.listdir(REPLICA) if name.startswith(f"{0:020d}")] == []


def test_beginning_anew_leaves_one_empty_segment() -> None:
    disk = new_disk()
    _, log = new_log(disk, SEVERAL)
    for _ in range(6):
        append(log)
    log.files.begin_anew(100, SEVERAL)
    assert bases(log) == [100]
    assert [name for name in disk.listdir(REPLICA) if name.endswith(".log")] == [f"{100:020d}.log"]


def test_a_segment_that_is_broken_where_it_is_cut_is_left_as_it_is() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log)
    append(log)
    file = log.files.segments.active.file
    size = file.size()
    disk.write_file(f"{REPLICA}/{0:020d}.log", bytes(size))
    with pytest.raises(CorruptionError):
        log.files.find_cut(1)
    assert disk.stat(f"{REPLICA}/{0:020d}.log").size == size
