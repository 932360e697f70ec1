import pytest

from esp.ports.disk import File
from esp.records.batch_header import HEADER_SIZE
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.storage.segment import Segment, find_batch
from esp.storage.segments import Segments
from esp.storage.steps import read_blocking
from tests.unit.storage.helpers import REPLICA, append, new_disk, new_log

BASES = [0, 10, 25, 30, 44, 50, 61]


def several() -> Segments:
    disk = new_disk()
    disk.make_directory("replica")
    segments = Segments()
    for base in BASES:
        segment = Segment(disk, "replica", base, TopicSettings(), 0)
        segment.create()
        segments.add(segment)
        segment.save_indexes()
    return segments


def test_the_segment_of_an_offset_is_the_last_that_begins_at_or_before_it() -> None:
    segments = several()
    for offset in range(80):
        assert segments[segments.floor(offset)].base_offset == max(base for base in BASES if base <= offset)
    assert segments.floor(-1) == 0


def test_each_segment_knows_where_the_next_begins() -> None:
    segments = several()
    assert [segment.next_base_offset for segment in segments] == [*BASES[1:], LONG_MAX]
    removed = segments.remove_from(3)
    assert [segment.base_offset for segment in removed] == BASES[3:]
    assert segments.active.base_offset == 25
    assert segments.active.next_base_offset == LONG_MAX
    assert [segment.base_offset for segment in segments.remove_front(1)] == [0]


def test_few_sealed_segments_keep_their_indexes_in_memory() -> None:
    segments = several()
    for segment in segments:
        read_blocking(segments.load_indexes(segment))
    assert [segment.base_offset for segment in segments if segment.indexes is not None] == BASES[2:]
    read_blocking(segments.load_indexes(segments[0]))
    assert [segment.base_offset for segment in segments if segment.indexes is not None] == [0, *BASES[3:]]


@pytest.mark.parametrize("missing", [1, 2, HEADER_SIZE])
def test_a_header_that_a_chunk_holds_in_part_is_read_with_the_next_one(missing: int) -> None:
    disk = new_disk()
    _, log = new_log(disk)
    first, second = append(log), append(log)
    whole = first + second
    file: File = disk.open(f"{REPLICA}/{0:020d}.log")
    search = find_batch(file, 0, len(whole), lambda _position, header: header.base_offset == 1)
    assert next(search)[1] == 0
    assert search.send(whole[: len(first) + HEADER_SIZE - missing])[1] == len(first)
    with pytest.raises(StopIteration) as end:
        search.send(second)
    assert end.value.value[0] == len(first)
