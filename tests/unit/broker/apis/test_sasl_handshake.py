"""On a listener without SASL both requests are refused as Kafka refuses them, and the connection goes on."""

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.authentication.raw_client import ask_metadata, ask_versions, authenticate, handshake
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", [0, 1])
@simulated()
async def test_handshake_is_refused_and_the_connection_goes_on(node, version):
    client = await node.client()
    answer = await handshake(client, "PLAIN", version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
    assert (await ask_metadata(client)).brokers


@pytest.mark.parametrize("data", [b"", b"x" * 1000])
@simulated()
async def test_message_of_a_mechanism_is_refused_and_the_connection_goes_on(node, data):
    client = await node.client()
    answer = await authenticate(client, data)
    assert answer.error_code == ErrorCode.illegal_sasl_state
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert (await ask_metadata(client)).brokers


@simulated()
async def test_so_it_is_on_the_listeners_of_controllers(node):
    client = await node.client(node.node.controller.listening[0])
    assert (await handshake(client)).error_code == ErrorCode.illegal_sasl_state
    assert (await authenticate(client)).error_code == ErrorCode.illegal_sasl_state
    assert (await ask_versions(client)).api_keys
