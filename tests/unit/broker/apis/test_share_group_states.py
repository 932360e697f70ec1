"""The states of share partitions over the wire; errors and texts are those of Kafka 4.3.1."""

import uuid

import pytest

from esp.model.errors import ErrorCode
from esp.model.features import SHARE_VERSION
from esp.protocol.registry import SERVED, ApiKey
from esp.simulation.workload.survey_requests import build
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import find_coordinator
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.transaction_conversation import set_level

INITIALIZE, READ, WRITE, DELETE, SUMMARY = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)
KEYS = (INITIALIZE, READ, WRITE, DELETE, SUMMARY)
NOWHERE = uuid.UUID(int=99)
ACCEPTED = {"first_offset": 3, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}
small = {"share_coordinator_state_topic_num_partitions": 2}


async def ask(client, key, *partitions, topic_id, version=None, group="g"):
    """Ask about partitions of a topic, given as the fields of each."""
    api = SERVED[key]
    version = api.max_version if version is None else version
    content = {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": partitions}]}
    answer = await client.call(key, version, build(key, version, content))
    (topic,) = answer.results
    assert topic.topic_id == topic_id
    return topic.partitions


async def coordinated(client, topic_id):
    """Wait until the coordinator of the topic's partition 0 has loaded."""
    await find_coordinator(client, "g:6UnuUoZiS92k7yCspX7KfA:0", key_type=2)
    while True:
        (result,) = await ask(client, SUMMARY, {"partition": 0}, topic_id=topic_id)
        if result.error_code is ErrorCode.none:
            return


@with_share_groups(**small)
async def test_state_is_begun_changed_read_and_forgotten(played):
    _, client = played
    topic_id = await create_topic(client)
    await coordinated(client, topic_id)
    begin = {"partition": 0, "state_epoch": 5, "start_offset": -1}
    (begun,) = await ask(client, INITIALIZE, begin, topic_id=topic_id)
    assert (begun.partition, begun.error_code, begun.error_message) == (0, ErrorCode.none, None)
    (read,) = await ask(client, READ, {"partition": 0, "leader_epoch": 0}, topic_id=topic_id)
    assert (read.error_code, read.state_epoch, read.start_offset) == (ErrorCode.none, 5, -1)
    change = {"partition": 0, "state_epoch": 5, "leader_epoch": 0, "start_offset": 2, "state_batches": [ACCEPTED]}
    for version, count in ((0, -1), (1, 2)):
        (written,) = await ask(
            client, WRITE, {**change, "delivery_complete_count": 2}, topic_id=topic_id, version=version
        )
        assert written.error_code is ErrorCode.none
        (summary,) = await ask(client, SUMMARY, {"partition": 0}, topic_id=topic_id)
        assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (5, 0, 2)
        assert summary.delivery_complete_count == count
    (old,) = await ask(client, SUMMARY, {"partition": 0}, topic_id=topic_id, version=0)
    assert old.delivery_complete_count == -1
    (read,) = await ask(client, READ, {"partition": 0, "leader_epoch": 3}, topic_id=topic_id)
    assert (read.error_code, read.state_epoch, read.start_offset) == (ErrorCode.none, 5, 2)
    assert [(each.first_offset, each.last_offset, each.delivery_state) for each in read.state_batches] == [(3, 4, 2)]
    (fenced,) = await ask(client, WRITE, change, topic_id=topic_id)
    assert fenced.error_code is ErrorCode.fenced_leader_epoch
    assert fenced.error_message == "The leader epoch in the request is older than the epoch on the broker."
    (gone,) = await ask(client, DELETE, {"partition": 0}, topic_id=topic_id)
    assert gone.error_code is ErrorCode.none
    (none,) = await ask(client, READ, {"partition": 0, "leader_epoch": 3}, topic_id=topic_id)
    assert none.error_code is ErrorCode.invalid_request


@with_share_groups(**small)
async def test_partitions_are_answered_one_by_one(played):
    _, client = played
    topic_id = await create_topic(client, partitions=2)
    await coordinated(client, topic_id)
    begin = [{"partition": number, "state_epoch": 5, "start_offset": 0} for number in (1, 7, -1, 0)]
    answers = await ask(client, INITIALIZE, *begin, topic_id=topic_id)
    assert [(each.partition, each.error_code) for each in answers] == [
        (1, ErrorCode.none),
        (7, ErrorCode.unknown_topic_or_partition),
        (-1, ErrorCode.invalid_request),
        (0, ErrorCode.none),
    ]
    await ask(client, READ, {"partition": 0, "leader_epoch": 0}, topic_id=topic_id)
    wrong = {"state_batches": [{**ACCEPTED, "delivery_state": 5}]}
    writes = [{"partition": 1, "state_epoch": 5, **wrong}, {"partition": 0, "state_epoch": 5}]
    answers = await ask(client, WRITE, *writes, topic_id=topic_id)
    assert [each.error_code for each in answers] == [ErrorCode.invalid_request, ErrorCode.none]


@with_share_groups(**small)
async def test_many_partitions_are_answered_in_their_order(played):
    _, client = played
    topic_id = await create_topic(client, partitions=300)
    await coordinated(client, topic_id)
    begin = [{"partition": number, "state_epoch": 5, "start_offset": number} for number in range(300)]
    answers = await ask(client, INITIALIZE, *begin, topic_id=topic_id)
    assert [(each.partition, each.error_code) for each in answers] == [(n, ErrorCode.none) for n in range(300)]
    asked = [{"partition": number} for number in range(300)]
    assert [each.start_offset for each in await ask(client, READ, *asked, topic_id=topic_id)] == list(range(300))


@pytest.mark.parametrize("key", KEYS)
@with_share_groups(**small)
async def test_message_that_names_no_group_is_about_no_share_partition(played, key):
    _, client = played
    topic_id = await create_topic(client)
    await coordinated(client, topic_id)
    topics = [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]
    for version in range(SERVED[key].max_version + 1):
        answer = await client.call(key, version, build(key, version, {"group_id": "", "topics": topics}))
        assert answer.results == ()


@pytest.mark.parametrize("key", KEYS)
@with_share_groups(**small)
async def test_node_that_coordinates_nothing_says_so(played, key):
    _, client = played
    (answer,) = await ask(client, key, {"partition": 0}, topic_id=NOWHERE)
    assert answer.error_code is ErrorCode.not_coordinator
    assert answer.error_message == "This is not the correct coordinator."


@pytest.mark.parametrize("key", KEYS)
@with_share_groups(level=0)
async def test_no_state_is_served_without_share_groups(played, key):
    _, client = played
    for version in range(SERVED[key].max_version + 1):
        answers = await ask(client, key, {"partition": 0}, {"partition": 4}, topic_id=NOWHERE, version=version)
        assert [(each.partition, each.error_code) for each in answers] == [
            (0, ErrorCode.unsupported_version),
            (4, ErrorCode.unsupported_version),
        ]
        assert {each.error_message for each in answers} == {"The version of API is not supported."}


@with_share_groups(level=0, **small)
async def test_states_are_served_from_the_moment_on_at_which_there_are_share_groups(played):
    node, client = played
    topic_id = await create_topic(client)
    (answer,) = await ask(client, SUMMARY, {"partition": 0}, topic_id=topic_id)
    assert answer.error_code is ErrorCode.unsupported_version
    await set_level(node, 1, SHARE_VERSION)
    await coordinated(client, topic_id)
