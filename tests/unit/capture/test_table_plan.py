import pytest

from esp.capture.decision import RefusedError
from esp.capture.file_names import FileName
from esp.capture.table_plan import application_of, ends_of, files_to_add
from esp.consumer.messages import Partition

ZERO, ONE = Partition("flights", 0), Partition("flights", 1)
FILES = [FileName(ZERO, 0, 5, 20), FileName(ZERO, 5, 9, 20), FileName(ONE, 3, 4, 21)]


def test_an_application_is_a_partition_of_a_capture() -> None:
    assert application_of("lake", ONE) == "esp-capture.lake/flights-1"


@pytest.mark.parametrize(
    ("ends", "lacking"),
    [
        ({}, FILES),
        ({ZERO: 5}, FILES[1:]),
        ({ZERO: 9, ONE: 4}, []),
        ({ZERO: 100, ONE: 0}, FILES[2:]),
    ],
    ids=["new", "some", "all", "more than a slow runner knows"],
)
def test_a_table_lacks_what_is_behind_its_ends(ends: dict[Partition, int], lacking: list[FileName]) -> None:
    assert files_to_add([*reversed(FILES), *FILES[:1]], ends) == sorted({*lacking})


def test_a_table_that_ends_within_a_file_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"up to offset 7, which is within flights/dt=1970-01-21/0-5-9.parquet"):
        files_to_add(FILES, {ZERO: 7})


def test_ends_are_those_of_the_last_files() -> None:
    assert ends_of([FILES[1], FILES[0], FILES[2]]) == {ZERO: 9, ONE: 4}
