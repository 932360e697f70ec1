"""The messages of a producer, held against kio's classes of the same versions."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.consumer import group_messages
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Api, Partition
from esp.protocol.errors import DecodeError
from esp.sink import producer_messages
from esp.sink.producer_messages import Owner, ProducerId
from tests.unit.consumer.test_group_messages import COMMITTED
from tests.unit.consumer.test_messages import NAMES, PARTITIONS, SOME, answers, read_request, view

OWNERS = st.builds(Owner, NAMES, st.builds(ProducerId, st.integers(0, 2**62), st.integers(0, 2**15 - 1)))
DECODERS = {
    producer_messages.INIT_PRODUCER_ID: producer_messages.decode_init_producer_id,
    producer_messages.ADD_PARTITIONS_TO_TXN: group_messages.decode_errors,
    producer_messages.ADD_OFFSETS_TO_TXN: producer_messages.decode_error,
    producer_messages.END_TXN: producer_messages.decode_error,
    producer_messages.TXN_OFFSET_COMMIT: group_messages.decode_errors,
    producer_messages.PRODUCE: producer_messages.decode_produce,
}


def owner_of(request) -> Owner:
    return Owner(request.transactional_id, ProducerId(request.producer_id, request.producer_epoch))


@SOME
@given(transactional_id=NAMES)
def test_the_coordinator_of_a_transactional_id_is_looked_for(transactional_id: str) -> None:
    body = group_messages.encode_find_coordinator(transactional_id, is_transactional_id=True)
    request = read_request(group_messages.FIND_COORDINATOR, body)
    assert (request.key, request.key_type) == (transactional_id, 1)


@SOME
@given(transactional_id=NAMES, timeout_ms=st.integers(1, 2**31 - 1), answer=answers(producer_messages.INIT_PRODUCER_ID))
def test_an_epoch_is_asked_for(transactional_id: str, timeout_ms: int, answer) -> None:
    body = producer_messages.encode_init_producer_id(transactional_id, timeout_ms)
    request = read_request(producer_messages.INIT_PRODUCER_ID, body)
    assert request.transactional_id == transactional_id
    assert request.transaction_timeout.total_seconds() * 1000 == timeout_ms
    assert (request.producer_id, request.producer_epoch) == (-1, -1)
    assert producer_messages.decode_init_producer_id(view(answer)) == (
        answer.error_code.value,
        ProducerId(answer.producer_id, answer.producer_epoch),
    )


@SOME
@given(
    owner=OWNERS,
    partitions=st.lists(PARTITIONS, unique=True, max_size=5),
    answer=answers(producer_messages.ADD_PARTITIONS_TO_TXN),
)
def test_partitions_are_added_to_a_transaction(owner: Owner, partitions: list[Partition], answer) -> None:
    api = producer_messages.ADD_PARTITIONS_TO_TXN
    request = read_request(api, producer_messages.encode_add_partitions(owner, partitions))
    assert (
        Owner(
            request.v3_and_below_transactional_id,
            ProducerId(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        )
        == owner
    )
    found = [Partition(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions]
    assert sorted(found) == sorted(partitions)
    assert group_messages.decode_errors(view(answer)) == {
        Partition(topic.name, each.partition_index): each.partition_error_code.value
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


@SOME
@given(
    owner=OWNERS,
    group=NAMES,
    offsets=st.dictionaries(PARTITIONS, COMMITTED, max_size=5),
    answer=answers(producer_messages.TXN_OFFSET_COMMIT),
)
def test_offsets_are_committed_in_a_transaction(
    owner: Owner, group: str, offsets: dict[Partition, Committed], answer
) -> None:
    api = producer_messages.TXN_OFFSET_COMMIT
    request = read_request(api, producer_messages.encode_txn_offset_commit(owner, group, offsets))
    assert owner_of(request) == owner
    assert (request.group_id, request.generation_id, request.member_id) == (group, -1, "")
    assert {
        Partition(topic.name, each.partition_index): Committed(each.committed_offset, each.committed_metadata)
        for topic in request.topics
        for each in topic.partitions
    } == offsets
    assert group_messages.decode_errors(view(answer)) == {
        Partition(topic.name, each.partition_index): each.error_code.value
        for topic in answer.topics
        for each in topic.partitions
    }


@SOME
@given(
    owner=OWNERS,
    group=NAMES,
    is_commit=st.booleans(),
    added=answers(producer_messages.ADD_OFFSETS_TO_TXN),
    ended=answers(producer_messages.END_TXN),
)
def test_groups_are_added_and_transactions_are_ended(owner: Owner, group: str, is_commit: bool, added, ended) -> None:
    request = read_request(producer_messages.ADD_OFFSETS_TO_TXN, producer_messages.encode_add_offsets(owner, group))
    assert (owner_of(request), request.group_id) == (owner, group)
    request = read_request(producer_messages.END_TXN, producer_messages.encode_end(owner, is_commit=is_commit))
    assert (owner_of(request), request.committed) == (owner, is_commit)
    assert producer_messages.decode_error(view(added)) == added.error_code.value
    assert producer_messages.decode_error(view(ended)) == ended.error_code.value


@SOME
@given(transactional_id=st.none() | NAMES, partition=PARTITIONS, batch=st.binary(max_size=300))
def test_a_batch_is_sent_to_all_replicas(transactional_id: str | None, partition: Partition, batch: bytes) -> None:
    body = producer_messages.encode_produce(transactional_id, partition, batch, 30_000)
    request = read_request(producer_messages.PRODUCE, body)
    assert (request.transactional_id, request.acks) == (transactional_id, -1)
    [topic] = request.topic_data
    [data] = topic.partition_data
    assert (Partition(topic.name, data.index), bytes(data.records)) == (partition, batch)


@SOME
@given(answer=answers(producer_messages.PRODUCE))
def test_the_answer_to_a_batch_is_read(answer) -> None:
    parts = [each for topic in answer.responses for each in topic.partition_responses]
    if len(answer.responses) != 1 or len(parts) != 1:
        with contextlib.suppress(DecodeError):
            producer_messages.decode_produce(view(answer))
            raise AssertionError("an answer about one batch has one partition")
        return
    [part] = parts
    texts = [each.batch_index_error_message for each in part.record_errors] + [part.error_message]
    found = producer_messages.decode_produce(view(answer))
    assert found.error == part.error_code.value
    assert found.message == next((text for text in texts if text), "")


@settings(max_examples=100)
@given(data=st.binary(max_size=200), api=st.sampled_from(sorted(DECODERS)))
def test_other_bytes_are_no_answers(data: bytes, api: Api) -> None:
    with contextlib.suppress(DecodeError):
        DECODERS[api](memoryview(data))
