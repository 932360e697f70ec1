"""The messages about a group's offsets, held against kio's classes of the same versions."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.consumer import group_messages
from esp.consumer.group_messages import Committed, Coordinator
from esp.consumer.messages import Api, Partition
from esp.protocol.errors import DecodeError
from tests.unit.consumer.test_messages import NAMES, PARTITIONS, SOME, answers, read_request, view

COMMITTED = st.builds(Committed, st.integers(0, 2**62), st.text(max_size=9))
DECODERS = {
    group_messages.FIND_COORDINATOR: group_messages.decode_find_coordinator,
    group_messages.OFFSET_COMMIT: group_messages.decode_errors,
    group_messages.OFFSET_FETCH: group_messages.decode_offset_fetch,
}


@SOME
@given(group=NAMES, answer=answers(group_messages.FIND_COORDINATOR))
def test_the_coordinator_is_looked_for(group: str, answer) -> None:
    request = read_request(group_messages.FIND_COORDINATOR, group_messages.encode_find_coordinator(group))
    assert (request.key, request.key_type) == (group, 0)
    found = group_messages.decode_find_coordinator(view(answer))
    assert found == Coordinator(answer.error_code.value, answer.host, answer.port)


@SOME
@given(group=NAMES, offsets=st.dictionaries(PARTITIONS, COMMITTED, max_size=5))
def test_offsets_are_committed_as_a_group_without_members_does(group: str, offsets: dict[Partition, Committed]) -> None:
    request = read_request(group_messages.OFFSET_COMMIT, group_messages.encode_offset_commit(group, offsets))
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == (group, -1, "")
    assert {
        Partition(topic.name, each.partition_index): Committed(each.committed_offset, each.committed_metadata)
        for topic in request.topics
        for each in topic.partitions
    } == offsets


@SOME
@given(answer=answers(group_messages.OFFSET_COMMIT))
def test_the_errors_of_a_commit_are_read(answer) -> None:
    assert group_messages.decode_errors(view(answer)) == {
        Partition(topic.name, each.partition_index): each.error_code.value
        for topic in answer.topics
        for each in topic.partitions
    }


@SOME
@given(group=NAMES, partitions=st.lists(PARTITIONS, unique=True, max_size=5))
def test_offsets_are_asked_for_behind_transactions(group: str, partitions: list[Partition]) -> None:
    request = read_request(group_messages.OFFSET_FETCH, group_messages.encode_offset_fetch(group, partitions))
    assert (request.group_id, request.require_stable) == (group, True)
    found = [Partition(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
    assert sorted(found) == sorted(partitions)
    request = read_request(group_messages.OFFSET_FETCH, group_messages.encode_offset_fetch(group, None))
    assert (request.group_id, request.topics, request.require_stable) == (group, None, True)


@SOME
@given(answer=answers(group_messages.OFFSET_FETCH))
def test_offsets_are_read(answer) -> None:
    found = group_messages.decode_offset_fetch(view(answer))
    parts = {Partition(topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions}
    assert found.error == answer.error_code.value
    assert found.errors == {partition: each.error_code.value for partition, each in parts.items()}
    assert found.offsets == {
        partition: Committed(each.committed_offset, each.metadata or "") for partition, each in parts.items()
    }


@settings(max_examples=100)
@given(api=st.sampled_from(sorted(DECODERS)), data=st.data())
def test_bytes_that_are_no_answer_raise_the_one_error(api: Api, data: st.DataObject) -> None:
    whole = bytes(view(data.draw(answers(api))))[:-16]
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    for broken in (cut, data.draw(st.binary(max_size=80))):
        with contextlib.suppress(DecodeError):
            DECODERS[api](memoryview(broken))
