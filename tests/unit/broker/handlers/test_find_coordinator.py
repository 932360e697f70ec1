import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model, simulated


@pytest.mark.parametrize("version", range(7))
@simulated()
async def test_there_is_no_coordinator_yet(node, version):
    client = await node.client()
    types = model(ApiKey.FIND_COORDINATOR, version)
    request = types.Request(key="g") if version < 4 else types.Request(coordinator_keys=("g", "h"))
    answer = await client.call(ApiKey.FIND_COORDINATOR, version, request)
    if version < 4:
        assert answer.error_code is ErrorCode.coordinator_not_available
    else:
        assert [(each.key, each.error_code) for each in answer.coordinators] == [
            ("g", ErrorCode.coordinator_not_available),
            ("h", ErrorCode.coordinator_not_available),
        ]
