"""Delegation tokens are made, changed and told by a node, and let their bearers in, from the answer on and until their end."""

import asyncio
import base64
import struct
from functools import partial
from types import MappingProxyType
from unittest.mock import patch

import pytest

from esp.authentication.scram import ScramClient
from esp.broker.cluster_view.cache import MetadataCache
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.enclosed import encode_address, encode_principal
from esp.protocol.messages import LENGTH_BYTES, encode_request
from esp.protocol.registry import ApiKey
from esp.simulation.workload.survey_requests import build
from tests.unit.broker.authentication.raw_client import (
    SCRAM_256,
    SCRAM_512,
    add_user,
    ask_metadata,
    authenticate,
    ends_without_answer,
    handshake,
    is_closed,
    log_in,
    log_in_by_scram,
    with_sasl,
)
from tests.unit.broker.guarded_node import ROOT, allow, ask, deny, guarded
from tests.unit.broker.simulated_node import simulated

PROTOCOLS = MappingProxyType({"PLAINTEXT": "SASL_PLAINTEXT", "CONTROLLER": "PLAINTEXT"})
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret", "root": "root-secret"}
SETTINGS = {
    **with_sasl(plain_users=PASSWORDS),
    "security_protocols": PROTOCOLS,
    "delegation_token_secret_key": "secret",
    "delegation_token_max_lifetime_ms": 60_000,
    "delegation_token_expiry_time_ms": 10_000,
}
with_tokens = partial(simulated, **SETTINGS)
NOT_ALLOWED = ErrorCode.delegation_token_request_not_allowed


async def client_of(node, user):
    client = await node.client()
    answer = await log_in(client, f"\0{user}\0{PASSWORDS[user]}".encode())
    assert answer.error_code == 0
    return client


async def create(client, version=3, **content):
    answer = await ask(
        client, ApiKey.CREATE_DELEGATION_TOKEN, version, **{"max_lifetime": -1, "renewers": [], **content}
    )
    return answer if answer.error_code == 0 else answer.error_code


async def renew(client, token, period_ms=-1):
    answer = await ask(client, ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period=period_ms)
    return answer.error_code


async def expire(client, token, period_ms=-1):
    answer = await ask(client, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period=period_ms)
    return answer.error_code


async def told(client, *owners):
    asked = [{"principal_type": "User", "principal_name": owner} for owner in owners] or None
    answer = await ask(client, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=asked)
    return answer.error_code or {each.token_id for each in answer.tokens}


async def log_in_by(client, token, mechanism=SCRAM_256):
    """Log in by a token, and return the last answer."""
    await handshake(client, mechanism.value)
    password = base64.b64encode(token.hmac).decode()
    mine = ScramClient(mechanism.scram, token.token_id, password, "nonce", is_token=True)
    challenge = await authenticate(client, mine.first_message())
    return await authenticate(client, mine.on_server_first(challenge.auth_bytes))


async def gets_in(node, token, mechanism=SCRAM_256):
    client = await node.client()
    is_in = (await log_in_by(client, token, mechanism)).error_code == 0
    assert is_in is (not await is_closed(client, 0.01))
    client.close()
    return is_in


@with_tokens()
async def test_a_token_that_lets_its_bearer_in_is_described_while_replicas_apply_older_metadata(node):
    alice = await client_of(node, "alice")
    with patch.object(MetadataCache, "publish"):
        assert await create(alice) == ErrorCode.request_timed_out, "it waits for what clients are told"
        (token,) = (await ask(alice, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None)).tokens
        assert await gets_in(node, token)


@with_tokens()
async def test_token_lets_its_bearer_in_when_it_is_answered_and_until_it_is_removed(node):
    alice = await client_of(node, "alice")
    token = await create(alice)
    for mechanism in (SCRAM_256, SCRAM_512):
        assert await gets_in(node, token, mechanism)
    bearer = await node.client()
    answer = await log_in_by(bearer, token)
    assert 9_000 < answer.session_lifetime.total_seconds() * 1000 <= 10_000
    assert (await ask_metadata(bearer)).brokers
    assert "User:alice" in {session.client.principal for session in node.server._sessions if session.client.is_by_token}
    assert await expire(alice, token) == 0
    assert not await gets_in(node, token)
    assert await told(alice) == set()
    assert (await ask_metadata(bearer)).brokers, "a session goes on until the end that it was told"


@with_tokens()
async def test_session_ends_with_its_token(node):
    bearer, alice = await node.client(), await client_of(node, "alice")
    token = await create(alice)
    await log_in_by(bearer, token)
    await asyncio.sleep(9)
    assert (await ask_metadata(bearer)).brokers
    assert await renew(alice, token) == 0
    await log_in_by(bearer, token)
    await asyncio.sleep(9)
    assert (await ask_metadata(bearer)).brokers
    await asyncio.sleep(2)
    assert await ends_without_answer(ask_metadata(bearer))
    assert not await gets_in(node, token), "it has expired and is not swept yet"
    assert token.token_id in node.metadata.image.delegation_tokens


@with_tokens()
async def test_session_that_a_token_began_goes_on_without_an_end_by_its_user_s_password(node):
    await add_user(node, "alice", "of-scram")
    alice = await client_of(node, "alice")
    for pause_s in (1, 11):  # before the token's end, and after it
        bearer = await node.client()
        await log_in_by(bearer, await create(alice))
        await asyncio.sleep(pause_s)
        assert (await log_in_by_scram(bearer, SCRAM_256, "alice", "of-scram")).session_lifetime.total_seconds() == 0
        await asyncio.sleep(20)
        assert (await ask_metadata(bearer)).brokers


@with_tokens(delegation_token_expiry_check_interval_ms=3_000)
async def test_expired_tokens_are_swept(node):
    alice = await client_of(node, "alice")
    first, second = await create(alice), await create(alice)
    await asyncio.sleep(8)
    await renew(alice, second)
    await asyncio.sleep(5)
    assert node.metadata.image.delegation_tokens.keys() == {second.token_id}
    assert await renew(alice, first) is ErrorCode.delegation_token_not_found
    await asyncio.sleep(10)
    assert node.metadata.image.delegation_tokens == {}


@with_tokens()
async def test_token_makes_and_tells_no_tokens(node):
    alice, bearer = await client_of(node, "alice"), await node.client()
    token = await create(alice)
    await log_in_by(bearer, token)
    assert await create(bearer) is NOT_ALLOWED
    assert await renew(bearer, token) is NOT_ALLOWED
    assert await expire(bearer, token) is NOT_ALLOWED
    assert await told(bearer) is NOT_ALLOWED
    assert await told(alice) == {token.token_id}


@pytest.mark.parametrize(("protocol", "principal"), [("PLAINTEXT", "User:alice"), ("SSL", "User:ANONYMOUS")])
@simulated(delegation_token_secret_key="secret")
async def test_client_that_is_unknown_gets_no_tokens(node, protocol, principal):
    node.kill()
    await node.start(security_protocols=MappingProxyType({"PLAINTEXT": protocol, "CONTROLLER": protocol}))
    client, controller = await node.client(), await node.client(node.node.controller.listening[0])
    await ask_metadata(client)
    (session,) = node.server._sessions
    session.client.principal = principal
    assert await create(client) is NOT_ALLOWED
    session.client.principal = "User:CN=alice"
    assert (await create(client) is NOT_ALLOWED) == (protocol == "PLAINTEXT")
    assert await create(controller) is NOT_ALLOWED


@simulated(**{**SETTINGS, "delegation_token_secret_key": None})
async def test_without_a_secret_there_are_no_tokens(node):
    alice = await client_of(node, "alice")
    disabled = ErrorCode.delegation_token_auth_disabled
    assert await create(alice) is disabled
    assert await told(alice) is disabled


@guarded(**SETTINGS)
async def test_tokens_of_others_need_a_permission(node):
    alice, bob, root = [await client_of(node, user) for user in PASSWORDS]
    for_alice = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    assert await create(bob, **for_alice) is ErrorCode.delegation_token_authorization_failed
    made = await create(root, **for_alice, renewers=[{"principal_type": "User", "principal_name": "carol"}])
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "root")
    await allow(root, "User:bob", AclOperation.CREATE_TOKENS, ResourceType.USER, "User:alice")
    bobs = await create(bob, **for_alice)
    assert await told(alice) == {made.token_id, bobs.token_id}
    assert await told(bob) == {bobs.token_id}
    assert await told(bob, "carol") == set()
    await allow(root, "User:bob", AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, made.token_id)
    assert await told(bob, "carol") == {made.token_id}
    assert await told(root) == {made.token_id, bobs.token_id}
    assert await told(root, "bob") == {bobs.token_id}
    assert await expire(bob, bobs) is ErrorCode.delegation_token_owner_mismatch
    assert await expire(alice, bobs) == 0


@guarded(**SETTINGS)
async def test_owners_tokens_are_told_to_clients_that_may_see_that_owners(node):
    alice, bob, root = [await client_of(node, user) for user in PASSWORDS]
    token = await create(alice)
    assert await told(bob) == set()
    await allow(root, "User:bob", AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")
    assert await told(bob) == {token.token_id}


@guarded(**SETTINGS | {"super_users": (ROOT, "User:ANONYMOUS")})
async def test_token_outlives_the_removal_of_its_owner_and_a_denial_counts_for_it_and_for_sessions_that_are_open(node):
    """As docs/SECURITY.md tells operators to shut a user out."""
    root = await client_of(node, "root")
    await add_user(node, "carol", "carol-secret")
    carol, bearer = await node.client(), await node.client()
    assert (await log_in_by_scram(carol, SCRAM_256, "carol", "carol-secret")).error_code == 0
    token = await create(carol)
    await allow(root, "User:carol", AclOperation.CREATE)
    deletion = {"name": "carol", "mechanism": SCRAM_256.scram}
    removal = await ask(root, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[deletion], upsertions=[])
    assert removal.results[0].error_code == 0
    stranger = await node.client()
    refused = await log_in_by_scram(stranger, SCRAM_256, "carol", "carol-secret")
    assert refused.error_code is ErrorCode.sasl_authentication_failed
    assert (await log_in_by(bearer, token)).error_code == 0
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
    denied = ErrorCode.topic_authorization_failed
    for is_denied in (False, True):
        for client in (carol, bearer):
            answer = await ask(client, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=True)
            assert (answer.topics[0].error_code is denied) is is_denied, answer
        await deny(root, "User:carol", AclOperation.ALL)


@with_tokens()
async def test_principals_that_cannot_log_in_get_no_tokens(node):
    alice = await client_of(node, "alice")
    kind = ErrorCode.invalid_principal_type
    assert await create(alice, renewers=[{"principal_type": "Group", "principal_name": "x"}]) is kind
    assert await create(alice, owner_principal_type="Group", owner_principal_name="x") is kind


@with_tokens()
async def test_a_client_may_ask_for_all_the_time_that_there_is(node):
    """As a Java client does with Long.MAX_VALUE: Kafka 4.3.1 gives what its settings allow."""
    alice = await client_of(node, "alice")
    header = struct.pack(">hhih", ApiKey.CREATE_DELEGATION_TOKEN, 3, 7, 1) + b"x\x00"
    body = b"\x00\x00\x01" + struct.pack(">q", 2**63 - 1) + b"\x00"
    frame = struct.pack(">i", len(header + body)) + header + body
    answer = await alice.send_frame(frame, 7, ApiKey.CREATE_DELEGATION_TOKEN, 3)
    assert answer.error_code == 0
    assert (answer.max_timestamp - answer.issue_timestamp).total_seconds() == 60


@with_tokens()
async def test_another_secret_ends_no_token(node):
    token = await create(await client_of(node, "alice"))
    for key, accepted in (("secret", "next"), ("next", "secret"), ("secret", None)):
        node.kill()
        await node.start(delegation_token_secret_key=key, delegation_token_accepted_secret_key=accepted)
        assert await gets_in(node, token)
    node.kill()
    await node.start(delegation_token_secret_key="next")
    assert not await gets_in(node, token)


@with_tokens()
async def test_tokens_outlive_power_losses(node):
    alice = await client_of(node, "alice")
    kept, removed = await create(alice), await create(alice)
    await expire(alice, removed)
    await node.restart(power=True)
    assert await gets_in(node, kept)
    assert not await gets_in(node, removed)


@with_tokens()
async def test_client_of_a_broker_is_who_its_envelope_says(node):
    controller = await node.client(node.node.controller.listening[0])
    for is_by_token, code in ((False, ErrorCode.none), (True, NOT_ALLOWED)):
        message = build(ApiKey.CREATE_DELEGATION_TOKEN, 3, {"max_lifetime": -1, "renewers": []})
        answer = await ask(
            controller,
            ApiKey.ENVELOPE,
            0,
            request_data=encode_request(ApiKey.CREATE_DELEGATION_TOKEN, 3, 5, "c", message)[LENGTH_BYTES:],
            request_principal=encode_principal(ROOT, is_by_token=is_by_token),
            client_host_address=encode_address("192.0.2.1"),
        )
        assert answer.error_code == 0
        assert int.from_bytes(answer.response_data[5:7], "big") == code


@with_tokens()
async def test_no_secret_is_logged(node, caplog):
    caplog.set_level(0)
    token = await create(await client_of(node, "alice"))
    assert await gets_in(node, token)
    password = base64.b64encode(token.hmac).decode()
    assert not [text for text in ("'secret'", password, token.hmac.hex(), repr(token.hmac)) if text in caplog.text]
