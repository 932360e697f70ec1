import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.coordination.latest_records import LatestRecords
from esp.model.errors import CorruptionError
from esp.records.builder import NewRecord, build_batch

KEYS = st.sampled_from([b"a", b"b", b"c", None])
VALUES = st.none() | st.binary(max_size=4)
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def marker(producer_id, key, offset):
    return build_batch(
        [NewRecord(b"\0\0\0\0\0\0", key)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        control=True,
        transactional=True,
    )


class NaiveLog:
    """Batches one after another, and what a reader of all of them would keep."""

    def __init__(self):
        self.batches = []
        self.offset = 0
        self.applied = []
        self._open = {}

    def add(self, pairs, producer_id):
        transactional = producer_id >= 0
        self.batches.append(
            build_batch(
                [NewRecord(value, key) for key, value in pairs],
                base_offset=self.offset,
                producer_id=producer_id,
                producer_epoch=0 if transactional else -1,
                base_sequence=0 if transactional else -1,
                transactional=transactional,
            )
        )
        self.offset += len(pairs)
        if transactional:
            self._open.setdefault(producer_id, []).extend(pairs)
        else:
            self.applied += pairs

    def end(self, producer_id, commit):
        self.batches.append(marker(producer_id, COMMIT if commit else ABORT, self.offset))
        self.offset += 1
        pairs = self._open.pop(producer_id, [])
        if commit:
            self.applied += pairs

    def latest(self):
        found = dict(self.applied)
        return {key: value for key, value in found.items() if None not in (key, value)}


STEPS = st.lists(
    st.tuples(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), st.sampled_from([-1, -1, 7, 8]))
    | st.tuples(st.sampled_from([7, 8]), st.booleans()),
    max_size=12,
)


@given(STEPS, st.data())
def test_what_is_kept_is_what_a_reader_of_all_records_knows_at_the_end(steps, data):
    log = NaiveLog()
    for step in steps:
        if isinstance(step[0], int):
            log.end(*step)
        else:
            log.add(*step)
    latest = LatestRecords()
    left = log.batches
    while left:
        cut = data.draw(st.integers(1, len(left)))
        next_offset = latest.add(b"".join(left[:cut]))
        left = left[cut:]
    assert latest.by_key == log.latest()
    if log.batches:
        assert next_offset == log.offset


def test_records_come_in_the_order_in_which_they_were_written_last():
    latest = LatestRecords()
    latest.add(build_batch([NewRecord(b"1", b"a"), NewRecord(b"2", b"b"), NewRecord(b"3", b"a")]))
    assert list(latest.by_key) == [b"b", b"a"]


def test_bytes_that_are_no_batch_are_told():
    batch = bytearray(build_batch([NewRecord(b"1", b"a")]))
    batch[-3] = 0x7F
    with pytest.raises(CorruptionError):
        LatestRecords().add(batch)
