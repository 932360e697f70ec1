import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.capture.file_names import NO_DAY, FileName, parse_path, partition_of_work, work_name
from esp.consumer.messages import Partition

PARTITIONS = st.builds(Partition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1))


@given(PARTITIONS, st.integers(NO_DAY, 2_932_896), st.integers(0, 2**62), st.integers(1, 2**62))
def test_name_is_read_back(partition: Partition, day: int, first: int, size: int) -> None:
    name = FileName(partition, first, first + size, day)
    assert parse_path(name.path) == name


def test_name_says_topic_day_partition_and_offsets() -> None:
    assert FileName(Partition("flights", 3), 0, 1000, 20_783).path == "flights/dt=2026-11-26/3-0-1000.parquet"
    assert FileName(Partition("t", 0), 5, 6, NO_DAY).path == "t/dt=__HIVE_DEFAULT_PARTITION__/0-5-6.parquet"


@pytest.mark.parametrize(
    "path",
    [
        "t/dt=2026-11-26/0-5-5.parquet",  # holds nothing
        "t/dt=2026-11-26/0-05-6.parquet",
        "t/dt=2026-13-26/0-5-6.parquet",
        "t/dt=2026-11-26/0-5.parquet",
        "t/dt=2026-11-26/0-5-6.parquet.crc",
        "dt=2026-11-26/0-5-6.parquet",
        work_name(Partition("t", 0), 5, "a1"),
        "_capture.json",
    ],
)
def test_other_files_are_not_captured_ones(path: str) -> None:
    assert parse_path(path) is None


@given(PARTITIONS, st.integers(0, 2**62), st.text("0123456789abcdef", min_size=1))
def test_partition_of_a_file_without_a_name_is_read_back(partition: Partition, first: int, runner: str) -> None:
    assert partition_of_work(work_name(partition, first, runner)) == partition


@pytest.mark.parametrize("path", ["_work/owner-0a1b", "t/dt=2026-11-26/0-5-6.parquet", "_work/t-0-r.parquet"])
def test_other_files_are_none_without_a_name(path: str) -> None:
    assert partition_of_work(path) is None


def test_names_of_a_partition_are_in_the_order_of_offsets() -> None:
    late, early = FileName(Partition("t", 0), 0, 5, 9), FileName(Partition("t", 0), 5, 6, 3)
    assert sorted([early, late]) == [late, early]
