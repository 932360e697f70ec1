"""The questions to share coordinators: bounded, in order for each share partition, and each answered once, whatever becomes of it."""

import asyncio
import uuid
from random import Random

import pytest

from esp.broker.groups.share_states import AT_A_TIME, GIVE_UP_MS, ShareStateQuestions
from esp.broker.tasks import Tasks
from esp.groups.share.effects import DeleteShareStates, InitialiseShareStates, ReadShareSummaries, ShareStart
from esp.groups.share.requests import ShareStateResult
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_state_records import ShareStateKey
from tests.unit.broker.groups.memory_states import MemoryStates, State
from tests.unit.broker.played_server import in_world

TOPIC = TopicId(uuid.UUID(int=7))
OK = ShareStateResult()


def partitions(*numbers):
    return tuple(TopicIdPartition(TOPIC, number) for number in numbers)


def key(number, group="g"):
    return ShareStateKey(group, TOPIC, number)


class Scene:
    """A coordinator's questions, and what was reported: by token the time and the results by number of partition."""

    def __init__(self, world, states=None):
        self.states = states or MemoryStates()
        self.reported = {}
        self.tasks = Tasks(world.env.host)
        self.questions = ShareStateQuestions(world.env.clock, self.tasks, self.states, self.report)

    def report(self, token, results):
        assert token not in self.reported, "reported twice"
        self.reported[token] = self.now, {one.partition: result for one, result in results.items()}

    @property
    def now(self):
        return round(asyncio.get_running_loop().time(), 2)

    def initialise(self, token, *numbers, epoch=2, offset=-1):
        starts = tuple(ShareStart(one, offset) for one in partitions(*numbers))
        self.questions.ask(InitialiseShareStates(token, "g", epoch, starts))

    def delete(self, token, *numbers):
        self.questions.ask(DeleteShareStates(token, "g", partitions(*numbers)))

    def read(self, token, *numbers):
        self.questions.ask(ReadShareSummaries(token, "g", partitions(*numbers)))

    def results(self, token):
        return self.reported[token][1]


@in_world
async def test_each_kind_of_question_is_asked_for_all_its_partitions_and_answered(world):
    scene = Scene(world)
    scene.initialise(1, 0, 1, epoch=4, offset=9)
    assert not scene.reported, "never before the call returns"
    await asyncio.sleep(1)
    assert scene.results(1) == {0: OK, 1: OK}
    scene.states.states[key(0)] = State(4, 9, leader_epoch=3, complete_count=2)
    scene.read(2, 0, 1, 2)
    await asyncio.sleep(1)
    assert scene.results(2) == {
        0: ShareStateResult(start_offset=9, leader_epoch=3, complete_count=2),
        1: ShareStateResult(start_offset=9, leader_epoch=0),
        2: ShareStateResult(leader_epoch=0),
    }
    scene.delete(3, 0, 1)
    await asyncio.sleep(1)
    assert scene.results(3) == {0: OK, 1: OK}
    assert not scene.states.states


@in_world
async def test_what_is_refused_of_one_partition_is_the_result_of_that_one(world):
    scene = Scene(world)
    scene.states.states[key(1)] = State(5, 0)
    scene.initialise(1, 0, 1, epoch=4)
    await asyncio.sleep(1)
    assert scene.results(1) == {0: OK, 1: ShareStateResult(ErrorCode.fenced_state_epoch)}


@in_world
async def test_many_are_asked_at_a_time_and_never_more_than_so_many(world):
    scene = Scene(world)
    for token in range(4):
        scene.initialise(token, *range(100 * token, 100 * token + 100))
    await asyncio.sleep(1)
    assert scene.states.most_at_a_time == AT_A_TIME
    assert all(scene.results(token) == {100 * token + n: OK for n in range(100)} for token in range(4))
    scene.initialise(5, *range(3 * AT_A_TIME), epoch=9)
    await asyncio.sleep(1)
    assert len(scene.results(5)) == 3 * AT_A_TIME


@in_world
async def test_a_share_coordinator_that_is_away_holds_up_its_own_partitions_alone_and_for_a_while(world):
    scene = Scene(world)
    scene.states.away.add(key(1))
    scene.initialise(1, 0, 1, 2)
    scene.initialise(2, 3)
    await asyncio.sleep(GIVE_UP_MS / 1000 - 1)
    assert scene.results(2) == {3: OK}
    assert 1 not in scene.reported
    await asyncio.sleep(2)
    assert scene.reported[1] == (GIVE_UP_MS / 1000, {0: OK, 2: OK})
    scene.states.away.clear()
    scene.initialise(3, 1, epoch=3)
    await asyncio.sleep(1)
    assert scene.results(3) == {1: OK}


@in_world
async def test_a_partition_that_is_answered_for_does_not_wait_for_the_others_of_its_question(world):
    scene = Scene(world)
    scene.states.away.add(key(1))
    scene.initialise(1, 0, 1)
    scene.read(2, 0)
    await asyncio.sleep(1)
    assert list(scene.results(2)) == [0]


@in_world
async def test_a_deletion_does_not_overtake_the_request_that_makes_the_state(world):
    scene = Scene(world)
    scene.states.delay_s = 3
    scene.initialise(1, 0)
    scene.delete(2, 0, 1)
    scene.read(3, 0)
    await asyncio.sleep(20)
    assert [(kind, asked.partition) for kind, asked, *_ in scene.states.asked] == [
        ("initialize", 0),
        ("delete", 1),
        ("delete", 0),
        ("read", 0),
    ]
    assert [scene.reported[token][0] for token in (1, 2, 3)] == [3, 6, 9]
    assert not scene.states.states


@in_world
async def test_the_next_question_is_asked_when_the_one_before_is_given_up(world):
    scene = Scene(world)
    scene.states.away.add(key(0))
    scene.initialise(1, 0)
    await asyncio.sleep(5)
    scene.delete(2, 0)
    await asyncio.sleep(GIVE_UP_MS / 1000 - 4)
    scene.states.away.clear()
    scene.delete(3, 0)
    await asyncio.sleep(GIVE_UP_MS / 1000)
    assert scene.results(1) == {}
    assert scene.reported[2] == (5 + GIVE_UP_MS / 1000, {}), "it was asked while the coordinator was away"
    assert scene.results(3) == {0: OK}


@in_world
async def test_nothing_is_asked_or_reported_after_the_end(world):
    scene = Scene(world)
    scene.states.delay_s = 1
    scene.initialise(1, *range(2 * AT_A_TIME))
    await asyncio.sleep(0.5)
    scene.delete(2, 0)
    scene.questions.end()
    await asyncio.sleep(20)
    assert len(scene.states.asked) == AT_A_TIME
    assert not scene.states.states
    assert not scene.reported
    scene.questions.end()


@in_world
async def test_a_report_that_ends_the_coordinator_ends_it(world):
    scene = Scene(world)
    report = scene.report
    scene.questions._report = lambda token, results: (report(token, results), scene.questions.end())
    scene.initialise(1, 0)
    scene.states.delay_s = 0.01
    scene.initialise(2, 1)
    await asyncio.sleep(1)
    assert set(scene.reported) == {1}


@pytest.mark.parametrize("seed", range(8))
@in_world
async def test_every_question_is_answered_once_whatever_share_coordinators_do(world, seed):
    rng = Random(seed)
    scene = Scene(world, MemoryStates(rng))
    for token in range(60):
        numbers = rng.sample(range(6), rng.randint(1, 4))
        rng.choice((scene.initialise, scene.delete, scene.read))(token, *numbers)
        if rng.random() < 0.3:
            await asyncio.sleep(rng.choice((0.01, 1, 8)))
    await asyncio.sleep(200)
    assert sorted(scene.reported) == list(range(60))
    assert not scene.questions._last
    assert not scene.questions._running
