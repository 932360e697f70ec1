import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.records.batch_header import BatchHeader, read_header
from esp.records.builder import NewRecord, build_batch
from esp.storage.compaction import fates
from esp.storage.compaction.survivors import Survivors
from tests.unit.storage.compaction.cleaned import COMPACTED, clean, put, records_of, settle
from tests.unit.storage.helpers import new_disk, new_log


def header(base_offset: int, last_offset: int) -> BatchHeader:
    batch = read_header(build_batch([NewRecord(b"v", b"k")], base_offset=base_offset))
    return batch._replace(last_offset_delta=last_offset - base_offset)


@given(st.sets(st.integers(0, 100_000)), st.lists(st.integers(1, 40_000), min_size=1, max_size=20))
def test_each_batch_is_told_its_own(offsets: set[int], sizes: list[int]) -> None:
    survivors = Survivors(0)
    backwards = sorted(offsets, reverse=True)
    for part in backwards[: len(offsets) // 2], backwards[len(offsets) // 2 :]:
        survivors.add(2 * offset for offset in part)
    survivors.turn()
    base_offset = 0
    for size in sizes:
        expected = [2 * offset for offset in sorted(offsets) if base_offset <= offset < base_offset + size]
        assert survivors.find(header(base_offset, base_offset + size - 1)) == expected
        base_offset += size


def test_nothing_is_known_of_batches_before_the_dirty_part() -> None:
    survivors = Survivors(10)
    survivors.add([22, 20])
    survivors.turn()
    assert survivors.find(header(5, 9)) is None
    assert survivors.find(header(9, 10)) == [20]
    assert survivors.find(header(11, 12)) == [22]
    assert survivors.find(header(13, 14)) == []


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of the batches that are opened once it is known what stays."""
    found: list[int] = []
    original = fates.open_batch

    def open_batch(header: BatchHeader, chunk: bytes, index: int) -> fates.Opened:
        found.append(header.base_offset)
        return original(header, chunk, index)

    monkeypatch.setattr(fates, "open_batch", open_batch)
    return found


@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_of_which_nothing_stays_is_not_opened(codec: int, opened: list[int]) -> None:
    _, log = new_log(new_disk(), COMPACTED)
    for value in (b"1", b"2", b"3", b"4"):
        put(log, (b"a", value), (b"b", value), codec=codec)
    put(log, (b"a", b"5"), codec=codec)
    settle(log)
    clean(log)
    assert opened == [6, 8]
    assert [(record.offset, record.value) for record in records_of(log)] == [(7, b"4"), (8, b"5")]
