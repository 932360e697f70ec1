import errno

import pytest

from esp.storage.offset_index import OffsetIndex
from esp.storage.segment import save_index
from tests.unit.storage.helpers import new_disk


def grow(index: OffsetIndex, count: int) -> None:
    for number in range(len(index), len(index) + count):
        index.append(100 + number, 10 * (number + 1))


def test_only_new_entries_are_written_and_a_longer_file_is_cut() -> None:
    disk = new_disk()
    index = OffsetIndex(100)
    grow(index, 3)
    save_index(disk, "index", index)
    grow(index, 2)
    save_index(disk, "index", index)
    assert disk.read_file("index") == index.encode(0)
    index.truncate(1)
    save_index(disk, "index", index)
    assert disk.read_file("index") == index.encode(0)
    assert index.saved == 1


def test_a_file_that_lost_entries_is_written_anew() -> None:
    disk = new_disk()
    index = OffsetIndex(100)
    grow(index, 3)
    save_index(disk, "index", index)
    disk.write_file("index", b"")
    save_index(disk, "index", index)
    assert disk.read_file("index") == index.encode(0)


def test_a_partial_write_is_repaired_by_the_next_call() -> None:
    disk = new_disk()
    index = OffsetIndex(100)
    grow(index, 3)
    disk.fill_up(11)
    with pytest.raises(OSError, match="No space") as error:
        save_index(disk, "index", index)
    assert error.value.errno == errno.ENOSPC
    assert index.saved == 0
    disk.heal()
    save_index(disk, "index", index)
    assert disk.read_file("index") == index.encode(0)
