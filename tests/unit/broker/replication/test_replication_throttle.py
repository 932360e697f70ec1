"""One quota for many partitions: who waits, who is called, and that nobody starves."""

from itertools import pairwise

import pytest

from esp.broker.replication.replication_throttle import ReplicationThrottle, Share, release
from esp.settings.setting import LONG_MAX
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop

RATE = 1_000_000
MOST = 1_000_000


class Partition:
    """Fetches for ever, batches of one size, each fetch taking a moment."""

    def __init__(self, throttle, loop, *, batch=1, moment_s=0.001, is_ready=True):
        self.throttle, self.loop, self.batch, self.moment_s = throttle, loop, batch, moment_s
        self.share = None
        self.is_ready = is_ready
        self.fetched = []

    def ask(self):
        if self.is_ready:
            most = self.throttle.claim(self, self.ask, MOST)
            if most:
                self.loop.call_later(self.moment_s, self.answer, most)

    def answer(self, most):
        size = max(self.batch, most - most % self.batch)
        self.fetched.append((self.loop.time(), size))
        if self.share is not None:
            self.throttle.settle(self.share, size)
        self.ask()

    @property
    def total(self):
        return sum(size for _, size in self.fetched)


def run(scenario, *, rate=RATE):
    loop = SimulatedLoop()

    async def main():
        throttle = ReplicationThrottle(SimulatedClock(loop), 11_000_000)
        throttle.update(rate)
        await scenario(loop, throttle)

    loop.run(main(), limit_s=3600)


async def sleep_s(loop, duration_s):
    future = loop.create_future()
    loop.call_later(duration_s, future.set_result, None)
    await future


@pytest.mark.parametrize("batch", [1, 16_384, 90_000])
def test_one_partition_gets_the_rate(batch):
    async def scenario(loop, throttle):
        partition = Partition(throttle, loop, batch=batch)
        partition.ask()
        await sleep_s(loop, 20)
        assert partition.total == pytest.approx(20 * RATE, rel=0.02)

    run(scenario)


def test_many_partitions_share_the_rate_evenly():
    async def scenario(loop, throttle):
        partitions = [Partition(throttle, loop, moment_s=0.001 * (1 + number)) for number in range(7)]
        for partition in partitions:
            partition.ask()
        await sleep_s(loop, 21)
        totals = [partition.total for partition in partitions]
        assert sum(totals) == pytest.approx(21 * RATE, rel=0.03)
        assert min(totals) == pytest.approx(max(totals), rel=0.05)

    run(scenario)


def test_with_batches_beyond_the_window_s_bytes_each_partition_still_has_its_turn():
    async def scenario(loop, throttle):
        partitions = [Partition(throttle, loop, batch=1_000_000) for _ in range(3)]
        for partition in partitions:
            partition.ask()
        await sleep_s(loop, 11 * 3 * 4)
        assert all(len(partition.fetched) >= 4 for partition in partitions)
        later = sorted(at for partition in partitions for at, _ in partition.fetched[1:])
        assert all(after - before > 10.9 for before, after in pairwise(later))

    run(scenario, rate=1_000)


def test_whoever_is_called_and_not_ready_holds_up_nobody_and_keeps_its_place():
    async def scenario(loop, throttle):
        busy = Partition(throttle, loop)
        absent = Partition(throttle, loop)
        busy.ask()
        absent.ask()
        absent.is_ready = False
        await sleep_s(loop, 5)
        assert busy.total == pytest.approx(5 * RATE, rel=0.05)
        assert absent.fetched == []
        absent.is_ready = True
        absent.ask()
        await sleep_s(loop, 0.25)
        assert absent.fetched != []

    run(scenario)


def test_a_rate_that_is_taken_away_calls_everybody_at_once():
    async def scenario(loop, throttle):
        called = []
        shares = [Share(throttle, lambda number=number: called.append(number)) for number in range(3)]
        first = Share(throttle, lambda: None)
        assert throttle.reserve(first, MOST) == RATE // 10
        assert [throttle.reserve(share, MOST) for share in shares] == [0, 0, 0]
        throttle.update(LONG_MAX)
        assert not throttle.is_active
        await sleep_s(loop, 0.001)
        assert called == [0, 1, 2]

    run(scenario)


def test_a_rate_of_zero_lets_nobody_pass_until_it_is_raised():
    async def scenario(loop, throttle):
        partition = Partition(throttle, loop)
        partition.ask()
        await sleep_s(loop, 1000)
        assert partition.fetched == []
        throttle.update(RATE)
        await sleep_s(loop, 1)
        assert partition.total > 0

    run(scenario, rate=0)


def test_a_reservation_is_answered_again_and_given_back_when_it_is_let_go():
    async def scenario(loop, throttle):
        first, second = Partition(throttle, loop), Partition(throttle, loop)
        assert throttle.claim(first, first.ask, MOST) == RATE // 10
        assert throttle.claim(first, first.ask, 10) == 10
        assert throttle.claim(second, second.ask, MOST) == 0
        release(first)
        assert first.share is None
        await sleep_s(loop, 0.005)
        assert second.total > 0, "what was given back is there for the others at once"

    run(scenario)


def test_who_has_let_go_is_not_called_any_more():
    async def scenario(loop, throttle):
        holder = Partition(throttle, loop)
        waiting = Partition(throttle, loop)
        throttle.claim(holder, holder.ask, MOST)
        throttle.claim(waiting, waiting.ask, MOST)
        release(waiting)
        await sleep_s(loop, 5)
        assert waiting.fetched == []

    run(scenario)


def test_who_comes_while_others_wait_does_not_pass_them():
    async def scenario(loop, throttle):
        order = []
        first, second, third = (Partition(throttle, loop) for _ in range(3))
        assert throttle.claim(first, first.ask, MOST)
        opens_in_s = 0.1
        loop.call_later(opens_in_s, lambda: order.append(throttle.claim(third, lambda: order.append("third"), MOST)))
        assert throttle.claim(second, lambda: order.append("second"), MOST) == 0
        await sleep_s(loop, opens_in_s + 0.01)
        assert order[:2] in ([0, "second"], ["second", 0])

    run(scenario)
