import pytest

from esp.broker.answer_fields import OPERATIONS_NOT_ASKED
from esp.model.errors import ErrorCode
from tests.unit.broker.group_conversation import describe_group, member, until_coordinated
from tests.unit.broker.simulated_node import simulated

ALL_OPERATIONS = 3400
"""What Kafka 4.3.1 answers without an authorizer."""


@pytest.mark.parametrize("version", range(7))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_a_group_is_told_with_its_members(node, version):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client, instance="i", version=9)
    told = await describe_group(client, version=version, with_operations=version >= 3)
    assert (told.error_code, told.group_state, told.protocol_type, told.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (one,) = told.members
    assert (one.member_id, one.member_metadata, one.member_assignment) == (joined.member_id, b"m", b"all")
    if version >= 4:
        assert one.group_instance_id == "i"
    assert told.authorized_operations == (ALL_OPERATIONS if version >= 3 else OPERATIONS_NOT_ASKED)


@pytest.mark.parametrize("version", [0, 5, 6])
@simulated(offsets_topic_num_partitions=2)
async def test_a_group_that_is_not_there_is_dead(node, version):
    client = await node.client()
    assert (await describe_group(client, version=version)).error_code is ErrorCode.not_coordinator
    await until_coordinated(client)
    told = await describe_group(client, version=version)
    assert told.group_state == "Dead"
    assert told.error_code is (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)
