"""A copy of a log beside its source: whatever happens to the source, the copy becomes equal to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import read_header
from esp.replication.future_replica import Cut, FutureReplica
from esp.settings.topic import TopicSettings
from esp.simulation.partition_tier.memory_log import MemoryLog
from tests.unit.replication.logs import filled, stamped

NUMBERS = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lead"), NUMBERS),
        st.tuples(st.just("grow"), st.integers(1, 4)),
        st.tuples(st.just("follow"), st.integers(1, 5)),
        st.tuples(st.just("copy"), st.integers(1, 5)),
        st.tuples(st.just("delete"), NUMBERS),
    ),
    max_size=60,
)


class Partition:
    """Leaders come and go, each with a prefix of the log before; one replica follows, and is copied."""

    def __init__(self):
        self.epochs = []  # of the leader's batches, each of one record
        self.epoch = 0
        self.source = MemoryLog(TopicSettings())
        self.copy = FutureReplica(MemoryLog(TopicSettings()))

    def lead(self, kept):
        kept = max(self.source.log_start_offset, kept % (len(self.epochs) + 1))
        self.epochs = self.epochs[:kept]
        self.epoch += 1

    def grow(self, count):
        self.epochs += [self.epoch] * count

    def follow(self, count):
        for _ in range(count):
            source = self.source
            own = {batch.header.base_offset: batch.header.leader_epoch for batch in source.batches}
            wrong = [offset for offset, epoch in own.items() if self.epochs[offset : offset + 1] != [epoch]]
            if wrong:
                source.truncate_to(min(wrong))
            elif source.log_end_offset < len(self.epochs):
                offset = source.log_end_offset
                batch = stamped(offset, self.epochs[offset])
                source.append(batch, read_header(batch), 0)

    def delete(self, offset):
        source = self.source
        offset = max(source.log_start_offset, min(offset, source.log_end_offset))
        source.high_watermark = max(source.high_watermark, offset)
        source.raise_log_start(offset)

    def step(self, count):
        source, log = self.source, self.copy.log
        cut = self.copy.find_cut(source)
        if cut is not None:
            before = log.log_end_offset, log.log_start_offset
            self.copy.cut(cut)
            assert (log.log_end_offset, log.log_start_offset) != before
        else:
            self.copy.take(source.read(log.log_end_offset, source.log_end_offset, count), source, 0)


@given(STEPS)
def test_whatever_becomes_of_the_source_the_copy_becomes_equal(steps):
    partition = Partition()
    for name, number in steps:
        getattr(partition, "step" if name == "copy" else name)(number)
    source, log = partition.source, partition.copy.log
    source.high_watermark = source.log_end_offset
    for _ in range(200):
        if partition.copy.is_equal(source):
            break
        partition.step(3)
    assert log.batches == source.batches
    assert (log.log_start_offset, log.log_end_offset) == (source.log_start_offset, source.log_end_offset)
    assert log.high_watermark == source.high_watermark


def test_a_copy_that_is_longer_than_its_source_is_cut():
    assert FutureReplica(filled([1, 1, 1])).find_cut(filled([1, 1])) == Cut(2, is_whole=False)


def test_a_copy_whose_source_was_cut_and_went_on_is_cut_where_both_part():
    assert FutureReplica(filled([1, 1, 2, 2])).find_cut(filled([1, 1, 1, 3, 3])) == Cut(2, is_whole=False)


def test_a_copy_that_starts_behind_its_source_whose_start_has_fallen_back_starts_there():
    """A process that ends leaves the log start that was written down, and the copy may know a later one."""
    source = filled([0] * 5)
    source.high_watermark = 5
    copy = FutureReplica(filled([0] * 5))
    copy.log.high_watermark = 5
    copy.log.raise_log_start(3)
    assert not copy.is_equal(source)
    assert copy.find_cut(source) == Cut(0, is_whole=True)
    copy.cut(Cut(0, is_whole=True))
    assert copy.find_cut(source) is None
    copy.take(source.read(0, 5, 10), source, 0)
    assert copy.is_equal(source)


def test_a_copy_that_ends_before_its_source_begins_starts_there():
    source = filled([1, 1, 1])
    source.high_watermark = 3
    source.raise_log_start(2)
    copy = FutureReplica(filled([1]))
    cut = copy.find_cut(source)
    assert cut == Cut(2, is_whole=True)
    copy.cut(cut)
    copy.take(source.read(2, 3, 1), source, 0)
    assert copy.is_equal(source)


@pytest.mark.parametrize("epochs", [[1, 1, 1], [1, 2, 2]])
def test_a_copy_that_ends_where_its_source_begins_starts_there_unless_the_record_before_is_the_same(epochs):
    source = filled([1, 1, 3])
    source.high_watermark = 3
    source.raise_log_start(2)
    cut = FutureReplica(filled(epochs[:2])).find_cut(source)
    assert cut == (None if epochs[1] == 1 else Cut(2, is_whole=True))


def test_a_copy_of_a_log_that_starts_within_a_batch_starts_with_that_batch():
    source = MemoryLog(TopicSettings())
    batch = stamped(10, 1, records=5)
    source.append(batch, read_header(batch), 0)
    source.high_watermark = 15
    source.raise_log_start(12)
    copy = FutureReplica(MemoryLog(TopicSettings()))
    copy.log.truncate_fully_and_start_at(12)
    assert copy.must_begin_below(batch, source)
    copy.take(batch, source, 0)
    assert [kept.header.base_offset for kept in copy.log.batches] == [10]
    assert copy.is_equal(source)


def test_a_batch_that_has_rotted_in_the_source_is_not_copied():
    source = filled([1, 1])
    rotten = bytearray(source.read(0, 2, 2))
    rotten[-1] ^= 1
    copy = FutureReplica(MemoryLog(TopicSettings()))
    with pytest.raises(CorruptionError):
        copy.take(bytes(rotten), source, 0)
    assert copy.log.log_end_offset == 1
