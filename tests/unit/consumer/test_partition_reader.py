"""A partition's reader against a leader that misbehaves, behind a real socket."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import BrokenBatchError, Place
from esp.consumer.cluster import Address, LedPartition
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Broker, Partition
from esp.consumer.partition_reader import FetchTerms, PartitionReader
from esp.model.errors import ErrorCode
from esp.records.builder import NewRecord, build_batch
from tests.models.fake_leader import CLOSE, CUT, HOST, SILENCE, FakeLeader, Step

PARTITION = Partition("t", 0)
BATCHES = [
    build_batch([NewRecord(b"%d" % offset, timestamp=0) for offset in range(first, first + 10)], base_offset=first)
    for first in range(0, 100, 10)
]
MOVED = ErrorCode.not_leader_or_follower.value
FENCED = ErrorCode.fenced_leader_epoch.value
NOT_KNOWN = ErrorCode.offset_not_available.value
UNKNOWN_ID = ErrorCode.unknown_topic_id.value
DENIED = ErrorCode.topic_authorization_failed.value


def reader_of(
    leader: FakeLeader, *, is_known: bool = True, warn=print, topic_id: bytes = b"", **terms: object
) -> PartitionReader:
    known = LedPartition(Broker(1, HOST, leader.port), leader.epoch) if is_known else None
    fetch_terms = FetchTerms(**{"backoff_s": 0.001, "stall_s": 5.0, "max_wait_ms": 0, **terms})
    connection = Terms(request_timeout_s=0.5, connect_timeout_s=2)
    return PartitionReader(PARTITION, [Address(HOST, leader.port)], known, connection, fetch_terms, warn, topic_id)


def read(reader: PartitionReader, first: int = 0, end: int = 100) -> Iterator[int]:
    with closing(reader):
        for fetched in reader.read(first, end):
            place = Place(*PARTITION)
            for batch in decode_batches(fetched.batches, place, fetched.first_offset, fetched.end_offset):
                yield from batch.column("offset").to_pylist()


def test_one_connection_reads_all_and_asks_for_no_more() -> None:
    with FakeLeader("t", BATCHES) as leader:
        assert list(read(reader_of(leader), 5, 95)) == list(range(5, 95))
        assert leader.connections == 1
        assert [wanted.fetch_offset for wanted in leader.asked] == [5, *range(10, 100, 10)]
        assert {wanted.current_leader_epoch for wanted in leader.asked} == {5}


def test_the_next_records_are_asked_for_before_the_last_are_decoded() -> None:
    with FakeLeader("t", BATCHES) as leader, closing(reader_of(leader)) as reader:
        fetches = reader.read(0, 100)
        next(fetches)
        next(fetches)  # its answer was read while the question for the third was on its way
        assert [wanted.fetch_offset for wanted in leader.asked][:2] == [0, 10]
        assert reader._connection is not None
        assert reader._connection.has_answers_due


@settings(max_examples=25)
@given(
    script=st.lists(st.sampled_from([None, None, MOVED, FENCED, NOT_KNOWN, CUT, CLOSE]), max_size=14),
    is_known=st.booleans(),
    batches_most=st.integers(1, 4),
)
def test_whatever_happens_each_record_comes_once(script: list[Step], is_known: bool, batches_most: int) -> None:
    with FakeLeader("t", BATCHES, script) as leader:
        leader.batches_most = batches_most
        assert list(read(reader_of(leader, is_known=is_known))) == list(range(100))


def test_a_leader_that_falls_silent_is_asked_again_on_another_connection() -> None:
    with FakeLeader("t", BATCHES, [None, SILENCE]) as leader:
        assert list(read(reader_of(leader))) == list(range(100))
        assert leader.connections == 2


def test_a_new_epoch_is_learned() -> None:
    with FakeLeader("t", BATCHES, [None, FENCED]) as leader:
        reader = reader_of(leader)
        leader.epoch = 6
        assert list(read(reader)) == list(range(100))
        assert leader.asked[-1].current_leader_epoch == 6


def test_what_never_comes_fails_with_the_offset_and_the_reason() -> None:
    with FakeLeader("t", BATCHES, [None, *[MOVED] * 1000]) as leader:
        words = r"partition 0 of topic t: no answer for offset 10 in 0.2 s: its leader moves"
        with pytest.raises(ConsumerError, match=words):
            list(read(reader_of(leader, stall_s=0.2)))
    with FakeLeader("t", BATCHES) as leader:
        words = r"partition 0 of topic t: offsets 100 to 119 did not come in 0.2 s: no more records are there"
        with pytest.raises(ConsumerError, match=words):
            list(read(reader_of(leader, stall_s=0.2), 90, 120))


def test_a_partition_that_a_lagging_broker_does_not_know_is_looked_for_again() -> None:
    for is_known in (True, False):  # after the leader has moved, and before the first record
        with FakeLeader("t", BATCHES, [None, MOVED]) as leader:
            leader.behind = 3
            assert list(read(reader_of(leader, is_known=is_known))) == list(range(100))
    with FakeLeader("t", BATCHES, [None, MOVED]) as leader:
        leader.behind = 1000
        with pytest.raises(ConsumerError, match=r"partition 0 of topic t: it does not exist .*: name topics and part"):
            list(read(reader_of(leader, stall_s=0.3)))
        assert leader.behind > 900, "pauses grow"


def test_what_is_not_allowed_fails_at_once() -> None:
    with FakeLeader("t", BATCHES, [DENIED]) as leader:
        with pytest.raises(ConsumerError, match=r"partition 0 of topic t, offset 0: this user may not read it"):
            list(read(reader_of(leader)))
        assert len(leader.asked) == 1


OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


def test_records_are_read_by_the_id_of_their_topic_where_the_broker_serves_that() -> None:
    with FakeLeader("t", BATCHES, [None, MOVED, UNKNOWN_ID]) as leader:
        leader.topic_id = OLD
        assert list(read(reader_of(leader, topic_id=OLD.bytes))) == list(range(100))
        assert {wanted.topic for wanted in leader.asked} == {OLD.bytes}
    with FakeLeader("t", BATCHES) as leader:
        assert list(read(reader_of(leader, topic_id=OLD.bytes))) == list(range(100))
        assert {wanted.topic for wanted in leader.asked} == {"t"}


def test_no_record_of_a_topic_that_was_created_again_is_read() -> None:
    for is_checked_by_broker in (True, False):  # brokers before Kafka 3.1 serve no fetches by ids
        with FakeLeader("t", BATCHES) as leader:
            known = LedPartition(Broker(1, HOST, leader.port), leader.epoch, NEW.bytes)
            leader.topic_id = NEW if is_checked_by_broker else None
            reader = reader_of(leader, topic_id=OLD.bytes)
            reader._leader = known
            with pytest.raises(ConsumerError, match="partition 0 of topic t: the topic was deleted and created again"):
                list(read(reader))
            assert not leader.asked
    with FakeLeader("t", BATCHES) as leader:
        leader.topic_id = NEW
        words = "partition 0 of topic t: the topic was deleted and created again since it was planned .*: start the query again"
        with pytest.raises(ConsumerError, match=words):
            list(read(reader_of(leader, topic_id=OLD.bytes)))


def test_records_that_are_gone_are_an_error_or_passed_over_with_a_word() -> None:
    with FakeLeader("t", BATCHES[4:], log_start=40) as leader:
        with pytest.raises(
            ConsumerError, match=r"offsets 20 to 39 are not there \(it has 40 to 99\): records were deleted.*: do that$"
        ):
            list(read(reader_of(leader, loss_remedy="do that"), 20, 60))
        warnings: list[str] = []
        lenient = reader_of(leader, fails_on_loss=False, warn=warnings.append)
        assert list(read(lenient, 20, 60)) == list(range(40, 60))
        assert warnings == [
            "partition 0 of topic t: offsets 20 to 39 are not there (it has 40 to 99), and are passed over"
        ]
        assert list(read(reader_of(leader, fails_on_loss=False, warn=warnings.append), 10, 30)) == []
        assert list(read(reader_of(leader, fails_on_loss=False, warn=warnings.append), 150, 160)) == []


def test_a_partition_that_has_lost_all_its_records_is_told_so() -> None:
    words = r"offsets 20 to 39 are not there \(it has no record, and ends at 40\): records were deleted"
    with FakeLeader("t", [], log_start=40) as leader, pytest.raises(ConsumerError, match=words):
        list(read(reader_of(leader), 20, 40))


def test_a_broken_batch_is_named() -> None:
    broken = bytearray(BATCHES[1])
    broken[-2] ^= 1  # of the last value
    with FakeLeader("t", [BATCHES[0], bytes(broken)]) as leader:
        reader = read(reader_of(leader), 0, 20)
        assert [next(reader) for _ in range(10)] == list(range(10))
        with pytest.raises(
            BrokenBatchError, match=r"topic t, partition 0: the batch at offset 10 is broken: .* checksum"
        ):
            next(reader)
    with FakeLeader("t", [BATCHES[0], bytes(broken)]) as leader:
        assert len(list(read(reader_of(leader, checks_crcs=False), 0, 20))) == 20
