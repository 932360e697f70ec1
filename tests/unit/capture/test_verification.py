"""The proof of a capture: what it finds in names and offsets that are not as a capture leaves them, held against sets of offsets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.capture.file_names import FileName
from esp.capture.position import Position
from esp.capture.verification import Bounds, InTable, bounds_of, check_against_log, check_file, check_names, check_table
from esp.consumer.messages import Partition

HERE = Partition("t", 0)
RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=6)


def names_of(ranges: list[tuple[int, int]]) -> list[FileName]:
    return sorted(FileName(HERE, first, first + size, 0) for first, size in ranges)


@given(RANGES, st.integers(0, 10), st.integers(0, 40))
def test_names_are_right_if_each_committed_offset_is_in_one_file(
    ranges: list[tuple[int, int]], begin: int, end: int
) -> None:
    names = names_of(ranges)
    covered = sorted(offset for name in names for offset in range(name.first, name.end))
    is_right = covered == [*range(begin, max(begin, end))]
    assert (not check_names(HERE, names, Bounds(begin, max(begin, end), max(begin, end)))) == is_right


@given(RANGES)
def test_names_alone_show_gaps_and_overlaps(ranges: list[tuple[int, int]]) -> None:
    names = names_of(ranges)
    covered = [offset for name in names for offset in range(name.first, name.end)]
    is_right = not covered or sorted(covered) == [*range(covered[0], max(covered) + 1)]
    assert (not check_names(HERE, names, Bounds())) == is_right


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([(3, 2), (7, 1)], ["gap: partition 0 of topic t, offsets 5 to 6 are in no file"]),
        (
            [(3, 5), (4, 4)],
            ["overlap: partition 0 of topic t, offsets 4 to 7 are in t/dt=1970-01-01/0-3-8.parquet and in"],
        ),
        ([(3, 4)], ["gap: partition 0 of topic t, offsets 7 to 7 are committed, and are in no file"]),
        ([(3, 6)], ["not committed: t/dt=1970-01-01/0-3-9.parquet goes up to offset 8, and offsets up to 7 are"]),
        ([(1, 7)], ["before the begin: t/dt=1970-01-01/0-1-8.parquet begins before the capture, at offset 3"]),
        ([], ["gap: partition 0 of topic t, offsets 3 to 7 are committed, and are in no file"]),
    ],
)
def test_places_are_exact(ranges: list[tuple[int, int]], words: list[str]) -> None:
    found = check_names(HERE, names_of(ranges), Bounds(3, 8, 8))
    assert len(found) == len(words)
    for problem, start in zip(found, words, strict=True):
        assert problem.replace("not committed: partition 0 of topic t, ", "not committed: ").startswith(start)


def test_a_file_is_held_against_its_name_and_its_footer() -> None:
    name = FileName(HERE, 3, 8, 0)
    assert check_file(name, "id", "id", 2, np.array([3, 7])) == []
    assert check_file(name, None, "id", 2, np.array([3, 7])) == []
    for topic_id, rows, captured, word in (
        ("other", 2, [3, 7], "another topic"),
        ("id", 3, [3, 7], "damaged"),
        ("id", 0, [], "empty"),
        ("id", 3, [3, 3, 7], "twice"),
        ("id", 2, [3, 8], "another range"),
        ("id", 2, [2, 7], "another range"),
    ):
        [problem] = check_file(name, topic_id, "id", rows, np.array(captured, np.int64))
        assert problem.startswith(word)


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.booleans())
def test_records_are_those_of_the_log(captured: set[int], logged: set[int], is_compacted: bool) -> None:
    name = FileName(HERE, 0, 10, 0)
    found = check_against_log(
        name,
        np.array(sorted(captured), np.int64),
        np.array(sorted(logged), np.int64),
        is_compacted=is_compacted,
    )
    assert any(each.startswith("missing") for each in found) == bool(logged - captured)
    assert any(each.startswith("not in the log") for each in found) == (bool(captured - logged) and not is_compacted)


def test_bounds_leave_room_for_a_runner_that_goes_on() -> None:
    before = Position(5, 1, "t/f", "_work/w", "r", "id")
    after = before._replace(offset=9)
    assert bounds_of(before, after, []) == Bounds(1, 5, 9)
    assert bounds_of(before, after, ["_work/w"]) == Bounds(1, None, 9)
    assert bounds_of(None, after, []) == Bounds(1, None, 9)
    assert bounds_of(None, None, []) == Bounds()


FILES = names_of([(3, 5), (8, 2)])
ROWS = {FILES[0]: 4, FILES[1]: 2}


@pytest.mark.parametrize(
    "table",
    [
        InTable(10, ROWS, False),
        InTable(10, dict.fromkeys(FILES), False),
        InTable(8, {FILES[0]: 4}, False),
        InTable(0, {}, False),
    ],
    ids=["all", "without numbers", "a round behind", "nothing yet"],
)
def test_a_table_has_files_up_to_its_end(table: InTable) -> None:
    assert check_table(HERE, FILES, ROWS, table, 10) == []


@pytest.mark.parametrize(
    ("table", "names", "most_end", "word"),
    [
        (InTable(10, {FILES[0]: 4}, False), FILES, 10, "not in the table: t/dt=1970-01-01/0-8-10.parquet"),
        (
            InTable(10, ROWS, False),
            FILES[:1],
            10,
            "gap: partition 0 of topic t, t/dt=1970-01-01/0-8-10.parquet is in the table",
        ),
        (InTable(8, ROWS, False), FILES, 10, "not added by the capture: t/dt=1970-01-01/0-8-10.parquet"),
        (
            InTable(10, {**ROWS, FILES[0]: 5}, False),
            FILES,
            10,
            "another number: t/dt=1970-01-01/0-3-8.parquet has 5 records by",
        ),
        (InTable(10, ROWS, False), FILES, 8, "not committed: partition 0 of topic t, the table goes up to offset 9"),
    ],
    ids=["lacking", "removed", "strange", "another number", "ahead"],
)
def test_a_table_that_is_not_as_the_capture_leaves_it(
    table: InTable, names: list[FileName], most_end: int, word: str
) -> None:
    [problem] = check_table(HERE, names, ROWS, table, most_end)
    assert problem.startswith(word)


def test_what_another_program_has_rewritten_is_not_missed() -> None:
    assert check_table(HERE, FILES, ROWS, InTable(10, {FILES[1]: 2}, True), None) == []
