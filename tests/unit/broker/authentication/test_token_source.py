"""A node that gets tokens for its own log-ins, and logs in by them at a real node on the simulated network."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from esp.authentication.errors import AuthenticationError
from esp.broker.authentication.token_source import TokenSource
from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.model.oauth import OauthLogin
from esp.model.peer_terms import PeerTerms
from esp.model.sasl_login import SaslLogin
from esp.model.web_place import WebPlace
from esp.protocol.registry import ApiKey
from tests.models.access_tokens import Provider
from tests.unit.broker.authentication.played_web import PlayedWeb, answer, place
from tests.unit.broker.authentication.test_oauth_logins import (
    MECHANISM,
    PROVIDER,
    principals,
    settings,
    start,
    token_of,
)
from tests.unit.broker.played_server import in_world
from tests.unit.broker.simulated_node import ADDRESS, simulated

ENDPOINT = OauthLogin(place("/token"), "broker-1", "the-secret", scope="kafka")
FILE = OauthLogin(WebPlace("file:///token", path="/token"))


class Tokens:
    """The token endpoint of a provider: each answer is another token."""

    def __init__(self, env, network, life_s: int = 300) -> None:
        self.env, self.life_s, self.status = env, life_s, "200 OK"
        self.web = PlayedWeb(network, self._reply)
        self.given: list[str] = []

    def _reply(self, _request: bytes) -> bytes:
        now_ms = self.env.clock.wall_ms()
        self.given.append(PROVIDER.token(now_ms, exp=now_ms // 1000 + self.life_s, jti=str(len(self.given))))
        return answer(json.dumps({"access_token": self.given[-1], "expires_in": 1}).encode(), self.status)


async def endpoint_in(world, **options) -> Tokens:
    tokens = Tokens(world.env, world.network, **options)
    await tokens.web.listen()
    return tokens


@in_world
async def test_token_is_kept_until_another_is_to_be_got(world):
    tokens = await endpoint_in(world, life_s=1000)
    source = TokenSource(world.env, ENDPOINT)
    first = await source.token()
    assert await source.token() == first
    await asyncio.sleep(695)
    assert await source.token() == first
    await asyncio.sleep(6)
    second = await source.token()
    assert second != first
    source.forget()
    assert await source.token() not in (first, second)
    assert len(tokens.given) == 3


@in_world
async def test_endpoint_is_asked_again_with_delays_that_double_and_then_given_up(world):
    tokens = await endpoint_in(world)
    tokens.status = "503 Away"
    source = TokenSource(world.env, ENDPOINT)
    begun = world.loop.time()
    with pytest.raises(AuthenticationError, match="status 503") as failed:
        await source.token()
    assert "the-secret" not in failed.value.reason
    assert 6 < world.loop.time() - begun < 11
    assert len(tokens.given) == 7  # 100 + 200 + … + 3200 ms
    tokens.status = "200 OK"
    assert await source.token() == tokens.given[-1]


@in_world
async def test_answer_without_a_token_is_not_asked_for_again(world):
    web = await PlayedWeb(world.network, lambda _: answer(b'{"error": "invalid_client"}')).listen()
    with pytest.raises(AuthenticationError, match="no access_token"):
        await TokenSource(world.env, ENDPOINT).token()
    assert len(web.requests) == 1


@in_world
async def test_token_of_a_file_is_read_again_when_it_has_been_written(world):
    world.env.disk.write_file("/token", b"opaque-1\n")
    source = TokenSource(world.env, FILE)
    assert await source.token() == "opaque-1"
    world.env.disk.write_file("/token", b"opaque-2\n")
    assert await source.token() == "opaque-2"


@pytest.mark.parametrize("data", [None, b"", b"x" * 100_000])
@in_world
async def test_file_without_a_token_is_named(world, data):
    if data is not None:
        world.env.disk.write_file("/token", data)
    with pytest.raises(AuthenticationError, match="token"):
        await TokenSource(world.env, FILE).token()


# As a peer


def new_peer(env, login: OauthLogin) -> Peer:
    terms = SaslLogin(MECHANISM, "broker-1", "", setting="sasl.jaas.config", oauth=login)
    return Peer(env, ADDRESS, client_id="peer", terms=PeerTerms(None, terms))


async def call(peer: Peer) -> None:
    message = ApiVersionsRequest(client_software_name="peer", client_software_version="1")
    assert (await peer.call(ApiKey.API_VERSIONS, message, timeout_ms=20_000)).error_code == 0


@simulated(start=False, **settings())
async def test_node_logs_in_by_its_token_and_renews_the_log_in(node):
    await start(node)
    tokens = Tokens(node.env, node.network, life_s=60)
    await tokens.web.listen()
    peer = new_peer(node.env, replace(ENDPOINT, extensions={"tenant": "a"}))
    for _ in range(20):
        await call(peer)
        await asyncio.sleep(10)
    assert principals(node) == [("User:alice", ())]
    assert 3 <= len(tokens.given) <= 6
    peer.close()


@simulated(start=False, **settings())
async def test_refused_token_is_told_with_the_remedy_and_another_is_got(node, caplog):
    await start(node)
    tokens = Tokens(node.env, node.network)
    tokens.life_s = -10
    await tokens.web.listen()
    peer = new_peer(node.env, ENDPOINT)
    with caplog.at_level(logging.ERROR), pytest.raises(PeerUnavailableError, match="the log-in as broker-1 failed"):
        await call(peer)
    told = next(each.getMessage() for each in caplog.records if "cannot log in" in each.getMessage())
    assert "sasl.oauthbearer.token.endpoint.url" in told
    assert "invalid_token" in told
    assert "the-secret" not in caplog.text
    assert "eyJ" not in caplog.text
    tokens.life_s = 300
    await call(peer)
    peer.close()


@simulated(start=False, **settings())
async def test_token_that_no_message_can_hold_is_a_refusal(node):
    await start(node)
    node.disk.write_file("/token", b"a b")
    peer = new_peer(node.env, FILE)
    with pytest.raises(PeerUnavailableError, match="other characters"):
        await call(peer)
    node.disk.write_file("/token", token_of(node, Provider()).encode())
    await call(peer)
    peer.close()
