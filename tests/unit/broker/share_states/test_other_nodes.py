"""Share coordinators of other nodes are asked in messages: batches, lost connections, answers that are none."""

import asyncio
import uuid

import pytest

from esp.broker.share_states.messages import build_response, kind_of, read_request_message
from esp.broker.share_states.other_nodes import TIMEOUT_MS, OtherNodes
from esp.broker.tasks import Tasks
from esp.broker.turns.request_parts import STATES
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId, TopicId
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.coordinator.requests import Delete, Done, Initialize, Read, ReadSummary, Refused, Write
from esp.share.persister import PersistedRead, PersistedSummary
from tests.unit.broker.played_server import in_world

T = TopicId(uuid.UUID(int=7))
PLACE = Address("127.0.0.1", 9101)
TWO = NodeId(2)
APIS = (
    "initialize_share_group_state",
    "read_share_group_state",
    "write_share_group_state",
    "delete_share_group_state",
    "read_share_group_state_summary",
)
BATCH = StateBatch(3, 5, RecordState.ACKNOWLEDGED, 1)
RESULTS = {
    Initialize: Done(),
    Read: PersistedRead(3, 3, (BATCH,)),
    Write: Done(),
    Delete: Done(),
    ReadSummary: PersistedSummary(3, 2, 3, 1),
}


def key(partition=0, group="g"):
    return ShareStateKey(group, T, partition)


def well(message):
    """The answer of a coordinator to which everything is right."""
    kind = kind_of(message)
    return build_response(kind, [(each, RESULTS[kind]) for each, _ in read_request_message(message)])


class Host:
    def fatal(self, reason):
        raise AssertionError(reason)


class Scene:
    """Node 2, which answers by ``handler``, as another node asks it."""

    def __init__(self, world, server):
        self.loop = world.loop
        self.server = server
        self.tasks = Tasks(Host())
        self.others = OtherNodes(world.env, NodeId(1), self.tasks, {TWO: PLACE}.get, terms=PLAINTEXT)

    def ask(self, request):
        return self.loop.create_task(self.others.ask(TWO, request))

    @property
    def partitions(self):
        """The partitions of each message that has come."""
        return [[each.partition for each, _ in read_request_message(message)] for _, message in self.server.seen]


async def scene_of(world, handler=well):
    return Scene(world, await world.server(PLACE, **dict.fromkeys(APIS, handler)))


@in_world
async def test_each_kind_of_question_has_its_api(world):
    scene = await scene_of(world)
    requests = [
        Initialize(key(), 3, -1),
        Read(key(), 2),
        Write(key(), 3, 2, 3, 1, (BATCH,)),
        Delete(key()),
        ReadSummary(key()),
    ]
    for request in requests:
        assert await scene.ask(request) == RESULTS[type(request)]
    assert tuple(name for name, _ in scene.server.seen) == APIS
    assert [next(read_request_message(message)) for _, message in scene.server.seen] == [
        (key(), request) for request in requests
    ]


@in_world
async def test_questions_that_come_meanwhile_make_up_the_next_message(world):
    scene = await scene_of(world)
    asked = [scene.ask(Read(key(number), 0)) for number in range(2)]
    await asyncio.sleep(0.0001)
    asked += [scene.ask(Read(key(number), 0)) for number in range(2, 4)]
    others = [scene.ask(Read(key(9, group="h"), 0)), scene.ask(Delete(key(8)))]
    assert [await each for each in asked] == [RESULTS[Read]] * 4
    assert [await each for each in others] == [RESULTS[Read], Done()]
    assert sorted(scene.partitions) == [[0, 1], [2, 3], [8], [9]]
    assert scene.server.accepted == 1


@in_world
async def test_a_message_has_one_question_about_a_share_partition_and_not_too_many(world):
    scene = await scene_of(world)
    asked = [scene.ask(Delete(key(number))) for number in (7, *range(STATES + 5), 7)]
    for each in asked:
        assert await each == Done()
    first, second, third = scene.partitions
    assert first == [7, *(number for number in range(STATES) if number != 7)]
    assert second == [7, *range(STATES, STATES + 5)]
    assert third == [7]


@in_world
async def test_results_are_those_of_their_share_partitions(world):
    def answer(message):
        refused = Refused(ErrorCode.fenced_leader_epoch, "old")
        return build_response(
            Read, [(each, RESULTS[Read] if each.partition else refused) for each, _ in read_request_message(message)]
        )

    scene = await scene_of(world, answer)
    asked = [scene.ask(Read(key(number), 0)) for number in (5, 0, 1)]
    assert [await each for each in asked] == [
        RESULTS[Read],
        Refused(ErrorCode.fenced_leader_epoch, "old"),
        RESULTS[Read],
    ]


@in_world
async def test_question_that_the_answer_says_nothing_of_has_failed(world):
    scene = await scene_of(world, lambda message: build_response(kind_of(message), []))
    assert (await scene.ask(Read(key(), 0))).error is ErrorCode.unknown_server_error


@in_world
async def test_lost_connection_is_no_answer_to_all_that_were_asked_over_it(world):
    scene = await scene_of(world, lambda _message: None)
    asked = [scene.ask(Read(key(), 0)), scene.ask(Delete(key()))]
    await asyncio.sleep(1)
    waits = scene.ask(Read(key(1), 0))
    scene.server.kill()
    for each in (*asked, waits):
        assert (await each).error is ErrorCode.network_exception
    assert world.loop.time() < 2


@in_world
async def test_node_without_an_address_is_no_answer(world):
    scene = await scene_of(world)
    result = await scene.others.ask(NodeId(3), Read(key(), 0))
    assert result.error is ErrorCode.network_exception
    assert "node 3 has no address" in result.message


@in_world
async def test_node_that_does_not_answer_is_given_up_after_a_while_or_when_it_is_gone(world):
    scene = await scene_of(world, lambda _message: None)
    assert (await scene.ask(Read(key(), 0))).error is ErrorCode.network_exception
    assert TIMEOUT_MS <= world.loop.time() * 1000 < TIMEOUT_MS + 1000
    asked = scene.ask(Read(key(), 0))
    await asyncio.sleep(1)
    scene.others.retain(frozenset((NodeId(1),)))
    assert (await asked).error is ErrorCode.network_exception
    assert world.loop.time() * 1000 < TIMEOUT_MS + 2500


@in_world
async def test_asker_that_has_gone_disturbs_no_other(world):
    scene = await scene_of(world)
    asked = [scene.ask(Read(key(number), 0)) for number in range(3)]
    await asyncio.sleep(0)
    asked[1].cancel()
    assert await asked[0] == await asked[2] == RESULTS[Read]
    with pytest.raises(asyncio.CancelledError):
        await asked[1]


@in_world
async def test_question_whose_asker_has_gone_before_it_was_sent_is_not_asked(world):
    scene = await scene_of(world)
    first = scene.ask(Read(key(0), 1))
    await asyncio.sleep(0)
    given_up, other = scene.ask(Read(key(1), 1)), scene.ask(Read(key(2), 1))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await first == await other == RESULTS[Read]
    assert scene.partitions == [[0], [2]]
    alone = scene.ask(Read(key(3), 1))
    await asyncio.sleep(0)
    alone.cancel()
    assert await scene.ask(Read(key(4), 1)) == RESULTS[Read]
    assert scene.partitions[-1] == [4]


@in_world
async def test_end_of_the_node_ends_the_questions(world):
    scene = await scene_of(world, lambda _message: None)
    asked = [scene.ask(Read(key(number), 0)) for number in range(3)]
    await asyncio.sleep(1)
    await scene.tasks.stop()
    scene.others.close()
    for each in asked:
        with pytest.raises(asyncio.CancelledError):
            await each
