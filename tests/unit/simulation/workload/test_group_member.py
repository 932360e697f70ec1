"""What a member does about each answer."""

import asyncio
from collections import defaultdict
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.group_profile import GroupProfile
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_client import Reply
from esp.simulation.workload.group_dialects import CURRENT, OLDER
from esp.simulation.workload.group_member import GroupMember
from esp.simulation.workload.history import History

PARTITIONS = (TopicPartition("flights", 0), TopicPartition("flights", 1), TopicPartition("flights", 2))
FIRST_JOIN_IN_TWO_STEPS = 4
"""From this version on, a member without an id is given one first, and joins with it (KIP-394)."""

PROFILE = GroupProfile(
    name="group",
    members=1,
    static_members=0,
    session_s=1.0,
    rebalance_s=2.0,
    calm_s=5.0,
    has_outsider=False,
)


class Coordinator:
    """Keeps a group of one member, or two, and its offsets; ``errors`` are given instead of answers."""

    def __init__(self, loop, others=(), dialect=CURRENT):
        self.dialect = dialect
        self.group_id = PROFILE.name
        self.client = SimpleNamespace(name="member", close=lambda: None)
        self.errors = defaultdict(list)
        self.asked = []
        self.versions = defaultdict(set)
        self.committed = {}
        self.generation = 0
        self.others = others
        self.forgotten = 0
        self.takes_all = False
        self._loop = loop
        self._next_id = 0

    def forget_coordinator(self):
        self.forgotten += 1

    async def call(self, api_key, version, message, timeout_s=1.0):
        self.asked.append((api_key, message))
        self.versions[api_key].add(version)
        await self._wait()
        error = self.errors[api_key].pop(0) if self.errors[api_key] else ErrorCode.none
        if isinstance(error, Exception):
            raise error
        answer = getattr(self, api_key.name.lower())(message, error)
        return Reply(answer, self._loop.time(), True)

    async def _wait(self):
        await asyncio.sleep(0.01)

    def join_group(self, message, error):
        member_id = message.member_id
        is_new = not member_id and error is ErrorCode.none
        if is_new:
            self._next_id += 1
            member_id = f"{message.group_instance_id or 'member'}-{self._next_id}"
        if is_new and self.dialect.join >= FIRST_JOIN_IN_TWO_STEPS:
            error = ErrorCode.member_id_required
        else:
            self.generation += 1
        members = tuple(SimpleNamespace(member_id=name) for name in (member_id, *self.others))
        return SimpleNamespace(
            error_code=error, member_id=member_id, generation_id=self.generation, leader=member_id, members=members
        )

    def sync_group(self, message, error):
        parts = {each.member_id: each.assignment for each in message.assignments}
        return SimpleNamespace(error_code=error, assignment=parts.get(message.member_id, b""))

    def heartbeat(self, _message, error):
        return SimpleNamespace(error_code=error)

    def leave_group(self, _message, error):
        return SimpleNamespace(error_code=error)

    def offset_commit(self, message, error):
        topics = []
        if message.generation_id_or_member_epoch != self.generation and not self.takes_all:
            error = ErrorCode.illegal_generation
        for topic in message.topics:
            for part in topic.partitions:
                if error is ErrorCode.none:
                    partition = TopicPartition(topic.name, part.partition_index)
                    self.committed[partition] = (part.committed_offset, part.committed_metadata)
            parts = [
                SimpleNamespace(partition_index=part.partition_index, error_code=error) for part in topic.partitions
            ]
            topics.append(SimpleNamespace(name=topic.name, partitions=parts))
        return SimpleNamespace(topics=topics)

    def offset_fetch(self, message, error):
        topics = []
        is_single = self.dialect.fetch <= requests.LAST_SINGLE_FETCH
        part_error = error if is_single else ErrorCode.none
        for topic in message.topics if is_single else message.groups[0].topics:
            parts = []
            for number in topic.partition_indexes:
                offset, text = self.committed.get(TopicPartition(topic.name, number), (-1, ""))
                parts.append(
                    SimpleNamespace(
                        partition_index=number, error_code=part_error, committed_offset=offset, metadata=text
                    )
                )
            topics.append(SimpleNamespace(name=topic.name, partitions=parts))
        group = SimpleNamespace(error_code=error, topics=topics)
        return group if is_single else SimpleNamespace(groups=[group])


class Scene:
    def __init__(self, *, instance_id=None, others=(), dialect=CURRENT):
        self.loop = SimulatedLoop()
        self.coordinator = Coordinator(self.loop, others, dialect)
        self.checker = GroupChecker(self.loop.time, lambda _group: False, lambda _group, _metadata: True)
        self.lines = []
        history = History(lambda _who, line: self.lines.append(line))
        self.member = GroupMember(self.coordinator, Random(1), history, self.checker, PROFILE, PARTITIONS, instance_id)

    def run(self, seconds, *, stops=True):
        if stops:
            self.loop.call_later(seconds, lambda: setattr(self.member, "is_stopping", True))
        self.loop.run(self.member.run())
        assert self.member.has_ended

    def asked(self, api_key):
        return [message for asked, message in self.coordinator.asked if asked is api_key]


def test_member_alone_leads_owns_everything_commits_and_leaves():
    scene = Scene()
    scene.run(10)
    assert set(scene.member.positions) == set(PARTITIONS)
    assert {partition: offset for partition, (offset, _) in scene.coordinator.committed.items()} == {
        **scene.member.positions
    }
    assert len(scene.asked(ApiKey.LEAVE_GROUP)) == 1
    assert scene.asked(ApiKey.HEARTBEAT)


@pytest.mark.parametrize("dialect", OLDER, ids=lambda dialect: dialect.release)
def test_a_member_of_an_old_release_works_in_its_own_versions(dialect):
    scene = Scene(dialect=dialect)
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.rebalance_in_progress]
    scene.run(10)
    assert set(scene.member.positions) == set(PARTITIONS)
    assert scene.coordinator.committed
    assert scene.coordinator.versions == {
        ApiKey.JOIN_GROUP: {dialect.join},
        ApiKey.SYNC_GROUP: {dialect.sync},
        ApiKey.HEARTBEAT: {dialect.heartbeat},
        ApiKey.LEAVE_GROUP: {dialect.leave},
        ApiKey.OFFSET_COMMIT: {dialect.commit},
        ApiKey.OFFSET_FETCH: {dialect.fetch},
    }


@pytest.mark.parametrize("dialect", [OLDER[0], OLDER[1], CURRENT], ids=lambda dialect: dialect.release)
def test_a_member_looks_for_the_coordinator_again_that_cannot_tell_what_is_committed(dialect):
    scene = Scene(dialect=dialect)
    scene.coordinator.errors[ApiKey.OFFSET_FETCH] = [ErrorCode.not_coordinator]
    scene.run(3)
    assert scene.coordinator.forgotten == 1
    assert len(scene.asked(ApiKey.OFFSET_FETCH)) == 2


def test_leader_gives_each_partition_to_one_member():
    scene = Scene(others=("other",))
    scene.run(2)
    (message,) = scene.asked(ApiKey.SYNC_GROUP)
    assert len(message.assignments) == 2
    assert 0 < len(scene.member.positions) < len(PARTITIONS)


def test_member_goes_on_from_what_is_committed():
    scene = Scene()
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.rebalance_in_progress]
    scene.run(10)
    fetches = scene.asked(ApiKey.OFFSET_FETCH)
    assert len(fetches) == 2
    offsets = [offset for offset, _ in scene.coordinator.committed.values()]
    assert min(offsets) > 5


def test_member_that_is_unknown_comes_back_without_its_id():
    scene = Scene()
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.unknown_member_id]
    scene.run(10)
    assert [message.member_id for message in scene.asked(ApiKey.JOIN_GROUP)] == ["", "member-1", "", "member-2"]


@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, NoAnswerError("the connection ended")])
def test_coordinator_that_is_away_changes_nothing_for_the_member(error):
    scene = Scene()
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [error]
    scene.run(10)
    assert len(scene.asked(ApiKey.JOIN_GROUP)) == 2


def test_member_commits_for_the_generation_before_too():
    scene = Scene()
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.rebalance_in_progress] * 20
    scene.run(20)
    assert scene.coordinator.generation == 21
    late = [line for line in scene.lines if line == "is refused: late commit: illegal_generation"]
    assert 0 < len(late) < 20


def test_coordinator_that_takes_a_commit_of_the_generation_before_is_found():
    scene = Scene()
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.rebalance_in_progress] * 20
    scene.coordinator.takes_all = True
    with pytest.raises(ViolationError, match=r"^INV-GROUP-FENCED at "):
        scene.run(20)


def test_member_whose_name_another_process_has_ends():
    scene = Scene(instance_id="name")
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.fenced_instance_id]
    scene.run(0, stops=False)
    assert scene.asked(ApiKey.LEAVE_GROUP) == []


def test_dead_member_says_nothing_more_also_if_it_stood_still():
    scene = Scene()
    scene.loop.call_later(5, lambda: scene.member.stand_still(3))
    asked = []
    scene.loop.call_later(6, lambda: (asked.append(len(scene.coordinator.asked)), scene.member.die()))
    scene.run(0, stops=False)
    assert len(scene.coordinator.asked) == asked[0]


def test_offset_that_was_lost_between_two_generations_is_found():
    scene = Scene()
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.rebalance_in_progress]
    scene.coordinator.offset_commit_kept = scene.coordinator.offset_commit

    def forget(message, error):
        answer = scene.coordinator.offset_commit_kept(message, error)
        scene.coordinator.committed.clear()
        return answer

    scene.coordinator.offset_commit = forget
    scene.coordinator.errors[ApiKey.HEARTBEAT] = [ErrorCode.none, ErrorCode.none, ErrorCode.rebalance_in_progress]
    with pytest.raises(ViolationError, match=r"^INV-GROUP-OFFSETS at "):
        scene.run(20)
