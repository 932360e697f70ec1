import struct

from esp.cli.dumping.file_dump import dump_offset_index, dump_time_index
from tests.unit.cli.dumping.test_segment_dump import batch, complaints

FIRST, SECOND = batch(100, b"one", b"two"), batch(102, b"three")
SEGMENT = memoryview(FIRST + SECOND)


def offsets(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries):
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_an_offset_index_that_names_its_batches_is_right():
    found = list(dump_offset_index(offsets((2, len(FIRST))), 100, SEGMENT))
    assert [finding.text for finding in found] == [f"offset: 102 position: {len(FIRST)}"]
    assert complaints(found) == []


def test_an_entry_that_names_no_batch_or_another_is_told():
    (complaint,) = complaints(dump_offset_index(offsets((2, 7)), 100, SEGMENT))
    assert "there is no batch" in complaint
    (complaint,) = complaints(dump_offset_index(offsets((1, len(FIRST))), 100, SEGMENT))
    assert "a batch that ends at 102" in complaint


def test_entries_that_do_not_rise_are_told_also_without_the_segment():
    (complaint,) = complaints(dump_offset_index(offsets((5, 50), (5, 60)), 0, None))
    assert "does not follow" in complaint
    (complaint,) = complaints(dump_time_index(times((500, 5), (400, 6)), 0, None))
    assert "does not follow" in complaint


def test_padding_and_a_rest_are_no_entries():
    assert len(list(dump_offset_index(offsets((5, 50), (0, 0), (0, 0)) + b"\1\2", 0, None))) == 1
    assert len(list(dump_time_index(times((500, 5), (0, 0)) + b"\1", 0, None))) == 1
    assert list(dump_offset_index(b"", 0, None)) == []


def test_a_time_index_is_held_against_the_batch_of_its_offset():
    assert complaints(dump_time_index(times((1000, 1)), 100, SEGMENT)) == []
    (complaint,) = complaints(dump_time_index(times((999, 1)), 100, SEGMENT))
    assert "it is 1000" in complaint
    (complaint,) = complaints(dump_time_index(times((1000, 9)), 100, SEGMENT))
    assert "there is none" in complaint
