from types import SimpleNamespace

from esp.authentication.scram import ScramClient
from esp.broker.authentication.login_parts import LoginParts
from esp.controller.image import ClusterImage
from esp.model.delegation_terms import DelegationTerms
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential
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
