"""What brokers pass on to the controller, and what they wait for, with a controller and a metadata cache that the test plays."""

import asyncio
import dataclasses
import datetime as dt
import logging
import uuid
from types import SimpleNamespace

import pytest
from kio.schema.create_topics.v7 import request as create_request
from kio.schema.create_topics.v7 import response as create_response
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsRequestUpTo5
from kio.schema.delete_topics.v6 import request as delete_request
from kio.schema.delete_topics.v6 import response as delete_response
from kio.schema.describe_quorum.v2 import request as describe_request
from kio.static.primitive import i32Timedelta

from esp.broker.apis import create_topics, delete_topics, describe_quorum
from esp.broker.authorization.access import OpenAccess
from esp.broker.auto_create import create_missing_topics
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.forwarding import WHOLE_MAX
from esp.broker.request import ClientContext
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import METADATA_TOPIC, NO_NODE, DirectoryId, LeaderEpoch, NodeId
from esp.model.now import Now
from esp.ports.network import Address
from esp.protocol.messages import decode_response, encode_response
from esp.protocol.registry import SERVED, ApiKey, ListenerKind
from esp.raft.leading import QuorumDescription, ReplicaDescription
from esp.raft.voters import Voter, VoterKey, VoterSet
from tests.unit.broker.played_server import in_world
from tests.unit.protocol.hostile import example
from tests.unit.protocol.strategies import wire_class

SECONDS = dt.timedelta(seconds=1)
ID = uuid.UUID(int=9)


class Metadata:
    """Knows topics from a moment on."""

    def __init__(self, topics_at=0.0, name="t"):
        self.topics_at = topics_at
        self.name = name
        self.image = SimpleNamespace(offset=7, topics_by_name={}, topics_by_id={})
        self.complaints = iter([True])

    def begin_complaint(self):
        return next(self.complaints, False)

    async def until(self, condition):
        empty = SimpleNamespace(topics_by_id={}, topics_by_name={})
        full = SimpleNamespace(topics_by_id={ID: 1}, topics_by_name={self.name: 1})
        if not condition(empty):
            await asyncio.sleep(self.topics_at - now())
            assert condition(full)


class Controller:
    def __init__(self, answer=None):
        self.answer = answer
        self.seen = []
        self.clients = []

    async def call(self, api_key, message, *, timeout_ms, client=None):
        self.seen.append((api_key, message))
        self.clients.append(client)
        if isinstance(self.answer, ApiError):
            await asyncio.sleep(timeout_ms / 1000)
            raise self.answer
        return self.answer


def now():
    return asyncio.get_running_loop().time()


def services(world, answer, *, metadata=None, **settings):
    return SimpleNamespace(
        env=world.env,
        controller=Controller(answer),
        metadata=metadata or Metadata(),
        settings=SimpleNamespace(**{"delete_topic_enable": True, **settings}),
        access=OpenAccess(),
    )


def asked(version):
    client = ClientContext("PLAINTEXT", Address("192.0.2.1", 1234), "User:alice")
    return SimpleNamespace(api_version=version, client=client, client_id="cli", correlation_id=7)


def create(name="t", *, validate_only=False, timeout=30 * SECONDS):
    topic = create_request.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    return create_request.CreateTopicsRequest(topics=(topic,), timeout=timeout, validate_only=validate_only)


def created(code=ErrorCode.none):
    topic = create_response.CreatableTopicResult(
        name="t", topic_id=None if code else ID, error_code=code, error_message=None, configs=()
    )
    return create_response.CreateTopicsResponse(throttle_time=0 * SECONDS, topics=(topic,))


def deleted(code=ErrorCode.none):
    topic = delete_response.DeletableTopicResult(name="t", topic_id=ID, error_code=code)
    return delete_response.DeleteTopicsResponse(throttle_time=0 * SECONDS, responses=(topic,))


VOTERS = [VoterKey(NodeId(number), DirectoryId(uuid.UUID(int=number))) for number in (1, 2)]
QUORUM = QuorumDescription(
    leader_id=NO_NODE,
    leader_epoch=LeaderEpoch(7),
    high_watermark=80,
    voter_set=VoterSet(tuple(Voter(key, ()) for key in VOTERS)),
    voters=(ReplicaDescription(VOTERS[0], 90, None, None), ReplicaDescription(VOTERS[1], -1, None, None)),
    observers=(),
)


FORWARDED = [
    ApiKey.ELECT_LEADERS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
]


@pytest.mark.parametrize("api_key", FORWARDED)
def test_what_only_the_controller_can_do_goes_there_and_its_answer_back(api_key):
    @in_world
    async def scenario(world):
        message, answer = SimpleNamespace(listeners=()), object()
        played = services(world, answer)
        handle = Dispatcher(ListenerKind.BROKER, played, Tasks(world.env.host), world.env.clock)._load(api_key)
        assert await handle(played, asked(0), message) is answer
        assert played.controller.seen == [(api_key, message)]

    scenario()


class Guarded(OpenAccess):
    """The access to a node with an authorizer."""

    is_open = False


@pytest.mark.parametrize(("access", "principals"), [(OpenAccess(), [None]), (Guarded(), ["User:alice"])])
def test_the_controller_is_told_of_the_client_where_there_is_an_authorizer(access, principals):
    @in_world
    async def scenario(world):
        played = services(world, created())
        played.access = access
        await create_topics.handle(played, asked(7), create())
        told = played.controller.clients
        assert [client and client.principal for client in told] == principals

    scenario()


class Metered:
    """The meter of a client whose changes to partitions a quota bounds."""

    counts_mutations = True

    def __init__(self):
        self.throttled_ms = []

    def throttle_mutations(self, throttle_ms):
        self.throttled_ms.append(throttle_ms)


def test_a_client_with_a_quota_of_changes_is_told_of_with_its_version_and_waits_as_the_controller_says():
    @in_world
    async def scenario(world):
        topic = delete_response.DeletableTopicResult(name="t", topic_id=None, error_code=ErrorCode.none)
        played = services(
            world,
            delete_response.DeleteTopicsResponse(throttle_time=i32Timedelta.parse(3 * SECONDS), responses=(topic,)),
        )
        request = asked(4)
        meter = request.client.meter = Metered()
        message = DeleteTopicsRequestUpTo5(topic_names=("t",), timeout=SECONDS)
        await delete_topics.handle(played, request, message)
        ((_, forwarded),) = played.controller.seen
        (client,) = played.controller.clients
        assert forwarded is message, "it travels as it came"
        assert (client.principal, client.client_id, client.version) == ("User:alice", "cli", 4)
        assert meter.throttled_ms == [3_000]

    scenario()


def test_a_topic_that_is_answered_without_an_id_is_waited_for_by_its_name():
    @in_world
    async def scenario(world):
        answer = created()
        answer = dataclasses.replace(answer, topics=(dataclasses.replace(answer.topics[0], topic_id=None),))
        begun = now()
        played = services(world, answer, metadata=Metadata(topics_at=begun + 3))
        request = asked(5)
        request.client.meter = Metered()
        await create_topics.handle(played, request, create())
        assert now() - begun == 3

    scenario()


def test_what_a_broker_asks_is_not_counted():
    @in_world
    async def scenario(world):
        played = services(world, created())
        request = asked(7)
        request.client.meter, request.client.is_broker = Metered(), True
        await create_topics.handle(played, request, create())
        assert played.controller.clients == [None]

    scenario()


@pytest.mark.parametrize("version", [0, 2])
def test_without_a_leader_the_quorum_is_described_as_the_broker_knows_it(version):
    @in_world
    async def scenario(world):
        refused = ApiError(ErrorCode.request_timed_out, "silence")
        raft = SimpleNamespace(describe_from_here=lambda: QUORUM, now=lambda: Now(0, 0))
        played = SimpleNamespace(env=world.env, controller=Controller(refused), raft=raft, access=OpenAccess())
        topic = describe_request.TopicData(
            topic_name=METADATA_TOPIC, partitions=(describe_request.PartitionData(partition_index=0),)
        )
        begun = now()
        answer = await describe_quorum.handle(
            played, asked(version), describe_request.DescribeQuorumRequest(topics=(topic,))
        )
        assert now() - begun == describe_quorum.LEADER_TIMEOUT_MS / 1000
        answer = decode_response(
            ApiKey.DESCRIBE_QUORUM,
            version,
            memoryview(encode_response(ApiKey.DESCRIBE_QUORUM, version, 1, answer))[9:],
        )
        assert answer.error_code == ErrorCode.request_timed_out
        [partition] = answer.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch) == (-1, 7)
        assert [(each.replica_id, each.log_end_offset) for each in partition.current_voters] == [(1, 90), (2, -1)]
        with pytest.raises(ApiError) as caught:
            await describe_quorum.handle(
                played, asked(version), describe_request.DescribeQuorumRequest(topics=(topic, topic))
            )
        assert caught.value is refused

    scenario()


@pytest.mark.parametrize(
    ("api_key", "field"), [(ApiKey.ADD_RAFT_VOTER, "listeners"), (ApiKey.UPDATE_FEATURES, "feature_updates")]
)
def test_what_nobody_needs_is_not_passed_on(api_key, field):
    @in_world
    async def scenario(world):
        played = services(world, None)
        dispatcher = Dispatcher(ListenerKind.BROKER, played, Tasks(world.env.host), world.env.clock)
        message = example(wire_class((api_key, SERVED[api_key].max_version, "request")))
        many = dataclasses.replace(message, **{field: getattr(message, field)[:1] * (WHOLE_MAX + 1)})
        answer = await dispatcher.call(api_key, many, client_id="c")
        assert answer.error_code is ErrorCode.invalid_request
        assert played.controller.seen == []

    scenario()


@pytest.mark.parametrize("api_key", [*FORWARDED, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS])
def test_without_a_controller_the_client_is_told_in_the_form_of_its_request(api_key):
    @in_world
    async def scenario(world):
        played = services(world, ApiError(ErrorCode.request_timed_out))
        dispatcher = Dispatcher(ListenerKind.BROKER, played, Tasks(world.env.host), world.env.clock)
        message = example(wire_class((api_key, SERVED[api_key].max_version, "request")))
        answer = await dispatcher.call(api_key, message, client_id="c")
        codes = (
            [answer]
            if hasattr(answer, "error_code")
            else [*getattr(answer, "topics", ()), *getattr(answer, "responses", ())]
        )
        assert [it.error_code for it in codes] == [ErrorCode.request_timed_out] * len(codes) != []

    scenario()


@in_world
async def test_a_created_topic_is_answered_once_this_node_follows(world):
    played = services(world, created(), metadata=Metadata(2.0))
    assert await create_topics.handle(played, asked(7), create()) == created()
    assert now() == 2


@in_world
async def test_many_who_wait_for_the_same_change_are_one_line_of_the_log(world):
    played = services(world, created(), metadata=Metadata(100.0))
    handler = logging.Handler()
    lines = []
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("esp.broker.forwarding").addHandler(handler)
    try:
        for _ in range(3):
            await create_topics.handle(played, asked(7), create(timeout=2 * SECONDS))
    finally:
        logging.getLogger("esp.broker.forwarding").removeHandler(handler)
    (line,) = lines
    assert "up to offset 7" in line


@in_world
async def test_it_is_answered_in_time_though_this_node_lags(world):
    played = services(world, created(), metadata=Metadata(100.0))
    assert await create_topics.handle(played, asked(7), create(timeout=5 * SECONDS)) == created()
    assert now() == 5
    await create_topics.handle(played, asked(7), create(timeout=0 * SECONDS))
    assert now() == 6, "a moment is given to whoever gives none"


@pytest.mark.parametrize(
    ("answer", "validate_only"), [(created(ErrorCode.topic_already_exists), False), (created(), True)]
)
def test_nothing_is_waited_for_where_nothing_was_created(answer, validate_only):
    @in_world
    async def scenario(world):
        played = services(world, answer, metadata=Metadata(9.0))
        await create_topics.handle(played, asked(7), create(validate_only=validate_only))
        assert now() == 0

    scenario()


@in_world
async def test_a_deleted_topic_is_answered_once_this_node_follows(world):
    class Gone(Metadata):
        async def until(self, condition):
            assert not condition(SimpleNamespace(topics_by_id={ID: 1}))
            assert condition(SimpleNamespace(topics_by_id={}))
            await asyncio.sleep(2)

    played = services(world, deleted(), metadata=Gone())
    message = delete_request.DeleteTopicsRequest(
        topics=(delete_request.DeleteTopicState(name="t", topic_id=None),), timeout=30 * SECONDS
    )
    assert await delete_topics.handle(played, asked(6), message) == deleted()
    assert now() == 2
    assert played.controller.seen == [(ApiKey.DELETE_TOPICS, message)]


@in_world
async def test_old_requests_to_delete_are_passed_on_in_the_newest_form(world):
    played = services(world, deleted(ErrorCode.unknown_topic_or_partition))
    await delete_topics.handle(played, asked(3), DeleteTopicsRequestUpTo5(topic_names=("a", "b"), timeout=SECONDS))
    ((_, message),) = played.controller.seen
    assert [(topic.name, topic.topic_id) for topic in message.topics] == [("a", None), ("b", None)]
    assert message.timeout == SECONDS


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)])
def test_where_deletion_is_turned_off_the_controller_is_not_asked(version, code):
    @in_world
    async def scenario(world):
        played = services(world, deleted(), delete_topic_enable=False)
        message = DeleteTopicsRequestUpTo5(topic_names=("a",), timeout=SECONDS)
        with pytest.raises(ApiError) as error:
            await delete_topics.handle(played, asked(version), message)
        assert error.value.code is code
        assert not played.controller.seen

    scenario()


@in_world
async def test_missing_topics_are_created_with_the_clusters_defaults(world):
    played = services(world, created(), metadata=Metadata(1.0))
    assert await create_missing_topics(played, ["t"]) == {"t": ErrorCode.leader_not_available}
    ((_, message),) = played.controller.seen
    assert [(it.name, it.num_partitions, it.replication_factor) for it in message.topics] == [("t", -1, -1)]
    assert now() == 1, "known here by now, so that the error is not told"


@in_world
async def test_a_topic_that_another_creates_meanwhile_is_waited_for_too(world):
    played = services(world, created(ErrorCode.topic_already_exists), metadata=Metadata(1.0))
    await create_missing_topics(played, ["t"])
    assert now() == 1


@in_world
async def test_a_topic_that_may_not_be_is_told_with_its_error(world):
    played = services(world, created(ErrorCode.invalid_topic_exception))
    assert await create_missing_topics(played, ["t"]) == {"t": ErrorCode.invalid_topic_exception}


@in_world
async def test_without_a_controller_clients_are_told_soon_to_ask_for_metadata_again(world):
    played = services(world, ApiError(ErrorCode.request_timed_out))
    assert await create_missing_topics(played, ["t", "u"]) == {
        "t": ErrorCode.leader_not_available,
        "u": ErrorCode.leader_not_available,
    }
    assert now() == 5
