"""The data that is produced, and the look at what is answered."""

import pytest
from kio.schema.produce.v12 import response as produce_response
from kio.schema.types import TopicName

from benchmarks.batches import (
    LARGE_BATCH_SIZE_MAX,
    LARGE_VALUE_SIZE,
    PARTITIONS,
    PRODUCE_VERSION,
    AckChecker,
    large_batch,
    produce_requests,
    small_batch,
    spread_requests,
)
from benchmarks.client import UnexpectedAnswerError
from esp.model.errors import ErrorCode
from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, encode_response
from esp.protocol.registry import ApiKey
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import read_header

TOPIC = "a-topic"


def answer(error_code: ErrorCode, partition: int = 3, topic: str = TOPIC) -> memoryview:
    answered = produce_response.PartitionProduceResponse(
        index=partition, error_code=error_code, base_offset=2**40, record_errors=()
    )
    message = produce_response.ProduceResponse(
        responses=(produce_response.TopicProduceResponse(name=TopicName(topic), partition_responses=(answered,)),)
    )
    return memoryview(encode_response(ApiKey.PRODUCE, PRODUCE_VERSION, 0, message))[4:]


@pytest.mark.parametrize("make", [large_batch, small_batch])
def test_batches_are_whole_and_their_checksums_right(make):
    batch = make()
    header = read_header(batch)
    assert header.size == len(batch)
    check_batch(batch, header)


def test_a_large_batch_is_nearly_full_with_records_of_one_kilobyte():
    batch = large_batch()
    assert 0.97 * LARGE_BATCH_SIZE_MAX < len(batch) <= LARGE_BATCH_SIZE_MAX
    assert {len(record.value) for record in iterate_records(batch)} == {LARGE_VALUE_SIZE}


def test_a_small_batch_is_one_record_of_a_hundred_bytes():
    assert [len(record.value) for record in iterate_records(small_batch())] == [100]


def read_produce(frame):
    """The partition of a request, and its batch."""
    header = read_request_header(memoryview(frame)[4:])
    request = decode_request(ApiKey.PRODUCE, header.api_version, frame[4 + header.body_position :])
    assert request.acks == -1
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert topic.name == TOPIC
    return partition.index, bytes(partition.records)


def test_requests_name_one_partition_each_and_carry_the_batch_as_it_is():
    batch = small_batch()
    seen = [read_produce(frame) for frame in produce_requests(TOPIC, batch)]
    assert seen == [(number, batch) for number in range(PARTITIONS)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_requests_of_several_batches_take_turns_and_leave_partitions_even(count):
    batches = [small_batch() for _ in range(count)]
    seen = [read_produce(frame) for frame in spread_requests(TOPIC, batches)]
    assert [batch for _, batch in seen] == batches * (len(seen) // count)
    assert [partition for partition, _ in seen] == list(range(PARTITIONS)) * (len(seen) // PARTITIONS)


def test_answers_without_an_error_are_counted():
    checker = AckChecker(TOPIC)
    checker.check(answer(ErrorCode.none))
    checker.check(answer(ErrorCode.none))
    assert checker.acked == 2


@pytest.mark.parametrize("error_code", [ErrorCode.corrupt_message, ErrorCode.unknown_server_error])
def test_an_answer_with_an_error_ends_the_run_and_names_it(error_code):
    checker = AckChecker(TOPIC)
    with pytest.raises(UnexpectedAnswerError, match=f"{TOPIC}-3: {error_code.name}"):
        checker.check(answer(error_code))
    assert checker.acked == 0


def test_an_answer_about_another_topic_is_not_taken_for_an_acknowledgement():
    with pytest.raises(UnexpectedAnswerError, match="cannot be understood"):
        AckChecker(TOPIC).check(answer(ErrorCode.none, partition=257, topic="short"))
