import asyncio

import pytest

from esp.broker.configs.store_reloads import StoreReloads
from esp.controller.configs import ConfigChange, ConfigOperation, ConfigResource, Operation
from esp.model.errors import ApiError, ErrorCode, OperatorError
from esp.model.ids import NodeId
from esp.model.tls import KeyStore, StoreType, TlsPolicy, TrustStore

BROKER, SET, DELETE = 4, Operation.SET, Operation.DELETE
KEYS, TRUST = "listener.name.clients.ssl.keystore.location", "listener.name.clients.ssl.truststore.location"
NODES_KEYS = "listener.name.nodes.ssl.keystore.location"
OTHER = ConfigOperation("log.retention.ms", SET, "5")


def policy(listener, keys="/etc/keys.pem", trust="/etc/ca.pem"):
    return TlsPolicy(listener, KeyStore(StoreType.PEM, keys), TrustStore(StoreType.PEM, trust))


POLICIES = {"CLIENTS": policy("CLIENTS"), "NODES": policy("NODES", trust="")}
RELOADS = StoreReloads(NodeId(1), POLICIES)


class Network:
    """Notes what it is to read again, and refuses the stores of one listener."""

    def __init__(self, refused=None):
        self.read = []
        self._refused = refused

    async def reload_tls(self, policy, *, validate_only):
        if policy.listener == self._refused:
            raise OperatorError("half a key", "Write it again.")
        self.read.append((policy.listener, validate_only))


def change(*operations, resource=(BROKER, "1"), replaces_all=False):
    return ConfigChange(ConfigResource(*resource), tuple(ConfigOperation(*one) for one in operations), replaces_all)


def made(asked, network=None, *, validate_only=False):
    network = network or Network()
    asyncio.run(RELOADS.make(asked, network, validate_only=validate_only))
    return network.read


def test_the_present_location_means_to_read_the_store_again_and_is_no_change_of_a_setting():
    asked = change((KEYS, SET, "/etc/keys.pem"), OTHER)
    assert RELOADS.without(asked) == change(OTHER)
    assert made(asked) == [("CLIENTS", False)]
    assert made(asked, validate_only=True) == [("CLIENTS", True)]


def test_each_listener_is_read_once():
    asked = change((KEYS, SET, "/etc/keys.pem"), (TRUST, SET, "/etc/ca.pem"), (NODES_KEYS, SET, "/etc/keys.pem"))
    assert made(asked) == [("CLIENTS", False), ("NODES", False)]
    assert RELOADS.without(asked) == change()


@pytest.mark.parametrize(
    "asked",
    [
        change((KEYS, SET, "/etc/others.pem")),
        change((KEYS, DELETE, None)),
        change((KEYS, SET, None)),
        change(("ssl.keystore.location", SET, "/etc/keys.pem")),
        change(("listener.name.nodes.ssl.truststore.location", SET, "")),
        change((KEYS, SET, "/etc/keys.pem"), resource=(BROKER, "2")),
        change((KEYS, SET, "/etc/keys.pem"), resource=(BROKER, "")),
        change((KEYS, SET, "/etc/keys.pem"), replaces_all=True),
    ],
)
def test_whatever_else_is_left_as_it_is(asked):
    assert RELOADS.without(asked) is asked
    assert not made(asked)


def test_a_store_that_cannot_be_used_is_refused_by_the_name_of_its_setting():
    asked = change((NODES_KEYS, SET, "/etc/keys.pem"))
    with pytest.raises(ApiError, match=f"configuration {NODES_KEYS}: half a key. Write it again.") as caught:
        made(asked, Network(refused="NODES"))
    assert caught.value.code is ErrorCode.invalid_request
