import subprocess
import sys

from tests.unit.broker.authentication.raw_client import ask_versions, log_in, with_sasl
from tests.unit.broker.simulated_node import simulated


def loaded_by_a_node(settings: str) -> set[str]:
    """The modules of authentication in a process that has run a node for a minute and answered a client."""
    program = f"""
import asyncio
import sys
from esp.model.oauth import OauthTerms
from esp.model.sasl import BY_PASSWORD, SaslMechanism, SaslPolicy
from esp.model.web_place import parse_web_place
from tests.unit.broker.simulated_node import simulated

@simulated({settings})
async def run(node):
    client = await node.client()
    await asyncio.sleep(60)

run()
families = ("esp.authentication", "esp.broker.authentication", "esp.model.jaas", "joserfc", "cryptography")
print(*sorted(name for name in sys.modules if name.startswith(families)))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_a_node_without_sasl_loads_none_of_it():
    assert loaded_by_a_node("") == set()


def test_a_node_with_sasl_loads_it():
    loaded = loaded_by_a_node('sasl={"PLAINTEXT": SaslPolicy("PLAINTEXT", BY_PASSWORD, {})}')
    assert {"esp.authentication.conversation", "esp.broker.authentication.sasl_connection"} <= loaded
    of_tokens = {"esp.authentication.token_judge", "esp.broker.authentication.provider_keys", "joserfc", "cryptography"}
    assert not of_tokens & loaded


def test_a_listener_that_takes_tokens_loads_what_checks_them():
    oauth = 'OauthTerms(parse_web_place("https://127.0.0.1:1/keys"), "issuer", ("audience",))'
    policy = f'SaslPolicy("PLAINTEXT", (SaslMechanism.OAUTHBEARER,), oauth={oauth})'
    loaded = loaded_by_a_node(f'sasl={{"PLAINTEXT": {policy}}}')
    assert {"esp.authentication.token_judge", "joserfc", "cryptography"} <= loaded


@simulated(**with_sasl())
async def test_sessions_of_a_listener_without_sasl_have_no_log_in(node):
    await log_in(await node.client())
    on_controller = await node.client(node.node.controller.listening[0])
    await ask_versions(on_controller)
    sessions = [*node.server._sessions, *node.node.controller.server._sessions]
    assert [session.client.sasl is not None for session in sessions] == [True, False]
    on_controller.close()
