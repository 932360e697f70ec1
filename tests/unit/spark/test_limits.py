"""The limits of micro-batches, against partitions in memory."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.consumer.messages import Partition
from esp.spark.limits import Limits, Sample, limit_ranges, must_wait
from esp.spark.ranges import OffsetRange

SAMPLED = 4
SIZES = (10.0, 1000.0, 0.5)


class Log:
    """Partitions in memory: the timestamps of their records, whose offsets begin at 0."""

    def __init__(self, times: Sequence[Sequence[int]]) -> None:
        self.times = {Partition("t", number): list(each) for number, each in enumerate(times)}

    def ranges(self, position: Mapping[Partition, int]) -> list[OffsetRange]:
        return [OffsetRange(one, position[one], len(times)) for one, times in self.times.items()]

    def samples(self, position: Mapping[Partition, int]) -> dict[Partition, Sample]:
        samples = {}
        for one, times in self.times.items():
            first = position[one]
            end = min(first + SAMPLED, len(times))
            samples[one] = Sample(SIZES[one.number % 3], range(first, end), times[first:end], end)
        return samples

    def find(self, time: int, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return {
            one: next((offset for offset, each in enumerate(self.times[one]) if each >= time), -1) for one in partitions
        }

    def batches(self, limits: Limits) -> list[list[OffsetRange]]:
        """What the batches of a stream read until all is read; each reads something."""
        position = dict.fromkeys(self.times, 0)
        batches = []
        while any(one.size for one in self.ranges(position)):
            batch = limit_ranges(self.ranges(position), limits, self.samples(position), self.find)
            assert [(one.partition, one.first) for one in batch] == list(position.items())
            assert all(one.first <= one.end <= len(self.times[one.partition]) for one in batch)
            assert any(one.size for one in batch), "a stream goes on"
            position = {one.partition: one.end for one in batch}
            batches.append(batch)
        return batches


NUMBERS = st.none() | st.integers(1, 40)
LIMITS = st.builds(
    Limits, max_offsets=NUMBERS, max_bytes=st.none() | st.integers(1, 9000), max_time_ms=st.none() | st.integers(1, 60)
)
TIMES = st.lists(st.lists(st.integers(-1, 100), max_size=30), min_size=1, max_size=4)
RISING = TIMES.map(lambda partitions: [sorted(times) for times in partitions])


@settings(max_examples=200)
@given(times=TIMES, limits=LIMITS)
def test_whatever_the_limits_a_stream_comes_to_its_end(times: list[list[int]], limits: Limits) -> None:
    Log(times).batches(limits)


@settings(max_examples=200)
@given(times=RISING, limits=LIMITS, window=st.integers(1, 60))
def test_a_batch_by_time_reads_no_record_earlier_than_the_batch_before_it(
    times: list[list[int]], limits: Limits, window: int
) -> None:
    log = Log(times)
    limits = Limits(max_offsets=limits.max_offsets, max_bytes=limits.max_bytes, max_time_ms=window)
    latest = -2
    for batch in log.batches(limits):
        read = [time for one in batch for time in log.times[one.partition][one.first : one.end]]
        assert min(read) > latest
        latest = max(read)
        assert latest < min(read) + window
        if limits.max_offsets is not None and latest > min(read):
            assert len(read) <= limits.max_offsets


@settings(max_examples=100)
@given(times=TIMES, limit=st.integers(1, 40))
def test_offsets_are_shared_by_the_sizes_of_partitions(times: list[list[int]], limit: int) -> None:
    for batch in Log(times).batches(Limits(max_offsets=limit)):
        assert sum(one.size for one in batch) <= limit + len(times)


@settings(max_examples=100)
@given(times=TIMES, limit=st.integers(1, 9000))
def test_bytes_are_bounded_but_for_one_record_of_each_partition(times: list[list[int]], limit: int) -> None:
    for batch in Log(times).batches(Limits(max_bytes=limit)):
        least = sum(SIZES[one.partition.number % 3] for one in batch)
        assert sum(one.size * SIZES[one.partition.number % 3] for one in batch) <= limit + least


def sizes(batches: list[list[OffsetRange]]) -> list[list[int]]:
    return [[one.size for one in batch] for batch in batches]


def test_shares_are_those_of_the_kafka_source() -> None:
    """``limit x size / total``, rounded down, but one at least."""
    log = Log([[0] * 500, [0] * 100, [0], []])
    assert sizes(log.batches(Limits(max_offsets=60)))[0] == [49, 9, 1, 0]


def test_without_limits_a_batch_is_all() -> None:
    assert sizes(Log([[5, 3], [1]]).batches(Limits())) == [[2, 1]]


def test_a_partition_that_lags_is_read_alone_until_it_has_caught_up() -> None:
    log = Log([range(0, 100, 10), range(50, 100, 10)])
    assert sizes(log.batches(Limits(max_time_ms=30))) == [[3, 0], [3, 1], [3, 3], [1, 1]]


def test_the_time_is_halved_until_the_number_fits_too() -> None:
    log = Log([range(64), range(64)])
    assert sizes(log.batches(Limits(max_time_ms=64, max_offsets=20)))[0] == [8, 8]
    same = Log([[7] * 50])
    assert sizes(same.batches(Limits(max_time_ms=64, max_offsets=20))) == [[50]]


def test_an_early_record_behind_a_late_one_does_not_stop_a_partition() -> None:
    log = Log([[90, 1, 2, 40, 3, 4, 5]])
    one = Partition("t", 0)

    def end(first: int) -> int:
        position = {one: first}
        limits = Limits(max_time_ms=10)
        return limit_ranges(log.ranges(position), limits, log.samples(position), log.find)[0].end

    assert end(1) == 3, "the next record that is late"
    assert end(4) == 7, "none of those that were looked at is late"


def test_a_range_of_markers_alone_is_read_at_once() -> None:
    one = OffsetRange(Partition("t", 0), 3, 9)
    samples = {one.partition: Sample(12.0, (), (), 9)}
    assert limit_ranges([one], Limits(max_time_ms=5), samples, lambda *_: {}) == [one]


def test_too_few_offsets_wait_but_not_longer_than_the_delay() -> None:
    limits = Limits(min_offsets=10, max_delay_ms=500)
    assert must_wait(limits, 9, 499)
    assert not must_wait(limits, 10, 0)
    assert not must_wait(limits, 9, 500)
    assert not must_wait(limits, 0, None), "the first batch does not wait"
    assert not must_wait(Limits(), 0, 0)
