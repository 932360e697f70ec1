from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import simulated


@simulated()
async def test_a_broker_is_forgotten_once(node):
    broker = await PlayedBroker(node, 7).start()
    answer = await broker.call(ApiKey.UNREGISTER_BROKER, 0, broker_id=7)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    assert 7 not in broker.image.brokers
    answer = await broker.call(ApiKey.UNREGISTER_BROKER, 0, broker_id=7)
    assert answer.error_code is ErrorCode.broker_id_not_registered
    assert "7" in answer.error_message
