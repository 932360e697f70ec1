from hypothesis import given, settings
from hypothesis import strategies as st

from esp.consumer.messages import Partition
from esp.spark.ranges import OffsetRange, divide

LIMITS = st.none() | st.integers(1, 60)
RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500)), max_size=8).map(
    lambda drawn: [
        OffsetRange(Partition("t", number), first, first + size) for number, (first, size) in enumerate(drawn)
    ]
)


@settings(max_examples=50)
@given(ranges=RANGES, min_parts=LIMITS, max_records=LIMITS, max_bytes=st.none() | st.integers(1, 9000))
def test_parts_are_the_ranges_without_loss_overlap_or_empty_ones(ranges, min_parts, max_records, max_bytes) -> None:
    sizes = {one.partition: 30.0 * one.partition.number for one in ranges}
    parts = divide(ranges, min_parts, max_records, max_bytes, sizes)
    assert all(part.size > 0 for part in parts)
    for one in ranges:
        own = [part for part in parts if part.partition == one.partition]
        borders = [one.first, *(part.end for part in own)]
        assert [part.first for part in own] == borders[:-1]
        assert borders[-1] == one.end
        if own:
            assert max(part.size for part in own) <= (max_records or one.size)
        if own and max_bytes is not None:
            assert max(part.size for part in own) <= max(1, max_bytes / max(sizes[one.partition], 1e-9))
    if min_parts is not None and sum(one.size for one in ranges) >= min_parts and len(ranges) == 1:
        assert len(parts) >= min_parts


def sizes_of(parts: list[OffsetRange]) -> list[list[int]]:
    return [[part.size for part in parts if part.partition.number == number] for number in range(3)]


def test_large_ranges_get_more_of_the_parts_as_with_the_kafka_source() -> None:
    """The arithmetic is that of Spark's ``KafkaOffsetRangeCalculator``."""

    def of(*sizes: int) -> list[OffsetRange]:
        return [OffsetRange(Partition("t", number), 1, 1 + size) for number, size in enumerate(sizes)]

    def split(ranges: list[OffsetRange], parts: int) -> list[list[int]]:
        return sizes_of(divide(ranges, parts, None, None, {}))

    assert split(of(4), 3) == [[1, 1, 2], [], []]
    assert split(of(19, 2, 2), 3) == [[19], [2], [2]]
    assert split(of(1, 5), 4) == [[1], [1, 2, 2], []]
    assert split(of(5, 0, 5), 4) == [[2, 3], [], [2, 3]]
    assert split(of(100, 1, 1), 6) == [[25, 25, 25, 25], [1], [1]]


def test_records_are_bounded_before_parts_are_counted() -> None:
    one = OffsetRange(Partition("t", 0), 10, 110)
    assert [part.size for part in divide([one], None, 40, None, {})] == [33, 33, 34]
    assert len(divide([one], 9, 40, None, {})) == 9
    assert len(divide([one], 2, 40, None, {})) == 3
