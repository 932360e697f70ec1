"""Somebody deletes records of what is committed, and tells the checker first."""

from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.record_deleter import RecordDeleter
from tests.unit.simulation.workload.scripted import TOPIC, ScriptedCluster, ScriptedConnection, new_history
from tests.unit.storage.helpers import TOPIC_ID


class PlayedChecker:
    def __init__(self, committed):
        self.committed = committed
        self.is_start_known = True
        self.told = []

    def committed_end(self, _key):
        return self.committed

    def asked(self, _key):
        return max([offset for kind, offset in self.told if kind == "asked"], default=0)

    def retained_end(self, _key):
        return 2

    def knows_start(self, _key):
        return self.is_start_known

    def on_asked(self, _key, offset):
        self.told.append(("asked", offset))

    def on_deleted(self, who, offset, low_watermark, durable_start):
        assert (who, durable_start) == (f"{TOPIC}-0", 77)
        assert offset == low_watermark
        self.told.append(("deleted", offset))


class Scene:
    def __init__(self, answer, *, committed=9, configs=()):
        self.history = new_history()
        self.checker = PlayedChecker(committed)
        self.connection = ScriptedConnection(answer)
        topic = SimpleNamespace(name=TOPIC, topic_id=TOPIC_ID, partitions=[None], configs=dict(configs))
        image = SimpleNamespace(topics_by_id={TOPIC_ID: topic})
        self.deleter = RecordDeleter(
            ScriptedCluster(self.connection),
            Random(1),
            self.history,
            lambda: image,
            self.checker,
            lambda node_id, name, epoch: 77 if (node_id, name, epoch) == (1, (TOPIC, 0), 5) else None,
        )

    def run(self, seconds=10.0):
        async def main(loop):
            loop.call_later(seconds, lambda: setattr(self.deleter, "is_stopping", True))
            await self.deleter.run()

        loop = SimulatedLoop()
        loop.run(main(loop), limit_s=3600)


def done(code=ErrorCode.none):
    def answer(message):
        partition = message.topics[0].partitions[0]
        part = SimpleNamespace(error_code=code, low_watermark=partition.offset)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])

    return answer


def test_offsets_rise_up_to_what_is_committed_and_the_checker_knows_of_each_before():
    scene = Scene(done())
    scene.run(60)
    asked = [offset for kind, offset in scene.checker.told if kind == "asked"]
    assert asked == sorted(set(asked))
    assert asked[-1] == 9
    assert scene.checker.told == [entry for offset in asked for entry in (("asked", offset), ("deleted", offset))]
    assert scene.history.done["records deleted"] == len(asked)


def test_deletion_of_what_groups_hold_is_told_with_the_start_that_the_log_may_have_had():
    scene, told = Scene(done(), configs={"retention.hold.groups": "a,b"}), []
    scene.deleter.on_held_deleted = lambda *words: told.append(words)
    scene.run(60)
    ends = [offset for kind, offset in scene.checker.told if kind == "deleted"]
    starts = [max(2, end) for end in (0, *ends)]
    assert told == [((TOPIC, 0), ("a", "b"), start, end) for start, end in zip(starts, ends, strict=False)]


def test_deletion_is_not_told_where_more_was_lost_than_is_promised():
    scene, told = Scene(done(), configs={"retention.hold.groups": "a,b"}), []
    scene.checker.is_start_known = False
    scene.deleter.on_held_deleted = lambda *words: told.append(words)
    scene.run(60)
    assert any(kind == "deleted" for kind, _ in scene.checker.told)
    assert not told


@pytest.mark.parametrize("answer", [done(ErrorCode.not_leader_or_follower), NoAnswerError("lost")])
def test_what_is_refused_or_lost_may_be_done_all_the_same(answer):
    scene = Scene(answer)
    scene.run()
    assert scene.checker.told
    assert all(kind == "asked" for kind, _ in scene.checker.told)
    assert scene.history.refusals + scene.history.no_answers > 0


def test_where_nothing_is_committed_nothing_is_asked_for():
    scene = Scene(done(), committed=0)
    scene.run()
    assert not scene.connection.sent
