"""Markers reach the leader that a partition has, however often its answer is lost, and end with a deleted partition (TXN-7, TXN-12)."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.tasks import Tasks
from esp.broker.transactions.marker_sender import MarkerSender, MarkerWork
from esp.model.errors import ErrorCode
from esp.model.ids import TRANSACTIONS_TOPIC, NodeId, TopicPartition
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from esp.replication.end_marker import EndMarker
from esp.transactions.markers import MarkerOutcome
from esp.transactions.requests import Producer
from tests.unit.broker.played_server import in_world

TOPIC_ID = uuid.UUID(int=77)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE = ErrorCode.none
COORDINATOR_EPOCH = 4
HERE = 3
"""The node of the sender; nothing listens there."""


class Leader:
    """A broker that answers each marker with the next of its answers for the partition, and NONE when there are no more."""

    def __init__(self):
        self.answers = {}
        self.requests = []
        self.held = None
        self.is_prompt = False

    async def write_txn_markers(self, request):
        self.requests.append(request)
        if self.held is not None:
            await self.held.wait()
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(
                                    partition_index=number, error_code=self._next((topic.name, number))
                                )
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    def write(self, markers):
        """Write this node's own markers: a prompt leader waits for no follower."""
        self.requests.append(markers)
        codes = [self._next(partition) for _, partitions in markers for partition in partitions]
        return codes if self.is_prompt else self._later(codes)

    async def _later(self, codes):
        await asyncio.sleep(0.001)
        if self.held is not None:
            await self.held.wait()
        return codes

    def _next(self, partition):
        left = self.answers.get(partition)
        return left.pop(0) if left else NONE


class CountedTasks(Tasks):
    """Tasks that write down their names."""

    def __init__(self, host):
        super().__init__(host)
        self.started = []

    def start(self, coroutine, *, name, for_request=False):
        self.started.append(name)
        super().start(coroutine, name=name, for_request=for_request)


class Scene:
    """A sender, two leaders, and the metadata that says which of them leads."""

    def __init__(self, world):
        self.world = world
        self.leaders = {1: Leader(), 2: Leader()}
        self.addresses = {node: Address("127.0.0.1", 9100 + node) for node in self.leaders}
        self.metadata = MetadataCache("cluster", NodeId(1))
        self.lead(1, 1)
        self.outcomes = {}
        self.on_outcome = lambda _owner: None
        self.here = Leader()
        self.tasks = CountedTasks(world.env.host)
        self.addresses[HERE] = Address("127.0.0.1", 9999)
        self.sender = MarkerSender(
            world.env,
            NodeId(HERE),
            self.metadata,
            self.addresses.get,
            self.here.write,
            self.tasks,
            terms=PLAINTEXT,
        )

    async def start(self):
        self.servers = {
            node: await self.world.server(self.addresses[node], write_txn_markers=leader.write_txn_markers)
            for node, leader in self.leaders.items()
        }
        return self

    def lead(self, *leaders, topic_id=TOPIC_ID, coordinator_epoch=COORDINATOR_EPOCH, has_topic=True, coordinators=1):
        """Say which nodes lead the partitions of t."""
        topics = {
            TRANSACTIONS_TOPIC: SimpleNamespace(
                topic_id=uuid.UUID(int=5),
                partitions=(SimpleNamespace(leader=NodeId(1), leader_epoch=coordinator_epoch),) * coordinators,
            )
        }
        if has_topic:
            partitions = tuple(SimpleNamespace(leader=NodeId(leader), leader_epoch=0) for leader in leaders)
            topics["t"] = SimpleNamespace(topic_id=topic_id, partitions=partitions)
        self.metadata.image = SimpleNamespace(topics_by_name=topics)
        self.metadata.alive = frozenset((NodeId(1), NodeId(2), NodeId(HERE)))

    def on_markers(self, transactional_id, decision, outcomes):
        for partition, outcome in outcomes.items():
            assert (transactional_id, decision, partition) not in self.outcomes, "an outcome is reported once"
            self.outcomes[transactional_id, decision, partition] = outcome
        self.on_outcome(self)

    def send(self, *partitions, name="app", decision=1, producer=(7, 3), topic_id=TOPIC_ID, version=2):
        work = MarkerWork(
            owner=self,
            transactional_id=name,
            decision=decision,
            producer=Producer(*producer),
            is_commit=True,
            transaction_version=version,
            coordinator=TopicPartition(TRANSACTIONS_TOPIC, 0),
            coordinator_epoch=COORDINATOR_EPOCH,
            left=dict.fromkeys(partitions or (P0, P1), topic_id),
        )
        self.sender.send(work)

    async def until(self, *partitions, name="app", decision=1):
        while not all((name, decision, partition) in self.outcomes for partition in partitions or (P0, P1)):
            before = len(self.outcomes)
            await asyncio.sleep(0.005)
            assert len(self.outcomes) >= before
        return [self.outcomes[name, decision, partition] for partition in partitions or (P0, P1)]


WRITTEN = (MarkerOutcome.WRITTEN, NONE)


@in_world
async def test_markers_of_one_leader_go_in_one_request(world):
    scene = await Scene(world).start()
    scene.send()
    assert await scene.until() == [WRITTEN, WRITTEN]
    (request,) = scene.leaders[1].requests
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (COORDINATOR_EPOCH, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", (0, 1))]


@in_world
async def test_each_leader_gets_its_partitions(world):
    scene = await Scene(world).start()
    scene.lead(1, 2)
    scene.send()
    await scene.until()
    sent = [
        [topic.partition_indexes for topic in leader.requests[0].markers[0].topics] for leader in scene.leaders.values()
    ]
    assert sent == [[(0,)], [(1,)]]


@in_world
async def test_markers_of_this_node_that_need_no_follower_are_written_without_a_task(world):
    scene = await Scene(world).start()
    scene.lead(HERE, 1)
    scene.here.is_prompt = True
    for decision in (1, 2):
        scene.send(P0, decision=decision)
        assert ("app", decision, P0) not in scene.outcomes, "the owner is never told before its call is over"
        assert await scene.until(P0, decision=decision) == [WRITTEN]
    assert not scene.tasks.started
    scene.here.answers = {("t", 0): [ErrorCode.not_leader_or_follower]}
    scene.send(decision=3)
    assert await scene.until(decision=3) == [WRITTEN, WRITTEN]
    assert len(scene.here.requests) == 4


@in_world
async def test_markers_that_gather_while_this_node_waits_for_followers_are_written_together(world):
    scene = await Scene(world).start()
    scene.lead(HERE, 1)
    scene.here.held = asyncio.Event()
    for number in range(3):
        scene.send(P0, name=f"app-{number}")
        await asyncio.sleep(0.01)
    assert [len(markers) for markers in scene.here.requests] == [1]
    scene.here.held.set()
    for number in range(3):
        assert await scene.until(P0, name=f"app-{number}") == [WRITTEN]
    assert [len(markers) for markers in scene.here.requests] == [1, 2]


@in_world
async def test_a_coordinator_that_ends_while_a_marker_is_written_gets_no_more_outcomes(world):
    """The other partition is deleted: that outcome comes first, and the coordinator ends with it."""
    scene = await Scene(world).start()
    scene.lead(HERE)
    scene.here.is_prompt = True
    scene.on_outcome = scene.sender.forget
    scene.send()
    await asyncio.sleep(0.01)
    assert [*scene.outcomes] == [("app", 1, P1)]
    assert not scene.here.requests


@in_world
async def test_markers_that_an_owner_has_when_it_hears_of_others_are_written(world):
    scene = await Scene(world).start()
    scene.lead(HERE, 1)
    scene.here.is_prompt = True

    def have_another(_owner):
        if ("app", 2, P0) not in scene.outcomes:
            scene.on_outcome = lambda _owner: None
            scene.send(P0, decision=2)

    scene.on_outcome = have_another
    scene.send(P0)
    assert await scene.until(P0, decision=2) == [WRITTEN]


@in_world
async def test_this_node_writes_its_own_markers_without_a_connection(world):
    scene = await Scene(world).start()
    scene.lead(1, HERE)
    scene.here.answers = {("t", 1): [ErrorCode.not_leader_or_follower]}
    scene.send()
    assert await scene.until() == [WRITTEN, WRITTEN]
    marker = EndMarker(7, 3, is_commit=True, coordinator_epoch=COORDINATOR_EPOCH, transaction_version=2)
    assert scene.here.requests == [[(marker, [P1])], [(marker, [P1])]]
    scene.sender.close()


@in_world
async def test_markers_that_gather_while_a_request_is_under_way_go_together(world):
    scene = await Scene(world).start()
    scene.leaders[1].held = asyncio.Event()
    for number in range(5):
        scene.send(P0, name=f"app{number}", producer=(number, 0))
        await asyncio.sleep(0.01)
    scene.leaders[1].held.set()
    for number in range(5):
        assert await scene.until(P0, name=f"app{number}") == [WRITTEN]
    assert [len(request.markers) for request in scene.leaders[1].requests] == [1, 4]


@in_world
async def test_two_decisions_of_one_producer_keep_their_answers_apart(world):
    scene = await Scene(world).start()
    scene.leaders[1].held = asyncio.Event()
    scene.send(P1, name="first", producer=(1, 0))
    await asyncio.sleep(0.01)
    scene.leaders[1].answers = {("t", 0): [ErrorCode.invalid_producer_epoch, NONE]}
    scene.send(P0, decision=1)
    scene.send(P0, decision=2)
    await asyncio.sleep(0.01)
    scene.leaders[1].held.set()
    assert await scene.until(P0, decision=1) == [(MarkerOutcome.REFUSED, ErrorCode.invalid_producer_epoch)]
    assert await scene.until(P0, decision=2) == [WRITTEN]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_server_error,
    ],
)
@in_world
async def test_marker_that_was_not_written_is_sent_again(world, error):
    scene = await Scene(world).start()
    scene.leaders[1].answers = {("t", 1): [error, error]}
    scene.send()
    assert await scene.until() == [WRITTEN, WRITTEN]
    sent = [request.markers[0].topics[0].partition_indexes for request in scene.leaders[1].requests]
    assert sent == [(0, 1), (1,), (1,)]


@pytest.mark.parametrize("error", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced])
@in_world
async def test_marker_that_was_refused_is_reported_and_not_sent_again(world, error):
    scene = await Scene(world).start()
    scene.leaders[1].answers = {("t", 1): [error]}
    scene.send()
    assert await scene.until() == [WRITTEN, (MarkerOutcome.REFUSED, error)]
    await asyncio.sleep(30)
    assert len(scene.leaders[1].requests) == 1


@in_world
async def test_marker_follows_its_partition_to_the_next_leader(world):
    scene = await Scene(world).start()
    scene.leaders[1].answers = {("t", 0): [ErrorCode.not_leader_or_follower] * 1000}
    scene.send(P0)
    await asyncio.sleep(1)
    scene.lead(2, 2)
    assert await scene.until(P0) == [WRITTEN]
    assert len(scene.leaders[2].requests) == 1


@in_world
async def test_marker_whose_answer_is_lost_is_sent_again(world):
    scene = await Scene(world).start()
    scene.leaders[1].held = asyncio.Event()
    scene.send(P0)
    await asyncio.sleep(0.1)
    scene.servers[1].kill()
    await asyncio.sleep(3)
    assert scene.outcomes == {}
    scene.lead(2, 2)
    assert await scene.until(P0) == [WRITTEN]


@in_world
async def test_partition_without_a_leader_is_waited_for(world):
    scene = await Scene(world).start()
    scene.lead(-1, 1)
    scene.send()
    await scene.until(P1)
    await asyncio.sleep(5)
    assert ("app", 1, P0) not in scene.outcomes
    scene.lead(2, 1)
    assert await scene.until(P0) == [WRITTEN]


@in_world
async def test_deleted_partition_needs_no_marker(world):
    scene = await Scene(world).start()
    scene.lead(has_topic=False)
    scene.send()
    assert await scene.until() == [WRITTEN, WRITTEN]
    assert scene.leaders[1].requests == []


@in_world
async def test_topic_of_another_id_is_another_topic(world):
    scene = await Scene(world).start()
    scene.lead(1, 1, topic_id=uuid.UUID(int=78))
    scene.send()
    assert await scene.until() == [WRITTEN, WRITTEN]
    assert scene.leaders[1].requests == []


@in_world
async def test_partition_of_a_decision_from_the_log_is_known_by_its_name(world):
    scene = await Scene(world).start()
    scene.send(topic_id=None)
    assert await scene.until() == [WRITTEN, WRITTEN]
    assert len(scene.leaders[1].requests) == 1


@pytest.mark.parametrize("older", [{"coordinator_epoch": COORDINATOR_EPOCH - 1}, {"coordinators": 0}])
def test_metadata_older_than_the_coordinator_delete_nothing(older):
    @in_world
    async def scenario(world):
        scene = await Scene(world).start()
        scene.lead(has_topic=False, **older)
        scene.send(P0)
        await asyncio.sleep(5)
        assert scene.outcomes == {}
        scene.lead(1, 1)
        assert await scene.until(P0) == [WRITTEN]
        assert len(scene.leaders[1].requests) == 1

    scenario()


@in_world
async def test_coordinator_that_has_ended_sends_nothing_any_more(world):
    scene = await Scene(world).start()
    scene.leaders[1].answers = {("t", 0): [ErrorCode.not_leader_or_follower] * 3}
    scene.send(P0)
    await asyncio.sleep(0.01)
    scene.sender.forget(scene)
    before = len(scene.leaders[1].requests)
    await asyncio.sleep(10)
    assert len(scene.leaders[1].requests) == before
    assert scene.outcomes == {}
