import pytest

from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
from tests.unit.broker.simulated_node import model, simulated


@pytest.mark.parametrize("version", range(5))
@simulated()
async def test_a_controller_listener_tells_what_it_serves(node, version):
    client = await node.client(node.node.controller.listening[0])
    request = model(ApiKey.API_VERSIONS, version).Request(client_software_name="a", client_software_version="1")
    answer = await client.call(ApiKey.API_VERSIONS, version, request)
    assert {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys} == {
        api.key: (api.advertised_min, api.max_version) for api in SERVED_ON[ListenerKind.CONTROLLER].values()
    }
    if version >= 3:
        assert {row.name for row in answer.finalized_features} == {*node.metadata.image.features, "kraft.version"}
        assert answer.finalized_features_epoch >= node.metadata.image.offset
