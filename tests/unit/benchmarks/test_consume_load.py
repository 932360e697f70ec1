"""Reading a topic whole in an incremental fetch session."""

import pytest
from kio.schema.fetch.v12 import response as fetch_response
from kio.schema.types import TopicName

from benchmarks.batches import PARTITIONS
from benchmarks.client import UnexpectedAnswerError
from benchmarks.consume_load import FetchSession, whole_batches
from esp.model.errors import ErrorCode
from esp.records.builder import NewRecord, build_batch

TOPIC = "a-topic"


def batches(*base_offsets: int) -> bytes:
    """Batches of two records each."""
    return b"".join(build_batch([NewRecord(b"a"), NewRecord(b"b")], base_offset=offset) for offset in base_offsets)


def answer(
    records: dict[int, bytes], session_id: int = 7, error_code: ErrorCode = ErrorCode.none
) -> fetch_response.FetchResponse:
    partitions = tuple(
        fetch_response.PartitionData(
            partition_index=partition,
            error_code=error_code,
            high_watermark=100,
            aborted_transactions=None,
            records=content,
        )
        for partition, content in records.items()
    )
    return fetch_response.FetchResponse(
        throttle_time=0,
        error_code=ErrorCode.none,
        session_id=session_id,
        responses=(fetch_response.FetchableTopicResponse(topic=TopicName(TOPIC), partitions=partitions),),
    )


def asked(session: FetchSession) -> dict[int, int]:
    """Fetch offsets by partition in the next request."""
    return {
        partition.partition: partition.fetch_offset
        for topic in session.next_request().topics
        for partition in topic.partitions
    }


def test_batches_are_counted_up_to_the_last_whole_one():
    whole = batches(10, 12)
    assert whole_batches(whole) == (len(whole), 14)
    cut = whole + batches(14)[:-1]
    assert whole_batches(cut) == (len(whole), 14)
    assert whole_batches(whole[:20]) == (0, 0)
    assert whole_batches(b"") == (0, 0)


def test_the_first_request_asks_for_all_partitions_from_their_beginning():
    session = FetchSession(TOPIC)
    assert asked(session) == dict.fromkeys(range(PARTITIONS), 0)
    assert (session.next_request().session_id, session.next_request().session_epoch) == (0, 0)


def test_later_requests_of_a_session_tell_only_of_partitions_that_moved():
    session = FetchSession(TOPIC)
    content = batches(0, 2)
    assert session.take(answer({1: content, 2: b""})) == len(content)
    assert asked(session) == {1: 4}
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (7, 1)
    session.take(answer({}))
    assert asked(session) == {}
    assert session.next_request().session_epoch == 2
    assert session.received == len(content)


def test_without_a_session_each_request_tells_all():
    session = FetchSession(TOPIC)
    session.take(answer({1: batches(0)}, session_id=0))
    assert asked(session) == {**dict.fromkeys(range(PARTITIONS), 0), 1: 2}
    assert (session.next_request().session_id, session.next_request().session_epoch) == (0, 0)


def test_a_partitions_error_ends_the_run_and_names_it():
    with pytest.raises(UnexpectedAnswerError, match=f"{TOPIC}-2: offset_out_of_range"):
        FetchSession(TOPIC).take(answer({2: b""}, error_code=ErrorCode.offset_out_of_range))
