"""Log-ins that count for a limited time: renewed on their connection, or cut."""

import asyncio
import gc
import logging
import struct
import weakref

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.authentication.raw_client import (
    LOGIN,
    SCRAM_256,
    WRONG,
    add_user,
    ask_metadata,
    ask_versions,
    authenticate,
    ends_without_answer,
    handshake,
    is_closed,
    log_in,
    log_in_by_scram,
    token,
    with_sasl,
)
from tests.unit.broker.conversation import create_topic, fetch_later, produce
from tests.unit.broker.simulated_node import RefusedError, records, simulated

LIMITED = with_sasl(lifetime_ms=3000)


def unreadable(size: int) -> bytes:
    """A SaslAuthenticate request whose body says that more follows than does."""
    header = struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 1, 7, -1)
    return token(header + struct.pack(">i", 1_000_000) + b"x" * size)


async def known(node, **options):
    client = await node.client()
    assert (await log_in(client, **options)).error_code == 0
    return client


@simulated(**with_sasl())
async def test_log_in_without_a_limit_is_not_renewed_and_the_connection_goes_on(node):
    client = await known(node)
    assert (await handshake(client)).error_code == ErrorCode.illegal_sasl_state
    answer = await authenticate(client)
    assert answer.error_code == ErrorCode.illegal_sasl_state
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert (await ask_versions(client)).api_keys
    assert (await ask_versions(client)).api_keys
    await asyncio.sleep(100)
    assert (await ask_metadata(client)).brokers


@pytest.mark.parametrize("version", [1, 2])
@simulated(**LIMITED)
async def test_lifetime_is_told(node, version):
    client = await node.client()
    await handshake(client)
    answer = await authenticate(client, LOGIN, version)
    assert answer.session_lifetime.total_seconds() == 3


@simulated(**LIMITED)
async def test_log_in_that_is_renewed_goes_on(node):
    client = await known(node)
    for _ in range(5):
        await asyncio.sleep(2)
        assert (await log_in(client)).session_lifetime.total_seconds() == 3
        assert (await ask_metadata(client)).brokers


@simulated(**LIMITED)
async def test_log_in_by_scram_is_renewed(node):
    await add_user(node, "alice", "alice-secret")
    client = await node.client()
    for _ in range(3):
        assert (await log_in_by_scram(client, SCRAM_256, "alice", "alice-secret")).error_code == 0
        await asyncio.sleep(2)
        assert (await ask_metadata(client)).brokers


@simulated(**with_sasl(lifetime_ms=3000, plain_users=None))
async def test_log_in_with_a_hashed_password_is_renewed(node):
    await add_user(node, "alice", "alice-secret")
    client = await known(node)
    for _ in range(3):
        await asyncio.sleep(2)
        assert (await log_in(client)).error_code == 0
    await handshake(client)
    assert (await authenticate(client, WRONG)).error_code == ErrorCode.sasl_authentication_failed
    assert await is_closed(client)


@simulated(**LIMITED)
async def test_log_in_may_be_renewed_after_its_time_if_nothing_else_was_asked(node):
    client = await known(node)
    await asyncio.sleep(10)
    assert not client.closed, "an idle connection stays, as in Kafka"
    assert (await log_in(client)).error_code == 0
    assert (await ask_metadata(client)).brokers


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated(**LIMITED)
async def test_request_after_the_time_ends_the_connection_of_every_client(node, version):
    client = await node.client()
    await handshake(client)
    await authenticate(client, LOGIN, version)
    await asyncio.sleep(2.9)
    assert (await ask_metadata(client)).brokers
    await asyncio.sleep(0.2)
    assert await ends_without_answer(ask_metadata(client))


@simulated(**LIMITED)
async def test_request_in_the_middle_of_a_renewal_after_the_time_ends_the_connection(node):
    client = await known(node)
    await asyncio.sleep(4)
    assert (await handshake(client)).error_code == 0
    assert await ends_without_answer(ask_metadata(client))


@simulated(**LIMITED)
async def test_fetch_that_waits_when_the_time_is_over_ends_with_the_connection(node):
    client = await known(node)
    await create_topic(client)
    begun_s = node.loop.time()
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=60_000)
    with pytest.raises(RefusedError):
        await waiting
    assert 2.5 < node.loop.time() - begun_s < 5


@simulated(**LIMITED)
async def test_fetch_that_waits_shortly_is_answered_and_the_log_in_renewed(node):
    client = await known(node)
    await create_topic(client)
    await asyncio.sleep(2.7)
    await fetch_later(client, [("t", 0, 0)], max_wait_ms=500)
    assert (await log_in(client)).error_code == 0
    assert (await ask_metadata(client)).brokers


@simulated(**LIMITED)
async def test_repeated_produce_requests_are_no_way_around_the_end(node):
    client = await known(node)
    await create_topic(client)
    for _ in range(3):
        await produce(client, "t", records(b"x"))
    await asyncio.sleep(4)
    with pytest.raises(RefusedError):
        await produce(client, "t", records(b"x"))


@simulated(**LIMITED)
async def test_log_in_is_not_renewed_as_another_user(node, caplog):
    client = await known(node)
    await handshake(client)
    begun_s = node.loop.time()
    answer = await authenticate(client, b"\0bob\0bob-secret")
    assert 0.1 <= node.loop.time() - begun_s < 0.2
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert await is_closed(client)
    assert "refused a re-authentication of User:alice" in caplog.text


@simulated(**with_sasl(lifetime_ms=3000, failure_delay_ms=0))
async def test_name_with_a_line_break_forges_no_line_of_the_log(node, caplog):
    caplog.set_level(logging.INFO)
    name = "alice\nINFO all is well"
    await add_user(node, name, "alice-secret")
    for is_late in (True, False):
        client = await node.client()
        assert (await log_in_by_scram(client, SCRAM_256, name, "alice-secret")).error_code == 0
        if is_late:
            await asyncio.sleep(4)
            assert await ends_without_answer(ask_metadata(client))
        else:
            assert (await log_in_by_scram(client, SCRAM_256, name, "wrong")).error_code
    told = [line for line in caplog.messages if "all is well" in line]
    assert len(told) == 2
    assert all(line.isprintable() for line in told)


@simulated(**with_sasl(lifetime_ms=3000, timeout_ms=5000))
async def test_client_that_takes_nothing_of_the_answer_to_its_failed_renewal_is_ended_in_time(node):
    client = await known(node)
    await handshake(client)
    client.connection.pause_reading()
    answer = asyncio.ensure_future(ends_without_answer(authenticate(client, WRONG)))
    await asyncio.sleep(4)
    assert len(node.server._sessions) == 1, "its answer waits for it"
    await asyncio.sleep(2)
    assert not node.server._sessions
    assert await answer


@simulated(**LIMITED)
async def test_log_in_is_not_renewed_by_another_mechanism(node):
    client = await known(node)
    assert await ends_without_answer(handshake(client, "SCRAM-SHA-256"))


@simulated(**LIMITED)
async def test_long_messages_of_a_renewal_are_refused_like_short_ones(node):
    client = await known(node)
    await handshake(client)
    answer = await authenticate(client, b"\0alice\0" + b"x" * 5000)
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert await is_closed(client)
    client = await known(node)
    assert await ends_without_answer(handshake(client, "x" * 5000))
    assert (await ask_metadata(await known(node))).brokers


@pytest.mark.parametrize("size", [0, 5000])
def test_renewal_that_cannot_be_read_is_answered_as_a_failure_within_a_second(size):
    @simulated(**LIMITED)
    async def test(node):
        client = await known(node)
        await handshake(client)
        answer = await asyncio.wait_for(client.send_frame(unreadable(size), 7), 1)
        assert struct.unpack_from(">ih", answer) == (7, ErrorCode.sasl_authentication_failed)
        assert await is_closed(client)

    test()


@simulated(**LIMITED)
async def test_long_renewal_that_cannot_be_read_keeps_no_room_while_its_refusal_is_delayed(node):
    client = await known(node)
    await handshake(client)
    answer = client.send_frame(unreadable(5000), 7)
    await asyncio.sleep(0.05)
    assert not answer.done()
    assert not node.node.broker.dispatcher.long_requests.worked_at_bytes
    await answer


@pytest.mark.parametrize("size", [0, 5000])
def test_bytes_that_cannot_be_read_end_the_connection_of_a_client_that_renews_nothing(size):
    @simulated(**LIMITED)
    async def test(node):
        client = await known(node)
        assert await ends_without_answer(client.send_frame(unreadable(size), 7))

    test()


@simulated(**LIMITED)
async def test_second_handshake_of_a_renewal_is_refused(node):
    client = await known(node)
    await handshake(client)
    assert (await handshake(client)).error_code == ErrorCode.illegal_sasl_state
    assert await is_closed(client)


@simulated(**with_sasl(lifetime_ms=3000, plain_users=None))
async def test_message_before_the_one_before_it_was_answered_ends_the_connection_and_renews_nothing(node, caplog):
    caplog.set_level(logging.INFO)
    await add_user(node, "alice", "alice-secret")
    client = await known(node)
    await handshake(client)
    first, second = asyncio.ensure_future(authenticate(client)), asyncio.ensure_future(authenticate(client))
    assert await ends_without_answer(second)
    assert await ends_without_answer(first)
    assert "a SaslAuthenticate request before the one before it was answered" in caplog.text
    assert node.server._logins.counts["PLAINTEXT", "PLAIN", True] == 1


@simulated(**with_sasl(lifetime_ms=3000, plain_users=None))
async def test_client_that_goes_away_while_the_password_of_its_renewal_is_checked_harms_nothing(node):
    await add_user(node, "alice", "alice-secret")
    for data in (LOGIN, WRONG):
        for delay_s in (0, 0.0002, 0.0005, 0.001, 0.15):
            client = await known(node)
            await handshake(client)
            asyncio.ensure_future(authenticate(client, data)).cancel()
            await asyncio.sleep(delay_s)
            client.close()
    await asyncio.sleep(10)
    assert not node.server._sessions
    assert (await ask_metadata(await known(node))).brokers


@simulated(**with_sasl(lifetime_ms=3000, plain_users=None))
async def test_renewal_that_is_checked_when_the_time_ends_counts(node):
    await add_user(node, "alice", "alice-secret", iterations=16_384)
    client = await known(node)
    await handshake(client)
    (session,) = node.server._sessions
    renewed = asyncio.ensure_future(authenticate(client))
    session.client.sasl._expire()
    assert (await renewed).error_code == 0
    await asyncio.sleep(2)
    assert (await ask_metadata(client)).brokers


@simulated(**LIMITED)
async def test_nothing_is_kept_of_a_client_that_has_gone(node):
    client = await known(node)
    (session,) = node.server._sessions
    log_in_kept, its_client = weakref.ref(session.client.sasl), session.client
    del session
    gc.collect()
    gc.disable()
    try:
        client.close()
        await asyncio.sleep(10)
        assert its_client.sasl is None
        assert log_in_kept() is None, "it is freed without a collection"
    finally:
        gc.enable()
    assert not node.server._sessions
