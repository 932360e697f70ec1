import copy

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
    """Batches one after another, and what a reader of all of them would keep: of each key the last record that counts."""

    def __init__(self):
        self.batches = []
        self.offset = 0
        self.applied = []
        """Records that count, each with its offset."""
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
        records = [(self.offset + delta, key, value) for delta, (key, value) in enumerate(pairs)]
        self.offset += len(pairs)
        if transactional:
            self._open.setdefault(producer_id, []).extend(records)
        else:
            self.applied += records

    def end(self, producer_id, commit):
        self.batches.append(marker(producer_id, COMMIT if commit else ABORT, self.offset))
        self.offset += 1
        records = self._open.pop(producer_id, [])
        if commit:
            self.applied += records

    def latest(self):
        found = {key: value for _, key, value in sorted(self.applied, key=lambda record: record[0])}
        return {key: value for key, value in found.items() if None not in (key, value)}

    def open_ends(self):
        """The ends that open transactions can have: each alone, and all in either order."""
        producers = sorted(self._open)
        return [[producer] for producer in producers] + [producers, producers[::-1]]


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


@given(STEPS)
def test_what_is_pending_makes_up_for_the_end_of_a_transaction_that_was_open_when_the_log_was_read(steps):
    log = NaiveLog()
    for step in steps:
        if isinstance(step[0], int):
            log.end(*step)
        else:
            log.add(*step)
    latest = LatestRecords()
    for batch in log.batches:
        latest.add(batch)
    pending = latest.pending()
    for ends in log.open_ends():
        later = copy.deepcopy(log)
        state = dict(latest.by_key)
        places = {}
        for producer_id in ends:
            later.end(producer_id, True)
            for place, (writer, records) in enumerate(pending):
                if writer == producer_id:
                    for key, value in records:
                        if places.get(key, -1) < place:
                            places[key] = place
                            state.pop(key, None)
                            if value is not None:
                                state[key] = value
        assert state == later.latest()


def test_a_later_record_outside_a_transaction_survives_its_commit():
    log = NaiveLog()
    log.add([(b"a", b"transaction")], 7)
    log.add([(b"a", b"later")], -1)
    log.end(7, True)
    latest = LatestRecords()
    latest.add(b"".join(log.batches))
    assert latest.by_key == {b"a": b"later"}


def test_records_come_in_the_order_in_which_they_were_written_last():
    latest = LatestRecords()
    latest.add(build_batch([NewRecord(b"1", b"a"), NewRecord(b"2", b"b"), NewRecord(b"3", b"a")]))
    assert list(latest.by_key) == [b"b", b"a"]


def test_the_last_values_of_ended_keys_of_a_kind_are_kept_apart():
    latest = LatestRecords(ended_prefix=b"a")
    latest.add(
        build_batch([NewRecord(b"1", b"aa"), NewRecord(b"2", b"aa"), NewRecord(b"3", b"b"), NewRecord(b"4", b"ab")])
    )
    latest.add(build_batch([NewRecord(None, b"aa"), NewRecord(None, b"b"), NewRecord(None, b"ac")]))
    assert latest.by_key == {b"ab": b"4"}
    assert latest.ended == {b"aa": b"2"}


def test_bytes_that_are_no_batch_are_told():
    batch = bytearray(build_batch([NewRecord(b"1", b"a")]))
    batch[-3] = 0x7F
    with pytest.raises(CorruptionError):
        LatestRecords().add(batch)


def test_flipped_byte_of_a_value_is_corruption():
    batch = bytearray(build_batch([NewRecord(b"value", b"key")]))
    batch[batch.index(b"value")] ^= 1
    with pytest.raises(CorruptionError):
        LatestRecords().add(batch)
