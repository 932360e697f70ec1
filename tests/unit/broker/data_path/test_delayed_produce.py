import asyncio
import uuid
from types import SimpleNamespace

import pytest

from esp.broker.data_path.delayed_produce import DelayedProduce
from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop

EPOCH = 4


class Played:
    """Some partitions, and a delayed produce whose answers are counted."""

    def __init__(self, count=2):
        self.answers = []
        self.partitions = []
        for number in range(count):
            log = SimpleNamespace(high_watermark=0)
            hosted = HostedPartition(
                TopicPartition("t", number), TopicId(uuid.UUID(int=7)), log, lambda hosted: hosted.wake(), None
            )
            hosted.leader = SimpleNamespace(leader_epoch=EPOCH, has_enough_replicas=lambda: True)
            self.partitions.append(hosted)
        self.delayed = DelayedProduce()

    def commit(self, number, high_watermark):
        self.partitions[number].log.high_watermark = high_watermark
        self.partitions[number].wake()

    def start(self, *places, timeout_ms=1000):
        for place, (number, next_offset) in enumerate(places):
            self.delayed.add(place, self.partitions[number], next_offset, EPOCH)
        self.delayed.start(SimulatedClock(asyncio.get_running_loop()), timeout_ms, self.answers.append)


def played(scenario):
    async def main():
        await scenario(Played())

    def test():
        SimulatedLoop().run(main())

    test.__name__ = scenario.__name__
    return test


@played
async def test_the_answer_comes_once_when_all_of_it_is_committed(p):
    p.start((0, 10), (1, 5), (0, 12))
    p.commit(0, 11)
    p.commit(1, 5)
    assert not p.answers
    p.commit(0, 12)
    assert p.answers == [{}]
    await asyncio.sleep(10)
    p.commit(0, 13)
    assert p.answers == [{}]
    assert not any(hosted._waiters for hosted in p.partitions)


@played
async def test_what_is_not_committed_in_time_is_answered_with_a_timeout_the_rest_without(p):
    p.start((0, 10), (1, 5), timeout_ms=1000)
    p.commit(1, 5)
    await asyncio.sleep(0.999)
    assert not p.answers
    await asyncio.sleep(0.002)
    assert p.answers == [{0: ErrorCode.request_timed_out}]
    p.commit(0, 10)
    assert len(p.answers) == 1


@played
async def test_what_is_committed_before_all_is_appended_is_waited_for_no_more(p):
    p.delayed.add(0, p.partitions[0], 10, EPOCH)
    p.commit(0, 10)
    assert not p.answers
    p.start()
    assert p.answers == [{}]


@played
async def test_a_partition_tells_of_itself_only(p):
    p.start((0, 10), (1, 5))
    p.partitions[1].log.high_watermark = 5
    p.commit(0, 10)
    assert not p.answers
    p.commit(1, 6)
    assert p.answers == [{}]


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_no_time_to_wait_is_a_timeout_at_once(timeout_ms):
    async def main():
        p = Played()
        p.start((0, 10), timeout_ms=timeout_ms)
        await asyncio.sleep(0.001)
        assert p.answers == [{0: ErrorCode.request_timed_out}]

    SimulatedLoop().run(main())


@played
async def test_another_leader_or_epoch_cannot_acknowledge(p):
    p.start((0, 10), (1, 5))
    p.partitions[0].leader = None
    p.partitions[1].leader.leader_epoch = EPOCH + 1
    p.partitions[1].log.high_watermark = 5
    for hosted in p.partitions:
        hosted.role_changed()
    assert p.answers == [{0: ErrorCode.not_leader_or_follower, 1: ErrorCode.not_leader_or_follower}]


@played
async def test_too_few_replicas_after_the_append_are_told(p):
    p.start((0, 10))
    p.partitions[0].leader.has_enough_replicas = lambda: False
    p.commit(0, 10)
    assert p.answers == [{0: ErrorCode.not_enough_replicas_after_append}]
