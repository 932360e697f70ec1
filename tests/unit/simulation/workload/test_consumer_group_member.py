"""What a member of a consumer group tells in each heartbeat, and what it does about each answer."""

import asyncio
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.streams import stream
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.consumer_group_member import ConsumerGroupMember
from esp.simulation.workload.consumer_group_requests import Subscription, by_topic
from esp.simulation.workload.group_client import Reply
from esp.simulation.workload.history import History
from tests.unit.simulation.workload.scripted import answered_offsets

TOPIC = TopicId(uuid.UUID(int=1))
BY_NAME = Subscription(("topic",))
P0, P1 = TopicIdPartition(TOPIC, 0), TopicIdPartition(TOPIC, 1)
PROFILE = next(
    drawn
    for seed in range(100)
    if (drawn := ConsumerGroupProfile.draw(stream("consumer groups", seed), 3)) is not None and drawn.give_back_s < 0.1
)


class Coordinator:
    """Answers heartbeats by a script of (error or exception, epoch, assignment), of which the last one stands for all that follow."""

    def __init__(self, loop, *script):
        self.group_id = PROFILE.name
        self.client = SimpleNamespace(name="member", close=lambda: None)
        self.beats = []
        self.commits = []
        self._script = list(script)
        self._loop = loop

    def forget_coordinator(self):
        pass

    async def call(self, api_key, _version, message, _timeout_s=1.0):
        await asyncio.sleep(0.01)
        if api_key is ApiKey.CONSUMER_GROUP_HEARTBEAT:
            answer = self._beat(message)
        elif api_key is ApiKey.OFFSET_COMMIT:
            self.commits.append(message)
            answer = SimpleNamespace(topics=answered_offsets(message.topics))
        else:
            (group,) = message.groups
            told = SimpleNamespace(error_code=ErrorCode.none, topics=answered_offsets(group.topics))
            answer = SimpleNamespace(groups=(told,))
        return Reply(answer, self._loop.time(), True)

    def _beat(self, message):
        self.beats.append(message)
        error, epoch, assigned = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(error, Exception):
            raise error
        assignment = None
        if assigned is not None:
            parts = tuple(
                SimpleNamespace(topic_id=topic_id, partitions=tuple(numbers))
                for topic_id, numbers in by_topic(assigned).items()
            )
            assignment = SimpleNamespace(topic_partitions=parts)
        member_id = message.member_id or "made"
        return SimpleNamespace(error_code=error, member_id=member_id, member_epoch=epoch, assignment=assignment)


class Scene:
    def __init__(self, *script, subscription=BY_NAME, instance_id=None):
        self.loop = SimulatedLoop()
        self.coordinator = Coordinator(self.loop, *script)
        self.checker = ConsumerGroupChecker(self.loop.time, lambda _group: False, Random(0))
        offsets = GroupChecker(self.loop.time, lambda _group: False, lambda _group, _text: True)
        self.member = ConsumerGroupMember(
            self.coordinator,
            Random(3),
            History(lambda _who, _line: None),
            self.checker,
            offsets,
            PROFILE,
            subscription,
            {TOPIC: "topic"},
            instance_id,
        )

    def run(self, seconds, *, stops=False):
        async def main():
            running = self.loop.create_task(self.member.run())
            await asyncio.sleep(seconds)
            self.member.is_stopping = stops
            if not stops:
                self.member.die()
            await running

        self.loop.run(main())
        return self.coordinator.beats


def owned(request):
    if request.topic_partitions is None:
        return None
    return sorted(
        TopicIdPartition(topic.topic_id, number) for topic in request.topic_partitions for number in topic.partitions
    )


OK = ErrorCode.none


def test_member_tells_everything_once_and_then_what_changes():
    joined, told, silent, *_ = Scene((OK, 2, [P0]), (OK, 2, None)).run(5)
    assert (joined.member_epoch, owned(joined), joined.subscribed_topic_names) == (0, [], ("topic",))
    assert (told.member_epoch, owned(told), told.subscribed_topic_names) == (2, [P0], None)
    assert (silent.member_epoch, owned(silent), silent.subscribed_topic_names) == (2, None, None)


def test_member_that_lost_an_answer_tells_everything_again():
    _, _, lost, again, *_ = Scene((OK, 2, [P0]), (OK, 2, None), (NoAnswerError("lost"), 0, None), (OK, 2, None)).run(5)
    assert (owned(lost), owned(again), again.subscribed_topic_names) == (None, [P0], ("topic",))


def test_member_keeps_what_it_must_give_back_until_it_says_so():
    scene = Scene((OK, 2, [P0, P1]), (OK, 2, None), (OK, 2, [P0]), (OK, 3, None))
    beats = scene.run(5)
    assert [owned(one) for one in beats[:4]] == [[], [P0, P1], None, [P0]]
    assert scene.member.is_settled
    assert scene.checker.told == 2


@pytest.mark.parametrize("code", [ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id])
def test_member_that_is_fenced_gives_everything_up_and_joins_anew_under_its_id(code):
    _, fenced, anew, *_ = Scene((OK, 2, [P0]), (code, 0, None), (OK, 3, [])).run(5)
    assert (anew.member_epoch, owned(anew), anew.member_id) == (0, [], fenced.member_id)


def test_static_member_that_is_replaced_ends():
    scene = Scene((OK, 2, [P0]), (ErrorCode.fenced_instance_id, 0, None), instance_id="i")
    scene.run(5)
    assert scene.member.has_ended
    assert len(scene.coordinator.beats) == 2


def test_member_that_leaves_says_so():
    scene = Scene((OK, 2, [P0]), (OK, 2, None))
    assert scene.run(5, stops=True)[-1].member_epoch == -1
    assert scene.member.has_left


def test_member_whose_coordinator_has_gone_as_it_leaves_has_not_left():
    scene = Scene((OK, 2, [P0]), (OK, 2, None), (OK, 2, None), (ErrorCode.not_coordinator, 0, None))
    assert [beat.member_epoch for beat in scene.run(2.5, stops=True)][-1] == -1
    assert scene.member.has_ended
    assert not scene.member.has_left


def test_member_with_an_expression_tells_that():
    joined, *_ = Scene((OK, 2, []), subscription=Subscription(regex="t.*")).run(1)
    assert (joined.subscribed_topic_names, joined.subscribed_topic_regex) == ((), "t.*")


def test_member_that_reads_something_else_tells_everything():
    scene = Scene((OK, 2, [P0]), (OK, 2, None))
    scene.loop.call_later(2, scene.member.subscribe, Subscription(("another",)))
    assert ("another",) in [one.subscribed_topic_names for one in scene.run(5)]


def test_member_that_has_not_told_yet_what_it_reads_is_not_settled():
    scene = Scene((OK, 2, [P0]), (OK, 2, None))
    settled = []

    def look_and_subscribe():
        settled.append(scene.member.is_settled)
        scene.member.subscribe(Subscription(("another",)))
        settled.append(scene.member.is_settled)

    scene.loop.call_later(2, look_and_subscribe)
    scene.run(5)
    assert [*settled, scene.member.is_settled] == [True, False, True]


def test_member_commits_what_it_has_in_its_epoch():
    scene = Scene((OK, 2, [P0]), (OK, 2, None))
    scene.run(10)
    assert {commit.generation_id_or_member_epoch for commit in scene.coordinator.commits} == {2}
    assert scene.checker.commits == len(scene.coordinator.commits)
