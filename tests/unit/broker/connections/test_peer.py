import asyncio
import datetime as dt
import struct

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse

from esp.broker.connections.peer import ANSWER_BYTES_MAX, Peer, PeerUnavailableError
from esp.model.errors import ErrorCode
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from esp.protocol.broker_heartbeat import BrokerHeartbeatRequest
from esp.protocol.errors import DecodeError
from esp.protocol.messages import encode_response
from esp.protocol.registry import ApiKey
from esp.simulation.machine.network import NetworkProfile
from tests.unit.broker.played_server import ADDRESS, in_world

SECOND = 1000


def heartbeat(offset=5):
    return BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=2, current_metadata_offset=offset, want_fence=False, want_shut_down=False
    )


def answer(message):
    """The epoch of the error code tells which request it answers."""
    return BrokerHeartbeatResponse(
        throttle_time=dt.timedelta(milliseconds=message.current_metadata_offset),
        error_code=ErrorCode.none,
        should_shut_down=False,
    )


def new_peer(world):
    peer = Peer(world.env, ADDRESS, client_id="test", terms=PLAINTEXT)
    peer.lost = []
    peer.on_lost = peer.lost.append
    return peer


async def ask(peer, offset=5, timeout_ms=SECOND):
    answered = await peer.call(ApiKey.BROKER_HEARTBEAT, heartbeat(offset), timeout_ms=timeout_ms)
    assert answered.throttle_time == dt.timedelta(milliseconds=offset)


def later(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


@in_world
async def test_a_call_is_answered_by_the_model_class(world):
    server = await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    assert not peer.connected
    await ask(peer)
    assert peer.connected
    assert server.seen == [("broker_heartbeat", heartbeat())]


@in_world
async def test_calls_are_pipelined_on_one_connection_and_answered_in_order(world):
    go = asyncio.get_running_loop().create_future()

    async def wait(message):
        await go
        return answer(message)

    server = await world.server(broker_heartbeat=wait)
    peer = new_peer(world)
    calls = [later(ask(peer, offset, 30 * SECOND)) for offset in range(50)]
    await asyncio.sleep(1)
    assert len(server.seen) == 50, "none waits for another's answer"
    go.set_result(None)
    for call in calls:
        await call
    assert server.accepted == 1


@in_world
async def test_a_call_of_an_older_version_is_sent_in_that_version(world):
    versions = []

    def handle(message):
        versions.append(message)
        return ApiVersionsResponse(
            error_code=ErrorCode.none, api_keys=(), throttle_time=dt.timedelta(0), finalized_features_epoch=9
        )

    await world.server(api_versions=handle)
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answered = await new_peer(world).call(ApiKey.API_VERSIONS, request, timeout_ms=SECOND, version=0)
    assert answered.finalized_features_epoch == -1, "version 0 has no such field"


@in_world
async def test_nobody_listens_is_told_apart_and_reported_once(world):
    peer = new_peer(world)
    with pytest.raises(PeerUnavailableError) as refused:
        await ask(peer)
    assert refused.value.refused
    assert not peer.lost, "there was no connection to lose"


@in_world
async def test_a_call_that_the_connection_ends_fails_and_the_next_one_connects_again(world):
    server = await world.server(broker_heartbeat=lambda _: None)
    peer = new_peer(world)
    call = later(ask(peer, timeout_ms=60 * SECOND))
    await asyncio.sleep(1)
    server.kill()
    with pytest.raises(PeerUnavailableError) as lost:
        await call
    assert not lost.value.refused
    assert [error.refused for error in peer.lost] == [False]
    assert not peer.connected
    with pytest.raises(PeerUnavailableError) as refused:
        await ask(peer)
    assert refused.value.refused
    second = await world.server(broker_heartbeat=answer)
    await ask(peer)
    assert len(second.seen) == 1, "what failed is not sent again"


@in_world
async def test_the_end_of_an_idle_connection_is_told(world):
    server = await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    await ask(peer)
    server.kill()
    await asyncio.sleep(1)
    assert len(peer.lost) == 1


@in_world
async def test_a_call_that_is_not_answered_in_time_ends_the_connection_and_all_calls_behind_it(world):
    server = await world.server(
        broker_heartbeat=lambda message: answer(message) if message.current_metadata_offset else None
    )
    peer = new_peer(world)
    silent = later(ask(peer, 0, SECOND))
    behind = later(ask(peer, 1, 60 * SECOND))
    for call in (silent, behind):
        with pytest.raises(PeerUnavailableError, match="not answered within 1000 ms"):
            await call
    assert len(peer.lost) == 1
    await ask(peer, 2)
    assert server.accepted == 2


@in_world
async def test_a_call_whose_caller_gave_up_disturbs_nobody(world):
    go = asyncio.get_running_loop().create_future()

    async def wait(message):
        await go
        return answer(message)

    server = await world.server(broker_heartbeat=wait)
    peer = new_peer(world)
    given_up = later(ask(peer, 1, 60 * SECOND))
    behind = later(ask(peer, 2, 60 * SECOND))
    await asyncio.sleep(1)
    given_up.cancel()
    await asyncio.sleep(1)
    go.set_result(None)
    await behind
    assert server.accepted == 1
    assert not peer.lost


@in_world
async def test_a_host_that_does_not_answer_costs_the_time_of_the_call(world):
    server = await world.server(broker_heartbeat=answer)
    server.listener.accept = lambda _connection: Mute()
    begun = asyncio.get_running_loop().time()
    with pytest.raises(PeerUnavailableError) as silent:
        await ask(new_peer(world), timeout_ms=SECOND)
    assert not silent.value.refused
    assert asyncio.get_running_loop().time() - begun == pytest.approx(1)


class Mute:
    def on_bytes(self, received):
        return len(received)

    def on_closed(self):
        pass

    def on_writable(self, writable):
        pass


@in_world
async def test_an_attempt_to_connect_ends_with_the_call_that_had_no_more_time(world):
    await world.server(broker_heartbeat=answer)
    world.network.profile = NetworkProfile(latency_us=(5_000_000, 5_000_000))
    peer = new_peer(world)
    call = later(ask(peer, timeout_ms=SECOND))
    await asyncio.sleep(0.5)
    link = peer._link
    with pytest.raises(PeerUnavailableError):
        await call
    await asyncio.sleep(0)
    assert link._job.cancelled()
    with pytest.raises(ConnectionAbortedError):
        link._on_open(object())


@in_world
async def test_a_closed_peer_fails_its_calls_and_says_nothing_of_a_loss(world):
    await world.server(broker_heartbeat=lambda _: None)
    peer = new_peer(world)
    call = later(ask(peer))
    await asyncio.sleep(0.5)
    peer.close()
    with pytest.raises(PeerUnavailableError, match="closed"):
        await call
    with pytest.raises(PeerUnavailableError, match="closed"):
        await ask(peer)
    await asyncio.sleep(1)
    assert not peer.lost


@in_world
async def test_a_peer_that_is_closed_while_it_connects_leaves_no_connection(world):
    server = await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    call = later(ask(peer))
    await asyncio.sleep(0)
    peer.close()
    with pytest.raises(PeerUnavailableError):
        await call
    await asyncio.sleep(1)
    assert not server.sessions
    assert not world.network.connections


def spoilt(frame):
    return lambda _message: frame


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", ANSWER_BYTES_MAX + 1),
        encode_response(ApiKey.BROKER_HEARTBEAT, 2, 99, answer(heartbeat())),  # in order but for its correlation id
        struct.pack(">iibb", 6, 1, 0, 0),  # cut short
        struct.pack(">iiB", 5, 1, 0x80),  # tagged fields without an end
    ],
    ids=["negative", "no header", "too long", "another's", "cut short", "no end"],
)
def test_an_answer_that_makes_no_sense_ends_the_connection(frame):
    @in_world
    async def scenario(world):
        server = await world.server(broker_heartbeat=spoilt(frame))
        peer = new_peer(world)
        with pytest.raises(PeerUnavailableError, match="cannot be decoded"):
            await ask(peer)
        assert len(peer.lost) == 1
        server.handlers["broker_heartbeat"] = answer
        await ask(peer)

    scenario()


@in_world
async def test_an_answer_that_nobody_asked_for_ends_the_connection(world):
    server = await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    await ask(peer)
    server.sessions[0]._connection.write([struct.pack(">iib", 5, 1, 0)])
    await asyncio.sleep(1)
    assert len(peer.lost) == 1


RAW = struct.pack(">iqqbbb", 1, 2, 5, 0, 0, 0)
"""The body of a heartbeat."""


@in_world
async def test_raw_calls_send_and_return_bytes(world):
    server = await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    body = await peer.call_raw(ApiKey.BROKER_HEARTBEAT, 0, [RAW[:7], memoryview(RAW)[7:]], timeout_ms=SECOND)
    await ask(peer, 3)
    assert server.seen[0] == ("broker_heartbeat", heartbeat())
    assert bytes(body) == struct.pack(">ihbbbb", 5, 0, 0, 1, 0, 0), "a copy: the receive buffer is another's by now"


@in_world
async def test_an_answer_can_be_taken_where_it_was_received(world):
    await world.server(broker_heartbeat=answer)
    peer, taken, failed = new_peer(world), [], []
    peer.post(
        ApiKey.BROKER_HEARTBEAT,
        0,
        [RAW],
        timeout_ms=SECOND,
        take=lambda body: taken.append(bytes(body)),
        fail=failed.append,
    )
    await ask(peer, 3)
    assert taken == [struct.pack(">ihbbbb", 5, 0, 0, 1, 0, 0)]
    peer.close()
    await asyncio.sleep(2)
    assert not failed
    peer.post(ApiKey.BROKER_HEARTBEAT, 0, [RAW], timeout_ms=SECOND, take=taken.append, fail=failed.append)
    assert [str(error) for error in failed] == [f"{ADDRESS}: closed"]
    assert len(taken) == 1


@in_world
async def test_whoever_posts_is_told_of_a_lost_connection_and_may_post_again_at_once(world):
    server = await world.server(broker_heartbeat=lambda _: None)
    peer, taken, failed = new_peer(world), [], []

    def post(fail):
        peer.post(ApiKey.BROKER_HEARTBEAT, 0, [RAW], timeout_ms=60 * SECOND, take=taken.append, fail=fail)

    def again(error):
        failed.append(error)
        post(failed.append)

    post(again)
    await asyncio.sleep(1)
    server.kill()
    await asyncio.sleep(1)
    assert [error.refused for error in failed] == [False, True], "the second one found nobody"
    assert len(peer.lost) == 1
    assert not taken


@in_world
async def test_a_taker_that_closes_the_peer_is_not_told_of_a_failure_but_those_behind_it_are(world):
    await world.server(broker_heartbeat=answer)
    peer, taken, failed = new_peer(world), [], []

    def take(body):
        taken.append(len(body))
        peer.close()

    for _ in range(2):
        peer.post(ApiKey.BROKER_HEARTBEAT, 0, [RAW], timeout_ms=SECOND, take=take, fail=failed.append)
    await asyncio.sleep(2)
    assert taken == [10]
    assert [str(error) for error in failed] == [f"{ADDRESS}: closed"]
    assert not peer.lost


@in_world
async def test_a_taker_that_cannot_read_the_answer_ends_the_connection(world):
    def refuse(_body):
        raise DecodeError("nonsense")

    await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    failed = []
    peer.post(ApiKey.BROKER_HEARTBEAT, 0, [RAW], timeout_ms=SECOND, take=refuse, fail=failed.append)
    await asyncio.sleep(0.5)
    assert ["nonsense" in str(error) for error in failed] == [True]
    assert len(peer.lost) == 1


@in_world
async def test_correlation_ids_begin_again_after_the_last_one(world):
    await world.server(broker_heartbeat=answer)
    peer = new_peer(world)
    peer._last_correlation_id = 2**31 - 2
    for _ in range(3):
        await ask(peer)
    assert peer._last_correlation_id == 2


@in_world
async def test_a_name_that_cannot_be_looked_up_is_no_refusal(world):
    async def connect(address, open_, timeout_us, tls):
        raise UnicodeError("label empty or too long")

    world.network.connect = connect
    with pytest.raises(PeerUnavailableError) as error:
        await Peer(world.env, Address("x..y", 1), client_id="test", terms=PLAINTEXT).call(
            ApiKey.BROKER_HEARTBEAT, heartbeat(), timeout_ms=SECOND
        )
    assert not error.value.refused
