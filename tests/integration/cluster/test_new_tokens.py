"""A delegation token that one node has made counts at once at every node of a cluster."""

import base64
import itertools
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from kio.schema.create_delegation_token.v2.request import CreateDelegationTokenRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i64Timedelta

from esp.authentication.scram import ScramClient
from esp.cli.node.security import ADMINISTRATOR, MECHANISM
from esp.testing.cluster import Cluster
from tests.integration import messages
from tests.integration.wire import Wire

pytestmark = pytest.mark.timeout(240)

TOKENS = 5
"""The number of tokens of each node."""
_NONCES = itertools.count(1_000_000_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that were made secure."""
    with Cluster(tmp_path_factory.mktemp("cluster"), secure=True) as made:
        yield made


def chosen(cluster: Cluster, node: int) -> Wire:
    """A connection that has chosen its mechanism, so that the log-in itself takes two messages and no more."""
    assert cluster.security is not None
    tls = ssl.create_default_context(cafile=cluster.security.path / "certs" / "ca.pem")
    wire = Wire(cluster.nodes[node], 60, tls=tls)
    assert not wire.call(SaslHandshakeRequest(mechanism=MECHANISM.sasl_name)).error_code
    return wire


def log_in(wire: Wire, user: str, password: str, *, is_token: bool) -> None:
    client = ScramClient(MECHANISM, user, password, str(next(_NONCES)), is_token=is_token)
    first = wire.call(SaslAuthenticateRequest(auth_bytes=client.first_message()))
    assert not first.error_code, first.error_message
    last = wire.call(SaslAuthenticateRequest(auth_bytes=client.on_server_first(first.auth_bytes)))
    assert not last.error_code, last.error_message
    client.on_server_final(last.auth_bytes)


def test_a_new_token_is_of_use_at_once_at_every_node(cluster: Cluster) -> None:
    assert cluster.security is not None
    password = (cluster.security.path / "admin" / "password").read_text().strip()
    life = i64Timedelta.parse(timedelta(hours=1))
    for maker in cluster.nodes:
        with chosen(cluster, maker) as admin:
            log_in(admin, ADMINISTRATOR, password, is_token=False)
            for _ in range(TOKENS):
                with ExitStack() as opened:
                    wires = [opened.enter_context(chosen(cluster, node)) for node in cluster.nodes]
                    made = admin.call(CreateDelegationTokenRequest(renewers=(), max_lifetime=life))
                    assert not made.error_code
                    for wire in wires:
                        log_in(wire, made.token_id, base64.b64encode(made.hmac).decode(), is_token=True)
                        assert wire.call(messages.metadata()).cluster_id == cluster.cluster_id
