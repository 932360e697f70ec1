import pytest

from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.simulated_node import simulated


@simulated(offsets_topic_num_partitions=3)
async def test_each_group_has_the_shard_of_its_partition(node):
    groups = node.node.broker.running.groups
    assert list(groups) == []
    with pytest.raises(ApiError) as refused:
        groups.shard_of("g")
    assert refused.value.code is ErrorCode.not_coordinator
    await until_coordinated(await node.client())
    shards = list(groups)
    assert len(shards) == 3
    for group in ("g", "h", "group 7", ""):
        assert groups.shard_of(group, or_empty=True) is shards[partition_for(group, 3)]
    with pytest.raises(ApiError) as refused:
        groups.shard_of("")
    assert refused.value.code is ErrorCode.invalid_group_id
    groups.close()
    assert list(groups) == []
