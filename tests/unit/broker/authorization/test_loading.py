import subprocess
import sys


def loaded_by_a_node(*settings):
    """The modules of authorisation in a process that has made a node's access and gates."""
    program = f"""
import sys
from types import SimpleNamespace
from esp.broker.app import BrokerNode
from esp.broker.authorization.loading import make_access, make_gate
from esp.protocol.registry import ListenerKind
from esp.settings.node import load_broker_settings

settings = load_broker_settings(None, {list(settings)})
access = make_access(settings, SimpleNamespace(subscribe=lambda callback: None))
gates = [make_gate(kind, access, lambda: None) for kind in ListenerKind]
print(access.is_open, gates.count(None))
print(*sorted(name for name in sys.modules if "authorization" in name))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    made, modules = done.stdout.splitlines()
    return made, set(modules.split())


def test_a_node_without_an_authorizer_loads_none_of_it():
    made, modules = loaded_by_a_node()
    assert made == "True 2"
    prefix = "esp.broker.authorization"
    assert modules == {prefix, f"{prefix}.access", f"{prefix}.loading"}


def test_a_node_with_an_authorizer_has_a_gate_before_each_kind_of_listener():
    made, modules = loaded_by_a_node("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    assert made == "False 0"
    assert {"esp.authorization.authorizer", "esp.broker.authorization.gate"} <= modules
