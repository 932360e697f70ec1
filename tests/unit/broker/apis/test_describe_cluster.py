import pytest

from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model, simulated


async def ask(node, version=2, **options):
    client = await node.client()
    options.setdefault("include_cluster_authorized_operations", False)
    options.setdefault("include_fenced_brokers", False)
    return await client.call(
        ApiKey.DESCRIBE_CLUSTER, version, model(ApiKey.DESCRIBE_CLUSTER, version).Request(**options)
    )


@pytest.mark.parametrize("version", [1, 2])
@simulated(broker_rack="r1")
async def test_the_brokers_are_told_with_the_cluster(node, version):
    answer = await ask(node, version)
    assert answer.cluster_id == node.metadata.cluster_id
    assert answer.controller_id == 1
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "127.0.0.1", 9092, "r1")
    assert answer.cluster_authorized_operations == -(2**31)


@simulated()
async def test_operations_are_told_to_who_asks_for_them(node):
    assert (await ask(node, include_cluster_authorized_operations=True)).cluster_authorized_operations > 0


@simulated()
async def test_fenced_brokers_may_be_asked_for(node):
    (broker,) = (await ask(node, include_fenced_brokers=True)).brokers
    assert not broker.is_fenced


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (3, 115), (0, 115)])
@simulated()
async def test_controllers_answer_elsewhere(node, endpoint_type, code):
    answer = await ask(node, endpoint_type=endpoint_type)
    assert answer.error_code == code
    assert answer.error_message
    assert answer.brokers == ()
