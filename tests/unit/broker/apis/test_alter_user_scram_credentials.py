"""SCRAM credentials are changed and described by clients of brokers and of controllers alike."""

import asyncio
import logging

import pytest

from esp.broker.apis.alter_user_scram_credentials import ALTERATIONS_MAX
from esp.model.errors import ErrorCode
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential, salted_password
from esp.protocol.registry import ApiKey
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.simulated_node import simulated

SHA_256, SHA_512 = ScramMechanism


async def client_of(node, where):
    return await (node.client() if where == "broker" else node.client(node.node.controller.listening[0]))


def added(user, mechanism=SHA_256, password="secret", iterations=4096):
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": salted_password(mechanism, password, b"salt", iterations),
    }


async def alter(client, *upsertions, removed=()):
    deletions = [{"name": user, "mechanism": mechanism} for user, mechanism in removed]
    answer = await ask(client, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=list(upsertions))
    return {it.user: it.error_code for it in answer.results}


async def describe(client, *names):
    users = [{"name": name} for name in names] if names else None
    answer = await ask(client, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)
    assert answer.error_code is ErrorCode.none
    return {
        it.user: it.error_code or [(info.mechanism, info.iterations) for info in it.credential_infos]
        for it in answer.results
    }


@pytest.mark.parametrize("where", ["broker", "controller"])
@simulated()
async def test_users_are_there_when_it_is_answered_and_gone_when_that_is(node, where):
    client = await client_of(node, where)
    assert await describe(client) == {}
    assert await alter(client, added("alice"), added("bob", SHA_512, iterations=8192)) == {"alice": 0, "bob": 0}
    assert node.metadata.image.scram_credentials["alice", SHA_256] == make_credential(SHA_256, "secret", b"salt", 4096)
    assert await alter(client, added("alice", SHA_512)) == {"alice": 0}
    assert await describe(client) == {"alice": [(1, 4096), (2, 4096)], "bob": [(2, 8192)]}
    assert await describe(client, "bob", "nobody", "alice", "alice") == {
        "bob": [(2, 8192)],
        "nobody": ErrorCode.resource_not_found,
        "alice": ErrorCode.duplicate_resource,
    }
    assert await alter(client, removed=[("alice", 1), ("bob", 1)]) == {"alice": 0, "bob": ErrorCode.resource_not_found}
    assert await describe(client) == {"alice": [(2, 4096)], "bob": [(2, 8192)]}
    assert await alter(client) == {}


@simulated()
async def test_users_outlive_a_loss_of_power(node):
    client = await client_of(node, "broker")
    await alter(client, added("alice"), added("bob"))
    await alter(client, removed=[("bob", 1)])
    await node.restart(power=True)
    client = await client_of(node, "broker")
    assert await describe(client) == {"alice": [(1, 4096)]}
    assert node.metadata.image.scram_credentials == {
        ("alice", SHA_256): make_credential(SHA_256, "secret", b"salt", 4096)
    }


@pytest.mark.parametrize("where", ["broker", "controller"])
@simulated()
async def test_a_request_for_very_many_changes_nothing(node, where):
    client = await client_of(node, where)
    change = {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
    many = [{**change, "name": f"u{number}"} for number in range(ALTERATIONS_MAX)]
    outcomes = await alter(client, *many, removed=[("x", 1)])
    assert set(outcomes.values()) == {ErrorCode.invalid_request}
    assert len(outcomes) == ALTERATIONS_MAX + 1
    assert not node.metadata.image.scram_credentials
    assert set((await alter(client, *many)).values()) == {ErrorCode.none}
    assert len(node.metadata.image.scram_credentials) == ALTERATIONS_MAX


@simulated()
async def test_nothing_secret_is_logged(node):
    records = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = records.append
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        client = await client_of(node, "broker")
        await alter(client, added("alice", password="a password"))
        await asyncio.sleep(1)
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
    told = "".join(record.getMessage() for record in records)
    salted = salted_password(SHA_256, "a password", b"salt", 4096)
    credential = make_credential(SHA_256, "a password", b"salt", 4096)
    for secret in (salted, credential.stored_key, credential.server_key):
        assert repr(secret) not in told
        assert secret.hex() not in told
