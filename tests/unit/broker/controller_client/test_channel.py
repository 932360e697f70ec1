import asyncio
import datetime as dt

import pytest
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.envelope.v0.response import EnvelopeResponse

from esp.broker.controller_client.channel import ControllerChannel
from esp.broker.controller_client.original_client import OriginalClient
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from esp.protocol.enclosed import decode_address, decode_principal
from esp.protocol.error_responses import error_response
from esp.protocol.headers import read_request_header
from esp.protocol.messages import encode_response
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_server import ADDRESS, in_world

OURS = NodeId(1)
OTHER = NodeId(2)
THIRD = NodeId(3)
OTHER_ADDRESS = ADDRESS
THIRD_ADDRESS = Address("127.0.0.1", 9094)
REQUEST = AllocateProducerIdsRequest(broker_id=1, broker_epoch=7)


class Quorum:
    def __init__(self, leader=None, address=None):
        self.callbacks = []
        self.leader, self.leader_address = leader, address

    def on_leadership(self, callback):
        self.callbacks.append(callback)

    def elect(self, leader, address=None):
        self.leader, self.leader_address = leader, address
        for callback in self.callbacks:
            callback()


class Local:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.seen = []
        self.clients = []

    async def call(self, api_key, message, *, client_id, client=None, version=None):
        self.seen.append((api_key, message, client_id))
        self.clients.append(client)
        return self.answers.pop(0)


def granted(_message=None):
    return AllocateProducerIdsResponse(
        throttle_time=dt.timedelta(0), error_code=ErrorCode.none, producer_id_start=1000, producer_id_len=1000
    )


def refused(code):
    return error_response(ApiKey.ALLOCATE_PRODUCER_IDS, 0, REQUEST, ApiError(code))


def new_channel(world, quorum, local=None, **options):
    return ControllerChannel(world.env, OURS, quorum, local, client_id="broker 1", terms=PLAINTEXT, **options)


async def ask(channel, timeout_ms=10_000):
    answer = await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=timeout_ms)
    assert answer == granted()


def later(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


def now():
    return asyncio.get_running_loop().time()


@in_world
async def test_a_call_goes_over_the_wire_to_the_leader(world):
    server = await world.server(allocate_producer_ids=granted)
    await ask(new_channel(world, Quorum(OTHER, OTHER_ADDRESS)))
    assert server.seen == [("allocate_producer_ids", REQUEST)]


@in_world
async def test_calls_share_one_connection(world):
    server = await world.server(allocate_producer_ids=granted)
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    for _ in range(3):
        await ask(channel)
    assert server.accepted == 1


@in_world
async def test_a_call_goes_straight_to_this_nodes_own_controller_where_it_leads(world):
    local = Local(granted())
    await ask(new_channel(world, Quorum(OURS, ADDRESS), local))
    assert local.seen == [(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, "broker 1")]


@in_world
async def test_without_a_leader_a_call_waits_and_goes_out_as_soon_as_there_is_one(world):
    await world.server(allocate_producer_ids=granted)
    quorum = Quorum()
    call = later(ask(new_channel(world, quorum)))
    await asyncio.sleep(2.02)
    assert not call.done()
    quorum.elect(OTHER, OTHER_ADDRESS)
    begun = now()
    await call
    assert now() - begun < 0.01


@in_world
async def test_without_a_leader_a_call_times_out(world):
    begun = now()
    with pytest.raises(ApiError) as error:
        await ask(new_channel(world, Quorum()), timeout_ms=700)
    assert error.value.code is ErrorCode.request_timed_out
    assert now() - begun == pytest.approx(0.7)


@pytest.mark.parametrize("code", [ErrorCode.not_controller, ErrorCode.not_leader_or_follower])
def test_who_does_not_lead_is_asked_again_after_a_pause(code):
    @in_world
    async def scenario(world):
        answers = [refused(code), refused(code), granted()]
        await world.server(allocate_producer_ids=lambda _: answers.pop(0))
        begun = now()
        await ask(new_channel(world, Quorum(OTHER, OTHER_ADDRESS)))
        assert 0.1 <= now() - begun < 0.15

    scenario()


@in_world
async def test_a_local_controller_that_does_not_lead_any_more_is_left_for_the_one_that_does(world):
    quorum = Quorum(OURS, ADDRESS)
    local = Local(refused(ErrorCode.not_controller))
    server = await world.server(THIRD_ADDRESS, allocate_producer_ids=granted)
    call = later(ask(new_channel(world, quorum, local)))
    await asyncio.sleep(0.01)
    quorum.elect(THIRD, THIRD_ADDRESS)
    await call
    assert len(server.seen) == 1


@in_world
async def test_topic_by_topic_not_controller_is_noticed_too(world):
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t", topic_id=None),), timeout=dt.timedelta(seconds=1))
    codes = [ErrorCode.not_controller, ErrorCode.unknown_topic_or_partition]
    server = await world.server(
        delete_topics=lambda message: error_response(ApiKey.DELETE_TOPICS, 6, message, ApiError(codes.pop(0)))
    )
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    answer = await channel.call(ApiKey.DELETE_TOPICS, request, timeout_ms=1000)
    assert answer.responses[0].error_code is ErrorCode.unknown_topic_or_partition
    assert len(server.seen) == 2


@in_world
async def test_other_errors_are_the_callers(world):
    await world.server(allocate_producer_ids=lambda _: refused(ErrorCode.stale_broker_epoch))
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    answer = await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=1000)
    assert answer.error_code is ErrorCode.stale_broker_epoch


@in_world
async def test_a_call_whose_connection_breaks_is_made_again(world):
    server = await world.server(allocate_producer_ids=lambda _: None)
    call = later(ask(new_channel(world, Quorum(OTHER, OTHER_ADDRESS))))
    await asyncio.sleep(0.5)
    server.kill()
    await asyncio.sleep(0.5)
    next_server = await world.server(allocate_producer_ids=granted)
    await call
    assert len(next_server.seen) == 1


@in_world
async def test_another_leader_is_asked_at_once_though_the_old_one_is_silent(world):
    old = await world.server(allocate_producer_ids=lambda _: None)
    await world.server(THIRD_ADDRESS, allocate_producer_ids=granted)
    quorum = Quorum(OTHER, OTHER_ADDRESS)
    call = later(ask(new_channel(world, quorum)))
    await asyncio.sleep(1)
    quorum.elect(THIRD, THIRD_ADDRESS)
    begun = now()
    await call
    assert now() - begun < 0.01
    assert not old.sessions, "the connection to the old one has ended"


@in_world
async def test_a_caller_with_little_time_does_not_end_the_connection_for_the_others(world):
    async def slow(message):
        await asyncio.sleep(2)
        return granted(message)

    handlers = [slow, granted]

    def handle(message):
        return handlers.pop(0)(message)

    server = await world.server(allocate_producer_ids=handle)
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    hasty = later(ask(channel, timeout_ms=100))
    patient = later(ask(channel))
    with pytest.raises(ApiError):
        await hasty
    await patient
    assert server.accepted == 1


@in_world
async def test_a_controller_that_is_silent_for_too_long_is_given_another_connection(world):
    server = await world.server(allocate_producer_ids=lambda _: granted() if server.accepted > 1 else None)
    await ask(new_channel(world, Quorum(OTHER, OTHER_ADDRESS), answer_timeout_ms=500))
    assert server.accepted == 2


@in_world
async def test_a_closed_channel_asks_nobody(world):
    server = await world.server(allocate_producer_ids=granted)
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    await ask(channel)
    channel.close()
    with pytest.raises(ApiError):
        await ask(channel, timeout_ms=500)
    assert len(server.seen) == 1
    assert not server.sessions


ALICE = OriginalClient("User:alice", Address("192.0.2.7", 4000), "cli", 77, groups=("Group:staff",))


def enveloped(code=ErrorCode.none, inner=None):
    """A controller that answers envelopes, each time with the next code of an iterator or always with one."""

    def answer(message):
        header = read_request_header(message.request_data)
        inside.append(
            (header, decode_principal(message.request_principal), decode_address(message.client_host_address))
        )
        error = next(codes, ErrorCode.none)
        data = encode_response(header.api_key, header.api_version, header.correlation_id, inner or granted())[4:]
        return EnvelopeResponse(response_data=data if error is ErrorCode.none else None, error_code=error)

    inside = []
    codes = iter([code])
    return answer, inside


@in_world
async def test_the_request_of_a_client_travels_in_an_envelope(world):
    answer, inside = enveloped()
    await world.server(envelope=answer)
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    told = await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=1000, client=ALICE)
    assert told == granted()
    ((header, principal, host),) = inside
    assert (header.api_key, header.client_id, header.correlation_id) == (ApiKey.ALLOCATE_PRODUCER_IDS, "cli", 77)
    assert (principal, host) == (("User:alice", ("Group:staff",), False), "192.0.2.7")


@pytest.mark.parametrize("where", ["of the envelope", "of the enclosed request"])
def test_an_envelope_that_came_to_another_than_the_leader_is_sent_again(where):
    @in_world
    async def scenario(world):
        refusals = [refused(ErrorCode.not_controller)] if where == "of the enclosed request" else []
        answer, inside = enveloped(ErrorCode.none if refusals else ErrorCode.not_controller)

        def first_refused(message):
            told = answer(message)
            if refusals:
                header = read_request_header(message.request_data)
                data = encode_response(header.api_key, header.api_version, header.correlation_id, refusals.pop())[4:]
                return EnvelopeResponse(response_data=data, error_code=ErrorCode.none)
            return told

        await world.server(envelope=first_refused)
        channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
        told = await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=1000, client=ALICE)
        assert (told, len(inside)) == (granted(), 2)

    scenario()


def test_a_broker_whose_envelopes_are_refused_says_what_is_to_be_done(caplog):
    @in_world
    async def scenario(world):
        answer, _ = enveloped(ErrorCode.cluster_authorization_failed)
        await world.server(envelope=answer)
        channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
        with pytest.raises(ApiError) as refusal:
            await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=1000, client=ALICE)
        assert refusal.value.code is ErrorCode.cluster_authorization_failed

    scenario()
    assert "put this node's principal into super.users of the other nodes" in caplog.text


@in_world
async def test_this_nodes_own_controller_decides_about_the_client_too(world):
    local = Local(granted())
    channel = new_channel(world, Quorum(OURS, ADDRESS), local)
    await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=1000, client=ALICE)
    assert local.seen == [(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, "cli")]
    (client,) = local.clients
    assert (client.principal, client.address.host, client.is_this_node) == ("User:alice", "192.0.2.7", False)


@in_world
async def test_an_enclosed_answer_that_cannot_be_read_is_asked_for_again(world):
    answer, inside = enveloped()

    def broken_first(message):
        told = answer(message)
        return told if len(inside) > 1 else EnvelopeResponse(response_data=b"\0\0", error_code=ErrorCode.none)

    await world.server(envelope=broken_first)
    channel = new_channel(world, Quorum(OTHER, OTHER_ADDRESS))
    told = await channel.call(ApiKey.ALLOCATE_PRODUCER_IDS, REQUEST, timeout_ms=1000, client=ALICE)
    assert (told, len(inside)) == (granted(), 2)
