from types import SimpleNamespace

import pytest

from esp.authentication.exchange import NewTokenWait, Success
from esp.authentication.scram import ScramClient
from esp.broker.authentication.login_parts import LoginParts
from esp.controller.image import ClusterImage
from esp.model.delegation_terms import DelegationTerms
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential
from tests.unit.broker.authentication.raw_client import policy, with_sasl
from tests.unit.broker.simulated_node import simulated
from tests.unit.controller.samples import SeededRandom

SHA_256 = ScramMechanism.SCRAM_SHA_256


def test_connection_that_was_made_while_the_node_started_finds_the_users_of_its_metadata():
    env = SimpleNamespace(host=None, cpu=None, random=SeededRandom(), clock=SimpleNamespace(wall_ms=lambda: 0))
    parts = LoginParts(env, dispatcher=None)
    conversation = parts.conversation(SaslPolicy("L", tuple(SaslMechanism), {}))
    image = ClusterImage(scram_credentials={("alice", SHA_256): make_credential(SHA_256, "secret", b"salt", 4096)})
    parts.follow(lambda: image, DelegationTerms())
    conversation.on_handshake(1, "SCRAM-SHA-256")
    client = ScramClient(SHA_256, "alice", "secret", "nonce")
    proof = client.on_server_first(conversation.on_message(client.first_message()).data)
    assert conversation.on_message(proof).is_success


@pytest.mark.parametrize(
    ("comes_after_s", "is_known", "latest_s"), [(0.0, True, 0.01), (0.2, True, 0.32), (9, False, 0.32)]
)
def test_token_that_another_node_has_just_made_is_waited_for(comes_after_s, is_known, latest_s):
    @simulated(**with_sasl())
    async def test(node):
        clock, began_us = node.env.clock, node.env.clock.monotonic_us()

        def seconds():
            return (clock.monotonic_us() - began_us) / 1_000_000

        wait = NewTokenWait(lambda: seconds() >= comes_after_s, conclude=lambda _: Success("alice"))
        parts = LoginParts(node.env, node.node.broker.dispatcher)
        assert await parts.check(wait, policy(), "192.0.2.1", lambda: True) is is_known
        assert comes_after_s * is_known <= seconds() <= latest_s

    test()


@simulated(**with_sasl())
async def test_token_is_not_waited_for_when_its_connection_has_ended(node):
    began_us = node.env.clock.monotonic_us()
    wait = NewTokenWait(lambda: False, conclude=lambda _: Success("alice"))
    parts = LoginParts(node.env, node.node.broker.dispatcher)
    assert not await parts.check(wait, policy(), "192.0.2.1", lambda: False)
    assert node.env.clock.monotonic_us() - began_us <= 10_000
