import pytest

from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.simulated_node import simulated


@simulated(offsets_topic_num_partitions=3)
async def test_each_group_has_the_coordinator_of_its_partition(node):
    groups = node.node.broker.running.groups
    assert list(groups) == []
    with pytest.raises(ApiError) as refused:
        groups.coordinator_of("g")
    assert refused.value.code is ErrorCode.not_coordinator
    await until_coordinated(await node.client())
    coordinators = list(groups)
    assert len(coordinators) == 3
    for group in ("g", "h", "group 7", ""):
        assert groups.coordinator_of(group, or_empty=True) is coordinators[partition_for(group, 3)]
    with pytest.raises(ApiError) as refused:
        groups.coordinator_of("")
    assert refused.value.code is ErrorCode.invalid_group_id
    groups.close()
    assert list(groups) == []
