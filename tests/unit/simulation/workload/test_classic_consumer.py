"""The requests of a member of the classic protocol, and its answer to each error."""

import asyncio
import dataclasses
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.groups.embedded_protocol import read_assignment, read_subscription
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.streams import stream
from esp.simulation.workload import classic_member_requests as requests
from esp.simulation.workload.classic_consumer import ClassicConsumer
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.consumer_group_requests import Subscription
from esp.simulation.workload.group_client import Reply
from tests.unit.simulation.workload.scripted import answered_offsets, new_history, partition_key

TOPIC, OTHER = TopicId(uuid.UUID(int=1)), TopicId(uuid.UUID(int=2))
NAMES = {TOPIC: "topic", OTHER: "other"}
P0, P1 = TopicIdPartition(TOPIC, 0), TopicIdPartition(TOPIC, 1)
BY_NAME = Subscription(("topic",))
DRAWN = next(
    drawn
    for seed in range(100)
    if (drawn := ConsumerGroupProfile.draw(stream("consumer groups", seed), 3)) is not None and drawn.give_back_s < 0.1
)
EAGER, COOPERATIVE = (dataclasses.replace(DRAWN, is_cooperative=is_cooperative) for is_cooperative in (False, True))
ME = "me"


class Coordinator:
    """Answers with success, or first with the errors that a test has put into ``errors`` for an API."""

    def __init__(self, loop, assignments):
        self.group_id = DRAWN.name
        self.client = SimpleNamespace(name="member", close=self._close)
        self.is_closed = False
        self.errors = {}
        self.members = ()
        """The members that the leader is told of; the member leads where there are any."""
        self.sent = []
        """Every request with its API."""
        self.forgotten = 0
        self._assignments = list(assignments)
        """The assignment of each generation; the last one stands for all that follow."""
        self._committed = {}
        self._generation = 0
        self._loop = loop

    def _close(self):
        self.is_closed = True

    def forget_coordinator(self):
        self.forgotten += 1

    def requests(self, api_key):
        return [request for key, request in self.sent if key is api_key]

    async def call(self, api_key, _version, message, _timeout_s=1.0):
        self.sent.append((api_key, message))
        await asyncio.sleep(0.01)
        errors = self.errors.get(api_key, [])
        error = errors.pop(0) if errors else ErrorCode.none
        if isinstance(error, Exception):
            raise error
        return Reply(self._answer(api_key, message, error), self._loop.time(), True)

    def _answer(self, api_key, message, error):
        if api_key is ApiKey.JOIN_GROUP:
            self._generation += error is ErrorCode.none
            return SimpleNamespace(
                error_code=error,
                member_id=ME,
                generation_id=self._generation,
                leader=ME if self.members else "another",
                members=self.members,
            )
        if api_key is ApiKey.SYNC_GROUP:
            assigned = self._assignments.pop(0) if len(self._assignments) > 1 else self._assignments[0]
            named = [TopicPartition(NAMES[topic_id], number) for topic_id, number in assigned]
            return SimpleNamespace(error_code=error, assignment=requests.assignment(named))
        if api_key is ApiKey.OFFSET_COMMIT:
            for topic in message.topics:
                for part in topic.partitions:
                    told = int(part.committed_offset), part.committed_metadata
                    self._committed[partition_key(topic, part.partition_index)] = told
            return SimpleNamespace(topics=answered_offsets(message.topics))
        if api_key is ApiKey.OFFSET_FETCH:
            (group,) = message.groups
            return SimpleNamespace(
                groups=(SimpleNamespace(error_code=error, topics=answered_offsets(group.topics, self._committed)),)
            )
        return SimpleNamespace(error_code=error)


class Checker(ConsumerGroupChecker):
    """Remembers the partitions that were given back, beside its own work."""

    def __init__(self, now):
        super().__init__(now, lambda _group: False, Random(0))
        self.given_back = []

    def on_given_back(self, group_id, member_id, partitions):
        self.given_back += sorted(partitions)
        super().on_given_back(group_id, member_id, partitions)


class Scene:
    def __init__(self, *assignments, profile=EAGER, instance_id=None):
        self.loop = SimulatedLoop()
        self.coordinator = Coordinator(self.loop, assignments or ([P0],))
        self.checker = Checker(self.loop.time)
        self.partitions = [P0, P1]
        self.member = ClassicConsumer(
            self.coordinator,
            Random(3),
            new_history(),
            self.checker,
            GroupChecker(self.loop.time, lambda _group: False, lambda _group, _text: True),
            profile,
            BY_NAME,
            NAMES,
            lambda: self.partitions,
            instance_id,
        )

    def run(self, seconds, *, stops=False):
        """Let the member take part so long, and then leave or die."""

        async def main():
            running = self.loop.create_task(self.member.run())
            await asyncio.sleep(seconds)
            self.owned, self.was_settled = set(self.member.owned), self.member.is_settled
            self.member.is_stopping = stops
            if not stops:
                self.member.die()
            await running

        self.loop.run(main())

    @property
    def joins(self):
        return self.coordinator.requests(ApiKey.JOIN_GROUP)

    @property
    def subscriptions(self):
        return [read_subscription(join.protocols[0].metadata) for join in self.joins]


def test_a_member_joins_and_uses_its_assignment_until_it_dies():
    scene = Scene([P0])
    scene.run(5)
    assert [(join.member_id, join.protocols[0].name) for join in scene.joins] == [("", "range")]
    assert scene.subscriptions[0].topics == ("topic",)
    (sync,) = scene.coordinator.requests(ApiKey.SYNC_GROUP)
    assert (sync.member_id, sync.generation_id, sync.assignments) == (ME, 1, ())
    assert (scene.owned, scene.was_settled) == ({P0}, True)
    assert {beat.generation_id for beat in scene.coordinator.requests(ApiKey.HEARTBEAT)} == {1}
    assert scene.member.has_ended
    assert not scene.member.has_left
    assert scene.coordinator.is_closed


def test_a_member_that_has_to_give_its_id_joins_again_with_it():
    scene = Scene()
    scene.coordinator.errors[ApiKey.JOIN_GROUP] = [ErrorCode.member_id_required]
    scene.run(5)
    assert [join.member_id for join in scene.joins] == ["", ME]
    assert scene.was_settled


@pytest.mark.parametrize(("profile", "named", "given_back"), [(EAGER, (), [P0]), (COOPERATIVE, ("topic",), [])])
def test_only_a_cooperative_member_keeps_its_partitions_when_it_joins_again(profile, named, given_back):
    scene = Scene([P0], profile=profile)
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.none, ErrorCode.rebalance_in_progress]
    scene.run(5)
    first, again = scene.subscriptions
    assert first.owned == ()
    assert tuple(one.topic for one in again.owned) == named
    assert scene.checker.given_back == given_back
    assert [sync.generation_id for sync in scene.coordinator.requests(ApiKey.SYNC_GROUP)] == [1, 2]
    assert scene.owned == {P0}


def test_a_cooperative_member_gives_back_first_and_joins_again_to_say_so():
    scene = Scene([P0, P1], [P0], profile=COOPERATIVE)
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.rebalance_in_progress]
    scene.run(5)
    owned = [[one.partition for one in subscription.owned] for subscription in scene.subscriptions]
    assert owned == [[], [0, 1], [0]]
    assert scene.checker.given_back == [P1]
    assert (scene.owned, scene.was_settled) == ({P0}, True)


def subscribed(member_id):
    return SimpleNamespace(member_id=member_id, metadata=requests.subscription(("topic",), ()))


def test_the_leader_shares_out_every_partition_and_does_so_again_when_some_are_added():
    scene = Scene()
    scene.coordinator.members = (subscribed(ME), subscribed("another"))
    added = TopicIdPartition(TOPIC, 2)
    scene.loop.call_later(2, lambda: scene.partitions.append(added))
    scene.run(5)
    shares = [
        [read_assignment(each.assignment).partitions for each in sync.assignments]
        for sync in scene.coordinator.requests(ApiKey.SYNC_GROUP)
    ]
    assert [sorted(one.partition for share in each for one in share) for each in shares] == [[0, 1], [0, 1, 2]]
    assert all(len(each) == 2 for each in shares)


@pytest.mark.parametrize(("code", "member_id"), [(ErrorCode.unknown_member_id, ""), (ErrorCode.illegal_generation, ME)])
def test_a_member_that_is_fenced_gives_all_back_and_joins_anew(code, member_id):
    scene = Scene([P0], profile=COOPERATIVE)
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [code]
    scene.run(5)
    assert scene.joins[1].member_id == member_id
    assert scene.subscriptions[1].owned == ()
    assert scene.checker.given_back == [P0]
    assert scene.was_settled


def test_a_coordinator_that_is_away_changes_nothing_for_a_member():
    scene = Scene([P0])
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.not_coordinator, NoAnswerError("lost")]
    scene.run(5)
    assert len(scene.joins) == 1
    assert scene.coordinator.forgotten == 1
    assert (scene.owned, scene.was_settled) == ({P0}, True)


def test_a_static_member_that_is_replaced_ends():
    scene = Scene([P0], instance_id="i")
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.fenced_instance_id]
    scene.run(5)
    assert scene.member.has_ended
    assert len(scene.joins) == len(scene.coordinator.requests(ApiKey.HEARTBEAT)) == 1


@pytest.mark.parametrize(
    ("instance_id", "is_hasty", "leaves"), [(None, False, True), ("i", False, False), ("i", True, True)]
)
def test_a_member_leaves_the_group_unless_it_is_static_and_comes_back(instance_id, is_hasty, leaves):
    scene = Scene([P0], instance_id=instance_id)
    scene.member.is_hasty = is_hasty
    scene.run(5, stops=True)
    assert scene.member.has_left is leaves
    assert len(scene.coordinator.requests(ApiKey.LEAVE_GROUP)) == leaves
    assert scene.checker.given_back == [P0]
    assert scene.member.owned == set()


def test_a_member_that_reads_other_topics_joins_again_for_them():
    scene = Scene([P0])
    scene.loop.call_later(2, scene.member.subscribe, BY_NAME)
    scene.loop.call_later(3, scene.member.subscribe, Subscription(("other",)))
    scene.run(6)
    assert [subscription.topics for subscription in scene.subscriptions] == [("topic",), ("other",)]


def test_a_member_commits_in_its_generation():
    scene = Scene([P0])
    scene.run(10)
    commits = scene.coordinator.requests(ApiKey.OFFSET_COMMIT)
    assert {commit.generation_id_or_member_epoch for commit in commits} == {1}
