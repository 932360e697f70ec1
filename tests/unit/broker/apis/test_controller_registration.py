import uuid

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import model, simulated


@simulated()
async def test_another_controller_is_written_down(node):
    other = await PlayedBroker(node, 7).connect()
    types = model(ApiKey.CONTROLLER_REGISTRATION, 0)
    incarnation = uuid.uuid4()
    answer = await other.call(
        ApiKey.CONTROLLER_REGISTRATION,
        0,
        controller_id=8,
        incarnation_id=incarnation,
        zk_migration_ready=False,
        listeners=(types.Listener(name="CONTROLLER", host="h", port=9, security_protocol=0),),
        features=(types.Feature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    known = other.image.controllers[8]
    assert (known.incarnation_id, known.endpoints) == (incarnation, {"CONTROLLER": Address("h", 9)})
    assert known.features == {"metadata.version": (7, 30)}
