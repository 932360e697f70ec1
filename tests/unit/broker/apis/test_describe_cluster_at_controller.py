import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model, simulated

BROKERS, CONTROLLERS = 1, 2


async def describe(node, endpoint_type, version=2, *, operations=False):
    client = await node.client(node.node.controller.listening[0])
    types = model(ApiKey.DESCRIBE_CLUSTER, version)
    request = types.Request(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=False
    )
    return await client.call(ApiKey.DESCRIBE_CLUSTER, version, request)


@pytest.mark.parametrize("version", [1, 2])
@simulated()
async def test_the_controllers_are_told_with_the_active_one(node, version):
    answer = await describe(node, CONTROLLERS, version)
    assert answer.error_code is ErrorCode.none
    assert (answer.cluster_id, answer.controller_id, answer.endpoint_type) == (node.metadata.cluster_id, 1, CONTROLLERS)
    address = node.node.controller.listening[0]
    assert [(it.broker_id, it.host, it.port) for it in answer.brokers] == [(1, address.host, address.port)]
    assert answer.cluster_authorized_operations == -(2**31)
    assert (await describe(node, CONTROLLERS, operations=True)).cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(BROKERS, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
@simulated()
async def test_other_endpoints_are_refused(node, endpoint_type, code):
    answer = await describe(node, endpoint_type)
    assert answer.error_code is code
    assert answer.brokers == ()
