"""A client that deletes what it committed, and has the checker see what is left."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_client import Reply
from esp.simulation.workload.group_dialects import CURRENT
from esp.simulation.workload.offset_deleter import GROUP, OffsetDeleter
from tests.unit.simulation.workload.scripted import new_history

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))


class Coordinator:
    """Keeps the offsets of one group, and answers at once; ``lost``: the share of answers that do not arrive."""

    def __init__(self, loop, lost=0.0):
        self.loop = loop
        self.group_id = GROUP
        self.dialect = CURRENT
        self.client = SimpleNamespace(name="deleter")
        self.offsets = {}
        self.deleted = []
        self.forgets = True
        self.forgotten = 0
        self._lost = lost
        self._rng = Random(1)

    def forget_coordinator(self):
        self.forgotten += 1

    async def call(self, key, _version, request):
        asked_s = self.loop.time()
        await asyncio.sleep(0.001)
        answer = {
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch,
            ApiKey.OFFSET_DELETE: self._delete,
            ApiKey.DELETE_GROUPS: self._delete_group,
        }[key](request)
        if self._rng.random() < self._lost:
            raise NoAnswerError("lost")
        await asyncio.sleep(0.001)
        return Reply(answer, asked_s, True)

    def _commit(self, request):
        self.offsets |= {
            TopicPartition(topic.name, part.partition_index): (part.committed_offset, part.committed_metadata)
            for topic in request.topics
            for part in topic.partitions
        }
        return SimpleNamespace(topics=_answers(request.topics))

    def _fetch(self, request):
        (group,) = request.groups
        topics = [
            SimpleNamespace(
                name=topic.name,
                partitions=[
                    SimpleNamespace(
                        partition_index=number,
                        error_code=ErrorCode.none,
                        committed_offset=self.offsets.get(TopicPartition(topic.name, number), (-1, ""))[0],
                        metadata=self.offsets.get(TopicPartition(topic.name, number), (-1, ""))[1],
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics
        ]
        return SimpleNamespace(groups=[SimpleNamespace(error_code=ErrorCode.none, topics=topics)])

    def _delete(self, request):
        self.deleted.append("offsets")
        for topic in request.topics:
            for part in topic.partitions:
                if self.forgets:
                    self.offsets.pop(TopicPartition(topic.name, part.partition_index), None)
        return SimpleNamespace(error_code=ErrorCode.none, topics=_answers(request.topics))

    def _delete_group(self, _request):
        self.deleted.append("group")
        is_there = bool(self.offsets)
        if self.forgets:
            self.offsets.clear()
        code = ErrorCode.none if is_there else ErrorCode.group_id_not_found
        return SimpleNamespace(results=[SimpleNamespace(error_code=code)])


def _answers(topics):
    return [
        SimpleNamespace(
            name=topic.name,
            partitions=[
                SimpleNamespace(partition_index=part.partition_index, error_code=ErrorCode.none)
                for part in topic.partitions
            ],
        )
        for topic in topics
    ]


def act(count=200, *, lost=0.0, forgets=True):
    """The coordinator, the checker and the history after so many actions, and how often a deletion was announced."""
    loop = SimulatedLoop()
    coordinator = Coordinator(loop, lost)
    coordinator.forgets = forgets
    checker = GroupChecker(loop.time, lambda _group: False, lambda _group, _metadata: True)
    history, announced = new_history(), []
    deleter = OffsetDeleter(coordinator, Random(2), history, checker, PARTITIONS)

    def announce():
        announced.append(len(coordinator.deleted))
        deleter.is_stopping = len(announced) >= count

    deleter.before_deletion = announce
    loop.run(deleter.run(), limit_s=36_000)
    return coordinator, checker, history, announced


def test_offsets_and_groups_are_deleted_and_each_deletion_is_announced_before_it_is_sent():
    coordinator, checker, history, announced = act()
    assert {"offsets", "group"} == {*coordinator.deleted}
    assert announced == list(range(200))
    assert history.done["offsets deleted"] > 50
    assert history.done["groups deleted"] > 20
    assert checker.acked_deletions > 100


def test_answers_that_are_lost_are_no_violation():
    _, checker, _, _ = act(lost=0.3)
    assert checker.acked_deletions > 50


def test_offsets_that_stay_are_found():
    with pytest.raises(ViolationError, match=r"INV-GROUP-OFFSETS.* which had been deleted"):
        act(forgets=False)
