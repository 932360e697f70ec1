"""Log-ins by access tokens at a simulated node, with keys from a file and from a provider that comes and goes."""

import asyncio
import logging
from dataclasses import replace
from types import MappingProxyType

import pytest

from esp.authentication.oauthbearer import INVALID_TOKEN
from esp.broker.authentication.provider_keys import KEY_WAIT_S
from esp.model.acl import AclOperation
from esp.model.errors import ErrorCode, OperatorError
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.model.web_place import WebPlace
from esp.protocol.registry import ApiKey
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from tests.models.access_tokens import TERMS, Provider, first_message
from tests.unit.broker.authentication.played_web import PlayedWeb, answer, place
from tests.unit.broker.authentication.raw_client import (
    ask_metadata,
    authenticate,
    ends_without_answer,
    handshake,
    is_closed,
    with_sasl,
)
from tests.unit.broker.conversation import create_topic, fetch_later, produce
from tests.unit.broker.guarded_node import allow, ask, client_of_controller, deny, withdraw
from tests.unit.broker.simulated_node import RefusedError, model, records, simulated

PATH = "/keys.json"
MECHANISM = SaslMechanism.OAUTHBEARER
PROVIDER = Provider()
NEXT = Provider(kid="key-2", serial=1)


def settings(keys: WebPlace | None = None, *, max_reauth_ms: int = 0, **terms):
    oauth = replace(TERMS, keys=keys or WebPlace(f"file://{PATH}", path=PATH), **terms)
    policy = SaslPolicy("PLAINTEXT", (MECHANISM,), {}, {MECHANISM: max_reauth_ms}, oauth=oauth)
    return {"sasl": MappingProxyType({"PLAINTEXT": policy})}


def token_of(node, provider: Provider = PROVIDER, **changes) -> str:
    return provider.token(node.env.clock.wall_ms(), **changes)


async def start(node, *providers: Provider) -> None:
    """Start a node whose file has the keys of some providers."""
    first, *others = providers or (PROVIDER,)
    node.disk.write_file(PATH, first.key_set(*others))
    await node.start()


async def log_in(client, message: bytes):
    """Log in, and return the last answer."""
    assert (await handshake(client, "OAUTHBEARER")).error_code == 0
    return await authenticate(client, message)


async def known(node, provider: Provider = PROVIDER, **changes):
    client = await node.client()
    told = await log_in(client, first_message(token_of(node, provider, **changes)))
    assert (told.error_code, told.auth_bytes) == (0, b""), told
    return client


async def is_refused(node, token: str) -> bool:
    """Whether a token is answered with the status, and the answer to that with the failure."""
    client = await node.client()
    told = await log_in(client, first_message(token))
    if told.auth_bytes != INVALID_TOKEN.encode():
        assert (told.error_code, told.auth_bytes) == (0, b"")
        return False
    assert told.error_code == 0
    failed = await authenticate(client, b"\x01")
    assert (failed.error_code, failed.error_message) == (ErrorCode.sasl_authentication_failed, INVALID_TOKEN)
    assert await is_closed(client)
    return True


def principals(node):
    return [(each.client.principal, each.client.groups) for each in node.server._sessions]


# Tokens


@simulated(start=False, **settings())
async def test_token_gives_its_user_and_groups_for_the_rest_of_its_life(node):
    await start(node)
    client = await node.client()
    told = await log_in(
        client, first_message(token_of(node, groups=["staff"]), authorization="alice", extensions="a=b\x01")
    )
    assert told.error_code == 0
    assert 298 < told.session_lifetime.total_seconds() <= 300
    assert principals(node) == [("User:alice", ("Group:staff",))]
    assert (await ask_metadata(client)).brokers


@simulated(start=False, **settings())
async def test_refused_token_is_told_as_kafka_does_and_its_reason_logged(node, caplog):
    await start(node)
    with caplog.at_level(logging.WARNING):
        assert await is_refused(node, token_of(node, aud="other-service"))
    told = [each.getMessage() for each in caplog.records if "refused a log-in" in each.getMessage()]
    assert len(told) == 1
    assert "by OAUTHBEARER: its audience is 'other-service', and not kafka or other" in told[0]
    assert "eyJ" not in caplog.text


async def takes_it_for_success(client):
    assert await ends_without_answer(ask_metadata(client))


async def closes(client):
    client.close()


async def says_nothing(client):
    assert await is_closed(client, within_s=11)


@pytest.mark.parametrize("goes_on", [takes_it_for_success, closes, says_nothing])
@simulated(start=False, **settings())
async def test_refused_token_is_logged_and_counted_also_if_its_client_does_not_ask_for_the_last_answer(
    node, caplog, goes_on
):
    """aiokafka asks for metadata after the challenge, and franz-go closes the connection."""
    await start(node)
    client = await node.client()
    with caplog.at_level(logging.WARNING):
        told = await log_in(client, first_message(token_of(node, aud="other-service")))
        assert told.auth_bytes == INVALID_TOKEN.encode()
        await goes_on(client)
        await asyncio.sleep(1)
    lines = [each.getMessage() for each in caplog.records if "listener PLAINTEXT" in each.getMessage()]
    assert len(lines) == 1, lines
    assert lines[0].startswith("refused a log-in of ")
    assert lines[0].endswith("by OAUTHBEARER: its audience is 'other-service', and not kafka or other")
    assert node.server._logins.counts == {("PLAINTEXT", "OAUTHBEARER", False): 1}


@pytest.mark.parametrize("message", [b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01", b"x" * 200_000])
@simulated(start=False, **settings())
async def test_malformed_message_is_a_failure_within_a_second(node, message):
    await start(node)
    client = await node.client()
    begun = node.loop.time()
    told = await log_in(client, message)
    assert told.error_code == ErrorCode.sasl_authentication_failed
    assert told.error_message.endswith("due to invalid credentials with SASL mechanism OAUTHBEARER")
    assert node.loop.time() - begun < 1
    assert await is_closed(client)


@simulated(start=False, **settings())
async def test_another_authorization_id_is_refused(node):
    await start(node)
    client = await node.client()
    told = await log_in(client, first_message(token_of(node), authorization="root"))
    assert told.error_code == ErrorCode.sasl_authentication_failed
    assert "(root) that is different from the token's principal name (alice)" in told.error_message


# Times


@simulated(start=False, **settings())
async def test_log_in_ends_with_its_token(node):
    await start(node)
    client = await known(node, exp=node.env.clock.wall_ms() // 1000 + 10)
    await asyncio.sleep(8)
    assert (await ask_metadata(client)).brokers
    await asyncio.sleep(3)
    with pytest.raises(RefusedError):
        await ask_metadata(client)


@simulated(start=False, **settings(max_reauth_ms=3000))
async def test_token_of_ten_years_gives_no_ten_years(node):
    await start(node)
    client = await node.client()
    token = token_of(node, exp=node.env.clock.wall_ms() // 1000 + 315_360_000)
    told = await log_in(client, first_message(token))
    assert told.session_lifetime.total_seconds() == 3
    await asyncio.sleep(3.5)
    with pytest.raises(RefusedError):
        await ask_metadata(client)


@simulated(start=False, **settings(max_reauth_ms=3000))
async def test_fetch_that_waits_ends_with_the_token(node):
    await start(node)
    client = await known(node)
    await create_topic(client)
    begun_s = node.loop.time()
    with pytest.raises(RefusedError):
        await fetch_later(client, [("t", 0, 0)], max_wait_ms=60_000)
    assert 2.5 < node.loop.time() - begun_s < 5


@simulated(start=False, **settings())
async def test_log_in_is_renewed_by_the_next_token(node):
    await start(node)
    client = await known(node, exp=node.env.clock.wall_ms() // 1000 + 10)
    for _ in range(3):
        await asyncio.sleep(9)
        token = token_of(node, exp=node.env.clock.wall_ms() // 1000 + 10)
        assert (await log_in(client, first_message(token))).error_code == 0
        assert (await ask_metadata(client)).brokers
    told = await log_in(client, first_message(token_of(node, sub="bob")))
    assert told.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"


@simulated(start=False, **settings())
async def test_refused_renewal_ends_the_connection(node):
    await start(node)
    client = await known(node)
    assert (await log_in(client, first_message(token_of(node, aud="x")))).auth_bytes == INVALID_TOKEN.encode()
    assert (await authenticate(client, b"\x01")).error_code == ErrorCode.sasl_authentication_failed
    assert await is_closed(client)


# Groups


GUARDED = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": ("User:root",)}


async def administrator(node):
    """A client at the controller's listener, which has no SASL, as the super user."""
    return await client_of_controller(node, "User:root")


def write(client):
    return produce(client, "t", records(b"v"))


@simulated(start=False, **GUARDED, **settings())
async def test_rules_of_a_group_count_for_its_members(node):
    await start(node)
    root, admin = await known(node, sub="root"), await administrator(node)
    await create_topic(root)
    member, other = await known(node, groups=["writers"]), await known(node, sub="bob")
    assert (await write(member)).error_code == ErrorCode.topic_authorization_failed
    await allow(admin, "Group:writers", AclOperation.WRITE)
    assert (await write(member)).error_code == 0
    assert (await write(other)).error_code == ErrorCode.topic_authorization_failed
    await deny(admin, "Group:writers", AclOperation.WRITE)
    assert (await write(member)).error_code == ErrorCode.topic_authorization_failed
    await withdraw(admin, "Group:writers")
    assert (await write(member)).error_code == ErrorCode.topic_authorization_failed


@simulated(start=False, **GUARDED, **settings())
async def test_renewal_without_the_group_takes_its_rights_also_by_the_short_way(node):
    await start(node)
    root, admin = await known(node, sub="root"), await administrator(node)
    await create_topic(root)
    await allow(admin, "Group:writers", AclOperation.WRITE)
    client = await known(node, groups=["writers"])
    for _ in range(3):
        assert (await write(client)).error_code == 0
    assert (await log_in(client, first_message(token_of(node, groups=[])))).error_code == 0
    assert (await write(client)).error_code == ErrorCode.topic_authorization_failed
    assert (await log_in(client, first_message(token_of(node, groups=["writers"])))).error_code == 0
    assert (await write(client)).error_code == 0


@simulated(start=False, **GUARDED, **settings())
async def test_waiting_fetch_is_answered_by_the_groups_of_the_renewal(node):
    await start(node)
    root, admin = await known(node, sub="root"), await administrator(node)
    await create_topic(root)
    await allow(admin, "Group:readers", AclOperation.READ)
    client = await known(node, groups=["readers"])
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=60_000)
    renewal = model(ApiKey.SASL_AUTHENTICATE, 2).Request(auth_bytes=first_message(token_of(node)))
    chosen = model(ApiKey.SASL_HANDSHAKE, 1).Request(mechanism="OAUTHBEARER")
    handshaking = client.send(ApiKey.SASL_HANDSHAKE, 1, chosen)
    renewing = client.send(ApiKey.SASL_AUTHENTICATE, 2, renewal)  # their answers leave after that of the fetch
    await asyncio.sleep(0.5)
    assert not waiting.done()
    assert (await write(root)).error_code == 0
    told = await waiting
    (topic,) = told.responses
    assert topic.partitions[0].error_code == ErrorCode.topic_authorization_failed
    assert not topic.partitions[0].records
    assert ((await handshaking).error_code, (await renewing).error_code) == (0, 0)


@simulated(start=False, **GUARDED | {"super_users": ("User:root", "Group:admins")}, **settings())
async def test_group_of_super_users_changes_what_the_controller_decides(node):
    await start(node)
    admin, other = await known(node, groups=["admins"]), await known(node, sub="bob", groups=["admin"])
    assert (await create_topic(admin)) is not None
    answered = await ask(
        other,
        ApiKey.CREATE_TOPICS,
        7,
        topics=[{"name": "u", "num_partitions": 1, "replication_factor": 1}],
        timeout=1000,
    )
    assert answered.topics[0].error_code == ErrorCode.topic_authorization_failed


@simulated(start=False, **GUARDED, **settings())
async def test_permission_of_a_group_on_some_topic_is_enough_where_any_is_asked_for(node):
    await start(node)
    admin = await administrator(node)
    await allow(admin, "Group:writers", AclOperation.WRITE)
    for groups, code in ((["writers"], 0), (["other"], ErrorCode.cluster_authorization_failed)):
        client = await known(node, groups=groups)
        answered = await ask(client, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=1000)
        assert answered.error_code == code


# Keys


@simulated(start=False, **settings())
async def test_node_without_the_file_of_keys_does_not_start(node):
    with pytest.raises(OperatorError, match=r"jwks\.endpoint\.url=file:///keys\.json"):
        await node.start()


@simulated(start=False, **settings())
async def test_node_with_a_file_without_keys_does_not_start(node):
    node.disk.write_file(PATH, b'{"keys": []}')
    with pytest.raises(OperatorError, match="none of its 0 keys can sign"):
        await node.start()


@simulated(start=False, **settings(refresh_ms=60_000))
async def test_file_is_read_again_for_an_unknown_key_and_after_a_while(node):
    await start(node)
    assert await is_refused(node, token_of(node, NEXT))
    node.disk.write_file(PATH, PROVIDER.key_set(NEXT))
    await asyncio.sleep(1)
    assert not await is_refused(node, token_of(node, NEXT))
    node.disk.write_file(PATH, NEXT.key_set())
    assert not await is_refused(node, token_of(node))
    await asyncio.sleep(62)
    assert await is_refused(node, token_of(node))


class Endpoint:
    """The list of keys of a provider that may be away, or slow."""

    def __init__(self, node, *providers: Provider) -> None:
        self.node, self.providers = node, providers
        self.is_away = self.is_slow = False
        self.web = PlayedWeb(node.network, self._reply)

    def _reply(self, _request: bytes) -> bytes | None:
        if self.is_slow:
            return None
        first, *others = self.providers
        return answer(b"", "503 Away") if self.is_away else answer(first.key_set(*others))

    @property
    def asked(self) -> int:
        return len(self.web.requests)


async def with_endpoint(node, *providers: Provider) -> Endpoint:
    endpoint = Endpoint(node, *(providers or (PROVIDER,)))
    await endpoint.web.listen()
    await node.start()
    return endpoint


@simulated(start=False, **settings(place(), refresh_ms=60_000))
async def test_keys_of_an_endpoint_are_fetched_at_the_start_and_again(node):
    endpoint = await with_endpoint(node)
    await known(node)
    assert endpoint.asked == 1
    await asyncio.sleep(130)
    assert endpoint.asked == 3
    await node.stop()


@simulated(start=False, **settings(place()))
async def test_first_log_in_waits_for_the_keys(node):
    endpoint = Endpoint(node, PROVIDER)
    await endpoint.web.listen()
    await node.start()
    assert not await is_refused(node, token_of(node))


@simulated(start=False, **settings(place()))
async def test_node_starts_while_its_provider_is_away_and_believes_nobody_meanwhile(node, caplog):
    with caplog.at_level(logging.ERROR):
        await node.start()
        assert await is_refused(node, token_of(node))
        await asyncio.sleep(30)
    told = [each.getMessage() for each in caplog.records if "cannot be fetched" in each.getMessage()]
    assert len(told) == 1
    assert "no token is believed before" in told[0]
    endpoint = Endpoint(node, PROVIDER)
    await endpoint.web.listen()
    await asyncio.sleep(10)
    assert not await is_refused(node, token_of(node))


@simulated(start=False, **settings(place(), refresh_ms=60_000))
async def test_keys_count_while_the_provider_is_away(node, caplog):
    endpoint = await with_endpoint(node)
    await known(node)
    endpoint.is_away = True
    with caplog.at_level(logging.INFO):
        await asyncio.sleep(120)
        await known(node)
        assert "those that were fetched before stay in force" in caplog.text
        asked = endpoint.asked
        await asyncio.sleep(100)
        assert 9 <= endpoint.asked - asked <= 11  # once in ten seconds
        endpoint.is_away, endpoint.providers = False, (NEXT,)
        await asyncio.sleep(11)
        assert "have come" in caplog.text
    await known(node, NEXT)
    assert await is_refused(node, token_of(node))


@simulated(start=False, **settings(place()))
async def test_key_that_is_new_is_fetched_for_the_log_in_that_needs_it(node):
    endpoint = await with_endpoint(node)
    await known(node)
    await asyncio.sleep(1)
    endpoint.providers = (PROVIDER, NEXT)
    await known(node, NEXT)
    await known(node)
    assert endpoint.asked == 2


@simulated(start=False, **settings(place()))
async def test_renewal_waits_for_a_new_key_too(node):
    endpoint = await with_endpoint(node)
    client = await known(node)
    await asyncio.sleep(1)
    endpoint.providers = (NEXT,)
    told = await log_in(client, first_message(token_of(node, NEXT)))
    assert (told.error_code, told.auth_bytes) == (0, b"")
    assert (await ask_metadata(client)).brokers


@simulated(start=False, **settings(place()))
async def test_made_up_keys_cost_the_provider_one_request_per_delay(node):
    endpoint = await with_endpoint(node)
    await known(node)
    begun = node.loop.time()
    for number in range(300):
        assert await is_refused(node, token_of(node, Provider(kid=f"made-up-{number}", serial=1)))
        await asyncio.sleep(0.2)
    assert endpoint.asked <= 1 + 8 + (node.loop.time() - begun) // 10
    await known(node)


@simulated(start=False, **settings(place()))
async def test_provider_that_does_not_answer_holds_up_no_log_in_with_a_known_key(node):
    endpoint = await with_endpoint(node)
    await known(node)
    await asyncio.sleep(1)
    endpoint.is_slow = True
    begun = node.loop.time()
    refused = [asyncio.ensure_future(is_refused(node, token_of(node, NEXT))) for _ in range(20)]
    await asyncio.sleep(0.1)
    await known(node)
    assert node.loop.time() - begun < 1
    assert all(await asyncio.gather(*refused))
    assert KEY_WAIT_S <= node.loop.time() - begun < KEY_WAIT_S + 12
    assert 2 <= endpoint.asked <= 3  # the second has failed, and another one is made


@simulated(start=False, **settings(place()))
async def test_node_stops_while_keys_are_fetched(node):
    endpoint = await with_endpoint(node)
    await asyncio.sleep(1)
    endpoint.is_slow = True
    client = await node.client()
    waiting = asyncio.ensure_future(log_in(client, first_message(token_of(node, NEXT))))
    await asyncio.sleep(1)
    await node.stop()
    with pytest.raises(RefusedError):
        await waiting


@simulated(**with_sasl())
async def test_listener_without_it_offers_it_not(node):
    client = await node.client()
    told = await handshake(client, "OAUTHBEARER")
    assert told.error_code == ErrorCode.unsupported_sasl_mechanism
    assert "OAUTHBEARER" not in told.mechanisms
