"""A node that logs in at another one, which is a real node on the simulated network, or one that a test plays."""

import asyncio
import datetime as dt
import logging

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from esp.broker.connections.peer import LOGIN_ANSWER_BYTES_MAX, Peer, PeerUnavailableError
from esp.model.errors import ErrorCode
from esp.model.peer_terms import PeerTerms
from esp.model.sasl import BY_PASSWORD, SaslMechanism, SaslPolicy
from esp.model.sasl_login import SaslLogin
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import salted_password
from esp.protocol.registry import ApiKey
from esp.settings.addresses import Listener
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.played_server import ADDRESS as PLAYED
from tests.unit.broker.played_server import in_world
from tests.unit.broker.simulated_node import ADDRESS, simulated

SECRET = "a secret password"
SCRAM = (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
OPEN = 9999


def protected(**policy):
    """A node with a listener for users and an open one."""
    terms = SaslPolicy("PLAINTEXT", BY_PASSWORD, {"alice": SECRET}, **policy)
    return simulated(
        sasl={"PLAINTEXT": terms},
        listeners=(
            Listener("PLAINTEXT", "127.0.0.1", 9092),
            Listener("OPEN", "127.0.0.1", OPEN),
            Listener("CONTROLLER", "127.0.0.1", 0),
        ),
    )


def login(mechanism=SaslMechanism.PLAIN, password=SECRET, user="alice"):
    return SaslLogin(mechanism, user, password, setting="sasl.jaas.config")


def new_peer(env, address=ADDRESS, **terms):
    peer = Peer(env, address, client_id="peer", terms=PeerTerms(None, login(**terms)))
    peer.lost = []
    peer.on_lost = peer.lost.append
    return peer


async def alter(node, *, password=SECRET, removed=False):
    """Give alice a password for SCRAM, or take it away."""
    client = await node.client(ADDRESS._replace(port=OPEN))
    for mechanism in ScramMechanism:
        deletions = [{"name": "alice", "mechanism": mechanism}]
        added = {
            "name": "alice",
            "mechanism": mechanism,
            "iterations": 4096,
            "salt": b"salt",
            "salted_password": salted_password(mechanism, password, b"salt", 4096),
        }
        content = {"deletions": deletions, "upsertions": []} if removed else {"deletions": [], "upsertions": [added]}
        answer = await ask(client, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, **content)
        assert answer.results[0].error_code is ErrorCode.none
    client.close()


async def call(peer, timeout_ms=20_000):
    message = ApiVersionsRequest(client_software_name="peer", client_software_version="1")
    answer = await peer.call(ApiKey.API_VERSIONS, message, timeout_ms=timeout_ms)
    assert answer.error_code is ErrorCode.none


def principals(node):
    return [session.client.principal for session in node.server._sessions]


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@protected()
async def test_calls_are_answered_after_the_login(node, mechanism):
    await alter(node)
    peer = new_peer(node.env, mechanism=mechanism)
    await asyncio.gather(*(call(peer) for _ in range(5)))
    assert peer.connected
    assert "User:alice" in principals(node)


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@protected()
async def test_a_refused_login_fails_the_calls_and_says_what_to_do(node, mechanism, caplog):
    await alter(node)
    peer = new_peer(node.env, mechanism=mechanism, password="another")
    with caplog.at_level(logging.ERROR), pytest.raises(PeerUnavailableError, match="the log-in as alice failed"):
        await call(peer)
    assert not peer.connected
    assert not peer.lost
    (told,) = (each.getMessage() for each in caplog.records if "peer_login" in each.name)
    assert mechanism.value in told
    assert "sasl.jaas.config" in told
    assert "another" not in told
    assert SECRET not in told


@protected()
async def test_a_user_that_comes_later_is_let_in_by_the_next_call(node):
    peer = new_peer(node.env, mechanism=SCRAM[1])
    with pytest.raises(PeerUnavailableError):
        await call(peer)
    await alter(node)
    await call(peer)


@simulated(sasl={"PLAINTEXT": SaslPolicy("PLAINTEXT", (SaslMechanism.PLAIN,), {"alice": SECRET})})
async def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are(node):
    with pytest.raises(PeerUnavailableError, match=r"serves PLAIN \(sasl.enabled.mechanisms there\)"):
        await call(new_peer(node.env, mechanism=SCRAM[0]))


@pytest.mark.parametrize("mechanism", [SaslMechanism.PLAIN, SCRAM[1]])
@protected(max_reauth_ms=dict.fromkeys(BY_PASSWORD, 3000))
async def test_the_connection_goes_on_while_the_login_is_renewed(node, mechanism):
    await alter(node)
    peer = new_peer(node.env, mechanism=mechanism)
    await call(peer)
    link = peer._link
    for _ in range(2000):
        await call(peer)
        await asyncio.sleep(0.01)
    assert peer._link is link
    assert not peer.lost
    await asyncio.sleep(30)  # a log-in is renewed without a call, too
    await call(peer)
    assert peer._link is link


@protected(max_reauth_ms=dict.fromkeys(BY_PASSWORD, 3000))
async def test_a_user_that_is_removed_is_let_in_no_more(node, caplog):
    await alter(node)
    peer = new_peer(node.env, mechanism=SCRAM[0])
    await call(peer)
    await alter(node, removed=True)
    await call(peer)  # until the log-in is to be renewed
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(5)
    assert not peer.connected
    assert "SCRAM-SHA-256" in caplog.text
    with pytest.raises(PeerUnavailableError):
        await call(peer)


@protected()
async def test_a_peer_that_is_closed_while_it_logs_in_fails_its_calls(node):
    peer = new_peer(node.env)
    waiting = asyncio.ensure_future(call(peer))
    while peer._link is None or peer._link.connection is None:  # noqa: ASYNC110  # virtual time
        await asyncio.sleep(0.0001)
    peer.close()
    with pytest.raises(PeerUnavailableError, match="closed"):
        await waiting
    with pytest.raises(PeerUnavailableError, match="closed"):
        await call(peer)


def shaken(_message):
    return SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",))


def accepted(data=b""):
    return SaslAuthenticateResponse(
        error_code=ErrorCode.none, error_message=None, auth_bytes=data, session_lifetime=dt.timedelta(0)
    )


@in_world
async def test_a_server_that_does_not_prove_itself_is_not_believed(world):
    def authenticate(message):
        if message.auth_bytes.startswith(b"n,,"):
            nonce = message.auth_bytes.rpartition(b"r=")[2].decode()
            return accepted(f"r={nonce}more,s=c2FsdA==,i=4096".encode())
        return accepted(b"v=AAAA")

    await world.server(sasl_handshake=shaken, sasl_authenticate=authenticate)
    with pytest.raises(PeerUnavailableError, match="does not know the password"):
        await call(new_peer(world.env, PLAYED, mechanism=SCRAM[0]))


@pytest.mark.parametrize("iterations", [1, 4095, 16_385, 999_999_999])
@in_world
async def test_a_server_cannot_keep_this_node_busy_or_weaken_its_password(world, iterations):
    def authenticate(message):
        nonce = message.auth_bytes.rpartition(b"r=")[2].decode()
        return accepted(f"r={nonce}more,s=c2FsdA==,i={iterations}".encode())

    await world.server(sasl_handshake=shaken, sasl_authenticate=authenticate)
    with pytest.raises(PeerUnavailableError, match=f"asks for {iterations} iterations"):
        await call(new_peer(world.env, PLAYED, mechanism=SCRAM[0]))


@in_world
async def test_a_server_that_goes_on_for_ever_is_left(world):
    def authenticate(message):
        return accepted(b"more")

    server = await world.server(sasl_handshake=shaken, sasl_authenticate=authenticate)
    with pytest.raises(PeerUnavailableError, match="4 bytes more than PLAIN has"):
        await call(new_peer(world.env, PLAYED))
    assert [name for name, _ in server.seen] == ["sasl_handshake", "sasl_authenticate"]


@in_world
async def test_answers_to_a_login_are_bounded(world):
    await world.server(sasl_handshake=lambda _message: bytes(4) + bytes(LOGIN_ANSWER_BYTES_MAX))
    with pytest.raises(PeerUnavailableError, match=rf"outside \d+\.\.{LOGIN_ANSWER_BYTES_MAX}"):
        await call(new_peer(world.env, PLAYED))


@in_world
async def test_a_server_that_is_silent_in_the_login_is_given_up(world):
    await world.server(sasl_handshake=lambda _message: None)
    peer = new_peer(world.env, PLAYED)
    with pytest.raises(PeerUnavailableError, match="API_VERSIONS was not answered within 3000 ms"):
        await call(peer, timeout_ms=3000)
    assert not peer.connected
