import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.simulated_node import simulated
from tests.unit.broker.transaction_conversation import add_offsets, ask_as_broker, init, set_level, with_transactions

NONE = ErrorCode.none


@pytest.mark.parametrize("version", range(5))
@with_transactions(offsets_topic_num_partitions=50)
async def test_the_group_s_partition_joins_although_the_topic_was_not_there(node, client, version):
    given = await init(client)
    producer = (given.producer_id, given.producer_epoch)
    assert await add_offsets(client, producer, "g-static", version=version) is NONE
    assert await add_offsets(client, producer, "", version=version) is NONE
    asked = {"__consumer_offsets": [34, 0, 1]}
    assert await ask_as_broker(client, ("app", producer, asked, True)) == [
        (
            "app",
            {
                ("__consumer_offsets", 34): NONE,
                ("__consumer_offsets", 0): NONE,
                ("__consumer_offsets", 1): ErrorCode.transaction_abortable,
            },
        )
    ]


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.invalid_producer_epoch), (2, ErrorCode.producer_fenced)])
@with_transactions()
async def test_refusals_are_those_of_the_version(node, client, version, code):
    given = await init(client)
    assert await add_offsets(client, (given.producer_id, 7), version=version) is code
    unknown = ErrorCode.invalid_producer_id_mapping
    assert await add_offsets(client, (given.producer_id, 0), transactional_id="no", version=version) is unknown
    assert await add_offsets(client, (0, 0), transactional_id="", version=version) is ErrorCode.invalid_request


@simulated()
async def test_nothing_is_served_at_level_0(node):
    await set_level(node, 0)
    client = await node.client()
    assert await add_offsets(client, (0, 0)) is ErrorCode.transactional_id_authorization_failed
