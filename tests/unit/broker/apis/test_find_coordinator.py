"""Where groups are coordinated; checked against Kafka 4.3.1 for all versions and kinds of key."""

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import metadata
from tests.unit.broker.group_conversation import find_coordinator
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import ADDRESS, simulated
from tests.unit.broker.transaction_conversation import set_level

NO_TRANSACTIONS = ErrorCode.transactional_id_authorization_failed


@pytest.mark.parametrize("version", range(7))
@simulated()
async def test_the_first_question_makes_the_topic_and_is_answered_with_the_coordinator(node, version):
    client = await node.client()
    answer = await find_coordinator(client, "g", version=version)
    if version >= 4:
        (answer,) = answer
        assert answer.key == "g"
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, ADDRESS.host, ADDRESS.port)
    if 1 <= version < 4:
        assert answer.error_message == "NONE"
    topic = node.metadata.image.topics_by_name["__consumer_offsets"]
    assert len(topic.partitions) == 50
    assert topic.configs == {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
    }
    (told,) = (await metadata(client, ["__consumer_offsets"])).topics
    assert told.is_internal


@simulated(offsets_topic_num_partitions=3, auto_create_topics_enable=False)
async def test_many_keys_are_answered_one_by_one(node):
    client = await node.client()
    answer = await find_coordinator(client, "g", "g", "", "h")
    assert [(each.key, each.error_code, each.node_id) for each in answer] == [
        ("g", 0, 1),
        ("g", 0, 1),
        ("", 0, 1),
        ("h", 0, 1),
    ]
    assert len(node.metadata.image.topics_by_name["__consumer_offsets"].partitions) == 3
    assert await find_coordinator(client) == ()


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize(
    ("key_type", "error"), [(1, NO_TRANSACTIONS), (2, ErrorCode.invalid_request), (7, ErrorCode.invalid_request)]
)
@simulated()
async def test_there_are_no_other_coordinators_at_level_0(node, version, key_type, error):
    client = await node.client()
    await set_level(node, 0)
    answer = await find_coordinator(client, "g", key_type=key_type, version=version)
    if version >= 4:
        (answer,) = answer
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (error, -1, "", -1)
    assert ("no transactions" in (answer.error_message or "")) == (key_type == 1)
    assert "__consumer_offsets" not in node.metadata.image.topics_by_name


SHARE = 2
KEY = "g:6UnuUoZiS92k7yCspX7KfA:0"
STATES = "__share_group_state"


@with_share_groups(level=0)
async def test_a_cluster_without_share_groups_has_no_coordinators_of_share_partitions(played):
    node, client = played
    for version in range(1, 7):
        answer = await find_coordinator(client, KEY, key_type=SHARE, version=version)
        if version >= 4:
            (answer,) = answer
        assert (answer.error_code, answer.node_id) == (ErrorCode.invalid_request, -1)
    assert STATES not in node.metadata.image.topics_by_name


@with_share_groups(share_coordinator_state_topic_num_partitions=3)
async def test_coordinators_of_share_partitions_are_found_by_keys_of_their_form_from_version_6_on(played):
    node, client = played
    for version in range(1, 6):
        answer = await find_coordinator(client, KEY, key_type=SHARE, version=version)
        if version >= 4:
            (answer,) = answer
        assert (answer.error_code, answer.node_id) == (ErrorCode.invalid_request, -1)
    (answer,) = await find_coordinator(client, "g", key_type=SHARE)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (ErrorCode.invalid_request, -1, "", -1)
    assert STATES not in node.metadata.image.topics_by_name
    good, bad, again = await find_coordinator(client, KEY, "g", KEY, key_type=SHARE)
    assert (good.key, good.error_code, good.node_id, good.port) == (KEY, ErrorCode.none, 1, ADDRESS.port)
    assert (bad.key, bad.error_code, again) == ("g", ErrorCode.invalid_request, good)
    assert len(node.metadata.image.topics_by_name[STATES].partitions) == 3


@simulated(auto_create_topics_enable=True)
async def test_asking_for_metadata_makes_the_topic_as_asking_for_a_coordinator_does(node):
    client = await node.client()
    (told,) = (await metadata(client, ["__consumer_offsets"], create=True)).topics
    assert len(told.partitions) == 50
    (told,) = (await metadata(client, ["__transaction_state"], create=True)).topics
    assert told.error_code is ErrorCode.unknown_topic_or_partition
