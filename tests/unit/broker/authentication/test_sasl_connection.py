"""Kafka 4.3.1's answers and ends (docs/SECURITY.md), message by message, and what no message of a stranger may do."""

import asyncio
import base64
import logging
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.authentication.scram import ScramClient
from esp.broker.turns.long_requests import WORKED_AT_BYTES
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.authentication.raw_client import (
    LOGIN,
    SCRAM_256,
    SCRAM_512,
    WRONG,
    TokenClient,
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
from tests.unit.broker.simulated_node import model, simulated


@simulated(**with_sasl())
async def test_client_that_has_logged_in_is_served_as_its_user(node):
    client = await node.client()
    assert (await ask_versions(client)).error_code == 0
    answer = await log_in(client)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert (await ask_metadata(client)).brokers
    (session,) = node.server._sessions
    assert session.client.principal == "User:alice"


@simulated(**with_sasl())
async def test_requests_that_come_along_with_the_log_in_are_answered(node):
    client = await node.client()
    answers = [asyncio.ensure_future(each) for each in (handshake(client), authenticate(client), ask_metadata(client))]
    for answer in await asyncio.gather(*answers[:2]):
        assert answer.error_code == 0
    assert (await answers[2]).brokers


@simulated(**with_sasl())
async def test_versions_are_told_once(node):
    client = await node.client()
    assert (await ask_versions(client)).api_keys
    assert await ends_without_answer(ask_versions(client))


@simulated(**with_sasl())
async def test_versions_that_are_not_served_may_be_asked_for_first(node):
    client = await node.client()
    body = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\0\0"
    answer = await client.send_frame(token(body), 7)
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.unsupported_version)
    assert (await ask_versions(client)).error_code == 0
    assert (await log_in(client)).error_code == 0


@simulated(**with_sasl())
async def test_long_request_for_versions_is_answered_and_what_came_behind_it_too(node):
    client = await node.client()
    message = model(ApiKey.API_VERSIONS, 4).Request(client_software_name="a" * 5000, client_software_version="1")
    versions = asyncio.ensure_future(client.call(ApiKey.API_VERSIONS, 4, message))
    known = asyncio.ensure_future(log_in(client))
    assert (await versions).api_keys
    assert (await known).error_code == 0
    assert (await ask_metadata(client)).brokers


@simulated(**with_sasl())
async def test_long_request_for_versions_that_cannot_be_read_ends_the_connection_at_once(node, caplog):
    client = await node.client()
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 4, 7, -1) + b"\0"
    answer = client.send_frame(token(header + b"\xff\xff\xff\xff\x0f" + bytes(5000)), 7)
    assert await asyncio.wait_for(ends_without_answer(answer), 1)
    (line,) = (record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert "closing the connection of 127.0.0.1" in line


@pytest.mark.parametrize("version", [-1, 99])
@simulated(**with_sasl())
async def test_versions_that_are_not_served_are_refused_in_the_middle_of_a_log_in(node, version):
    client = await node.client()
    await handshake(client)
    answer = await client.send_frame(token(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1) + b"\0\0"), 7)
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.illegal_sasl_state)
    assert await is_closed(client)


@pytest.mark.parametrize("is_begun", [False, True])
@simulated(**with_sasl())
async def test_other_requests_end_the_connection_and_the_log_says_what_the_client_needs(node, is_begun, caplog):
    client = await node.client()
    if is_begun:
        await handshake(client)
    assert await ends_without_answer(ask_metadata(client))
    assert "127.0.0.1" in caplog.text
    assert "a client needs security.protocol=SASL_SSL or SASL_PLAINTEXT" in caplog.text


@simulated(**with_sasl())
async def test_message_without_a_handshake_ends_the_connection(node):
    assert await ends_without_answer(authenticate(await node.client()))


@pytest.mark.parametrize("length", [-1, 0, 3, 7, 1001, 524_289, 2**31 - 1])
@simulated(**with_sasl(receive_bytes_max=1000))
async def test_frame_outside_the_limits_ends_the_connection(node, length, caplog):
    client = await node.client()
    client.connection.write([struct.pack(">i", length)])
    assert await is_closed(client)
    assert f"a frame of {length} bytes is outside 8..1000" in caplog.text


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
@simulated(**with_sasl(receive_bytes_max=1000))
async def test_token_outside_the_limits_ends_the_connection(node, length, caplog):
    client = await TokenClient.connect(node)
    await handshake(client, version=0)
    client.connection.write([struct.pack(">i", length)])
    assert await is_closed(client)
    assert f"a frame of {length} bytes is outside 0..1000" in caplog.text


@pytest.mark.parametrize(
    ("key", "version"),
    [(9999, 0), (-1, 0), (ApiKey.METADATA, 99), (ApiKey.SASL_HANDSHAKE, 2), (ApiKey.SASL_AUTHENTICATE, -1)],
)
@pytest.mark.parametrize("is_begun", [False, True])
@simulated(**with_sasl())
async def test_what_is_not_served_ends_the_connection_and_the_log_names_it(node, key, version, is_begun, caplog):
    client = await node.client()
    if is_begun:
        await handshake(client)
    header = struct.pack(">hhih", key, version, 7, -1)
    assert await ends_without_answer(client.send_frame(token(header + bytes(20)), 7))
    assert f"a request of the API {int(key)}, version {version}, before it was authenticated" in caplog.text


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.SASL_HANDSHAKE, 1, b""),
        (ApiKey.SASL_HANDSHAKE, 1, b"\x7f\xffPLAIN"),
        (ApiKey.SASL_HANDSHAKE, 1, b"\xff\xff"),
        (ApiKey.API_VERSIONS, 4, b"\0\xff\xff\xff\xff\x0f"),
    ],
)
@simulated(**with_sasl())
async def test_other_requests_of_a_stranger_that_cannot_be_read_end_the_connection(node, key, version, body):
    client = await node.client()
    header = struct.pack(">hhih", key, version, 7, -1)
    assert await ends_without_answer(client.send_frame(token(header + body), 7))
    assert (await log_in(await node.client())).error_code == 0


@simulated(**with_sasl())
async def test_log_in_that_comes_byte_by_byte_succeeds(node):
    client = await TokenClient.connect(node)
    await handshake(client, version=0)
    *others, last = (bytes([byte]) for byte in LOGIN)
    for piece in (struct.pack(">i", len(LOGIN)), *others):
        client.connection.write([piece])
        await asyncio.sleep(0.001)
    assert not client.frames
    client.connection.write([last])
    while not client.frames:  # noqa: ASYNC110 - the time of the simulator
        await asyncio.sleep(0.001)
    assert (await ask_metadata(client)).brokers


@simulated(**with_sasl())
async def test_tls_at_a_port_without_it_is_named_in_the_log(node, caplog):
    client = await node.client()
    client.connection.write([bytes.fromhex("16030102000100")])
    assert await is_closed(client)
    assert "it begins with TLS, which this listener does not speak" in caplog.text


@simulated(**with_sasl())
async def test_versions_in_the_middle_of_a_log_in_are_refused(node):
    client = await node.client()
    await handshake(client)
    assert (await ask_versions(client)).error_code == ErrorCode.illegal_sasl_state
    assert await is_closed(client)


@simulated(**with_sasl())
async def test_second_handshake_is_refused(node):
    client = await node.client()
    await handshake(client)
    answer = await handshake(client)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
    assert await is_closed(client)


@pytest.mark.parametrize("version", [0, 1])
@simulated(**with_sasl(mechanisms=(SCRAM_256, SCRAM_512)))
async def test_mechanism_that_is_not_enabled_is_refused_with_the_list(node, version):
    client = await node.client()
    answer = await handshake(client, "PLAIN", version)
    assert answer.error_code == ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert await is_closed(client)


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated(**with_sasl())
async def test_wrong_password_is_answered_after_the_delay_and_the_connection_ends(node, version, caplog):
    client = await node.client()
    await handshake(client)
    begun_s = node.loop.time()
    answer = await authenticate(client, WRONG, version)
    assert 0.1 <= node.loop.time() - begun_s < 0.2
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert await is_closed(client)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "to the listener PLAINTEXT by PLAIN: wrong password, or no such user: 'alice'" in lines[0]


@simulated(**with_sasl())
async def test_requests_behind_a_failed_log_in_are_not_handled(node):
    client = await node.client()
    await handshake(client)
    failed = asyncio.ensure_future(authenticate(client, WRONG))
    again = asyncio.ensure_future(handshake(client))
    assert (await failed).error_code == ErrorCode.sasl_authentication_failed
    assert await ends_without_answer(again)


@simulated(**with_sasl())
async def test_address_that_goes_on_failing_waits_longer(node):
    took_s = []
    for _ in range(14):
        client = await node.client()
        await handshake(client)
        begun_s = node.loop.time()
        await authenticate(client, WRONG)
        took_s.append(round(node.loop.time() - begun_s, 1))
    assert took_s[:7] == [0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.4]
    assert max(took_s) <= 10.1
    begun_s = node.loop.time()
    assert (await log_in(await node.client())).error_code == 0
    assert node.loop.time() - begun_s < 0.1, "who knows the password waits for nobody"


@simulated(**with_sasl())
async def test_request_that_cannot_be_read_is_answered_as_a_failure_within_a_second(node):
    client = await node.client()
    await handshake(client, "SCRAM-SHA-256")
    body = struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 1, 7, -1) + struct.pack(">i", 1_000_000)
    answer = await asyncio.wait_for(client.send_frame(token(body), 7), 1)
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.sasl_authentication_failed)
    assert await is_closed(client)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("delay_ms", [100, 60_000])
def test_malformed_message_is_answered_within_a_second_whatever_its_address_did_before(mechanism, delay_ms):
    @simulated(**with_sasl(failure_delay_ms=delay_ms))
    async def test(node):
        for _ in range(14):
            client = await node.client()
            await handshake(client)
            await authenticate(client, WRONG)
        client = await node.client()
        await handshake(client, mechanism)
        answer = await asyncio.wait_for(authenticate(client, b"?"), 1)
        assert answer.error_code == ErrorCode.sasl_authentication_failed
        assert await is_closed(client)

    test()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@settings(max_examples=20, deadline=None)
@given(data=st.binary(max_size=300))
def test_bytes_that_are_no_message_are_answered_within_a_second(mechanism, data):
    @simulated(**with_sasl())
    async def test(node):
        client = await node.client()
        await handshake(client, mechanism)
        answer = await asyncio.wait_for(authenticate(client, data), 1)
        assert answer.error_code == ErrorCode.sasl_authentication_failed
        assert await is_closed(client)

    test()


HEADERS = st.builds(
    lambda key, version, client_id: struct.pack(">hhih", key, version, 7, len(client_id)) + client_id,
    st.sampled_from([17, 18, 36]) | st.integers(-(2**15), 2**15 - 1),
    st.integers(-1, 5),
    st.binary(max_size=5),
)
FRAMES = st.builds(lambda header, body: token(header + body), HEADERS, st.binary(max_size=600)) | st.binary(max_size=50)


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(FRAMES, max_size=5), is_begun=st.booleans())
def test_no_bytes_of_a_stranger_harm_the_node_or_get_a_request_handled(pieces, is_begun):
    @simulated(**with_sasl(plain_users=None))
    async def test(node):
        client = await TokenClient.connect(node)
        if is_begun:
            await handshake(client, "PLAIN")
        for piece in pieces:
            client.connection.write([piece])
        await asyncio.sleep(11)
        assert client.closed, "what a stranger sends ends its connection, or its time does"
        assert not node.server._sessions
        await add_user(node, "alice", "alice-secret")
        assert (await log_in(await node.client())).error_code == 0

    test()


# Tokens without headers


@simulated(**with_sasl())
async def test_right_token_gets_an_empty_one_and_requests_follow(node):
    client = await TokenClient.connect(node)
    await handshake(client, version=0)
    assert await client.exchange(LOGIN) == b""
    assert (await ask_metadata(client)).brokers


@simulated(**with_sasl())
async def test_wrong_token_ends_the_connection_after_the_delay_without_an_answer(node):
    for data in (WRONG, b"", b"x" * 300):
        client = await TokenClient.connect(node)
        await handshake(client, version=0)
        begun_s = node.loop.time()
        assert await client.exchange(data) is None
        assert 0.1 <= node.loop.time() - begun_s < 0.2


@simulated(**with_sasl())
async def test_scram_speaks_by_tokens_too(node):
    await add_user(node, "alice", "alice-secret")
    client = await TokenClient.connect(node)
    await handshake(client, "SCRAM-SHA-256", version=0)
    mine = ScramClient(SCRAM_256.scram, "alice", "alice-secret", "nonce")
    mine.on_server_final(await client.exchange(mine.on_server_first(await client.exchange(mine.first_message()))))
    assert (await ask_metadata(client)).brokers


# Secrets


@simulated(**with_sasl(lifetime_ms=3000))
async def test_no_secret_of_a_log_in_is_logged_at_any_level(node, caplog):
    caplog.set_level(logging.DEBUG)
    await add_user(node, "alice", "alice-secret")
    assert (await log_in(await node.client())).error_code == 0
    await log_in(await node.client(), b"\0alice\0alice-hunter2")
    await log_in(await node.client(), b"alice-hunter2\0\0")
    for password in ("alice-secret", "alice-hunter2"):
        client = await node.client()
        await log_in_by_scram(client, SCRAM_256, "alice", password)
    logged = caplog.text + repr(node.settings) + repr(node.metadata.image.scram_credentials)
    credential = node.metadata.image.scram_credentials["alice", SCRAM_256.scram]
    for secret in (b"alice-secret", b"hunter2", credential.salt, credential.stored_key, credential.server_key):
        for form in (
            secret.decode(errors="replace"),
            repr(secret)[2:-1],
            secret.hex(),
            base64.b64encode(secret).decode(),
        ):
            assert form not in logged


# Time and memory


@simulated(**with_sasl(timeout_ms=10_000))
async def test_silent_clients_are_ended_in_time_and_clients_that_are_known_are_not(node, caplog):
    silent, begun, known = await node.client(), await node.client(), await node.client()
    await handshake(begun)
    await log_in(known)
    await asyncio.sleep(9)
    assert not silent.closed
    assert not begun.closed
    await asyncio.sleep(2)
    assert silent.closed
    assert begun.closed
    assert not known.closed
    assert "it was not authenticated within 10 s" in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "GSSAPI"])
@simulated(**with_sasl(timeout_ms=10_000))
async def test_failed_client_that_takes_nothing_of_its_answer_is_ended_in_time(node, mechanism, caplog):
    client = await node.client()
    if mechanism == "PLAIN":
        await handshake(client)
    client.connection.pause_reading()
    failing = authenticate(client, WRONG) if mechanism == "PLAIN" else handshake(client, mechanism)
    answer = asyncio.ensure_future(ends_without_answer(failing))
    await asyncio.sleep(8)
    assert len(node.server._sessions) == 1, "its answer waits for it"
    await asyncio.sleep(3)
    assert not node.server._sessions
    assert await answer
    assert "was not authenticated within" not in caplog.text, "the log has the reason, and no other one"


@simulated(**with_sasl(), max_connections=1)
async def test_a_connection_counts_once_before_and_after_its_client_is_known(node):
    client = await node.client()
    await log_in(client)
    other = await node.client()
    assert await is_closed(other)
    client.close()
    await asyncio.sleep(0.1)
    assert not node.server._sessions
    assert not node.server.counts.addresses
    assert (await log_in(await node.client())).error_code == 0


@simulated(**with_sasl())
async def test_nothing_is_kept_of_a_stranger_that_goes_away(node):
    for _ in range(3):
        client = await node.client()
        await handshake(client)
        asyncio.ensure_future(authenticate(client, WRONG)).cancel()
        await asyncio.sleep(0.01)
        client.close()
    await asyncio.sleep(20)
    assert not node.server._sessions
    assert not node.server.counts.addresses
    assert node.server._logins.memory.taken_bytes == 0


@simulated(**with_sasl())
async def test_stranger_that_ends_its_connection_after_a_failure_is_forgotten_before_the_delay_is_over(node):
    for _ in range(12):
        client = await node.client()
        await handshake(client)
        asyncio.ensure_future(authenticate(client, WRONG)).cancel()
        await asyncio.sleep(0.05)
        client.close()
    await asyncio.sleep(0.1)
    assert not node.server._sessions, "the last delays take seconds"


@simulated(**with_sasl(plain_users=None))
async def test_requests_that_come_while_a_password_is_checked_wait_and_are_bounded(node):
    await add_user(node, "alice", "alice-secret")
    client = await node.client()
    await handshake(client)
    known = asyncio.ensure_future(authenticate(client))
    answers = [asyncio.ensure_future(ask_metadata(client)) for _ in range(500)]
    assert (await known).error_code == 0
    assert all(answer.brokers for answer in await asyncio.gather(*answers))


@simulated(**with_sasl())
async def test_memory_of_large_frames_of_strangers_is_bounded(node):
    memory = node.server._logins.memory
    clients = [await node.client() for _ in range(200)]
    for client in clients:
        client.connection.write([struct.pack(">i", 524_288), b"x" * 1000])
    await asyncio.sleep(0.1)
    assert 63 * 1024 * 1024 < memory.taken_bytes <= 64 * 1024 * 1024, "as many as there is room for, and no more"
    assert not any(client.closed for client in clients)
    await asyncio.sleep(11)
    assert all(client.closed for client in clients)
    assert memory.taken_bytes == 0


@pytest.mark.parametrize("is_patient", [True, False])
@simulated(**with_sasl())
async def test_long_request_for_versions_keeps_its_memory_while_it_waits_to_be_read(node, is_patient):
    memory, worked_at = node.server._logins.memory, node.server._logins.dispatcher.long_requests._memory
    worked_at.take(WORKED_AT_BYTES, lambda: None)
    client = await node.client()
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 4, 7, -1) + b"\0"
    unknown_tag = b"\x01\x05\xe0\xa7\x12" + bytes(300_000)
    versions = asyncio.ensure_future(client.send_frame(token(header + b"\x02a\x021" + unknown_tag), 7))
    await asyncio.sleep(1)
    assert memory.taken_bytes > 300_000
    if is_patient:
        worked_at.give_back(WORKED_AT_BYTES)
        assert struct.unpack_from(">ih", await versions) == (7, ErrorCode.none)
        assert (await log_in(client)).error_code == 0
    else:
        versions.cancel()
        client.close()
        await asyncio.sleep(1)
    assert memory.taken_bytes == 0


# Users of SCRAM


@pytest.mark.parametrize("mechanism", [SCRAM_256, SCRAM_512])
@simulated(**with_sasl())
async def test_user_of_scram_logs_in_as_soon_as_it_has_been_added_and_not_with_its_old_password(node, mechanism):
    for password in ("first", "second"):
        await add_user(node, "alice", password, mechanism, 8192)
        client = await node.client()
        assert (await log_in_by_scram(client, mechanism, "alice", password)).error_code == 0
        assert (await ask_metadata(client)).brokers
    answer = await log_in_by_scram(await node.client(), mechanism, "alice", "first")
    assert answer.error_code == ErrorCode.sasl_authentication_failed


@simulated(**with_sasl(plain_users=None))
async def test_user_of_scram_logs_in_by_plain_if_the_settings_say_so(node):
    await add_user(node, "alice", "alice-secret", SCRAM_512)
    client = await node.client()
    answers = [asyncio.ensure_future(each) for each in (handshake(client), authenticate(client), ask_metadata(client))]
    assert [answer.error_code for answer in await asyncio.gather(*answers[:2])] == [0, 0]
    assert (await answers[2]).brokers
    assert (await log_in(await node.client(), WRONG)).error_code == ErrorCode.sasl_authentication_failed


@simulated(**with_sasl(plain_users=None))
async def test_client_that_goes_away_while_its_password_is_checked_harms_nothing(node):
    await add_user(node, "alice", "alice-secret")
    for delay_s in (0, 0.0002, 0.0005, 0.001):
        client = await node.client()
        await handshake(client)
        asyncio.ensure_future(authenticate(client)).cancel()
        await asyncio.sleep(delay_s)
        client.close()
    await asyncio.sleep(1)
    assert not node.server._sessions


@simulated(**with_sasl(plain_users=None))
async def test_nobody_logs_in_by_plain_without_users_of_scram(node):
    client = await node.client()
    assert (await log_in(client)).error_code == ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize("mechanism", [SCRAM_256, SCRAM_512])
@simulated(**with_sasl())
async def test_unknown_user_of_scram_fails_with_the_last_message(node, mechanism):
    answer = await log_in_by_scram(await node.client(), mechanism, "nobody", "x")
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert answer.error_message == (
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism.value}"
    )


@simulated(**with_sasl())
async def test_a_stranger_that_takes_nothing_is_not_read(node):
    client = await node.client()
    await asyncio.sleep(0.1)
    (owner,) = node.server._sessions
    owner.on_writable(False)
    versions = asyncio.ensure_future(ask_versions(client))
    await asyncio.sleep(1)
    assert not versions.done()
    owner.on_writable(True)
    assert (await versions).api_keys


@simulated(**with_sasl(plain_users=None))
async def test_nor_is_a_client_that_takes_nothing_when_its_log_in_ends(node):
    await add_user(node, "alice", "alice-secret")
    client = await node.client()
    await handshake(client)
    (owner,) = node.server._sessions
    logged_in = asyncio.ensure_future(authenticate(client))
    while not owner._waits:  # noqa: ASYNC110 - the time of the simulator
        await asyncio.sleep(0.00005)
    owner.on_writable(False)
    assert (await logged_in).error_code == 0
    answer = asyncio.ensure_future(ask_metadata(client))
    await asyncio.sleep(1)
    assert not answer.done()
    (session,) = node.server._sessions
    session.on_writable(True)
    assert (await answer).brokers
