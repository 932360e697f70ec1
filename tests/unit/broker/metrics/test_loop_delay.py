import asyncio

from esp.broker.metrics.node_metrics import INTERVAL_US, LoopDelay
from tests.unit.broker.simulated_node import simulated


@simulated()
async def test_a_loop_that_is_free_is_never_late_and_one_that_stood_still_was_so_once(node):
    delay = LoopDelay(node.env.clock)
    delay.start()
    await asyncio.sleep(10 * INTERVAL_US / 1_000_000 + 0.01)
    free = delay.delays.count
    assert free == 10
    assert delay.delays.sum_s < 0.001 * free
    delay.close()
    await asyncio.sleep(1)
    assert delay.delays.count == free


class _StandsStill:
    """A clock whose loop comes late to every timer."""

    def __init__(self, late_us):
        self.late_us, self.now_us, self.callbacks = late_us, 0, []

    def monotonic_us(self):
        return self.now_us

    def call_later_us(self, delay_us, callback):
        self.callbacks.append((self.now_us + delay_us, callback))
        return self

    def cancel(self):
        self.callbacks.clear()

    def run(self):
        due_us, callback = self.callbacks.pop(0)
        self.now_us = due_us + self.late_us
        callback()


def test_what_a_timer_is_late_by_is_counted():
    clock = _StandsStill(300_000)
    delay = LoopDelay(clock)
    delay.start()
    clock.run()
    clock.run()
    assert delay.delays.sum_s == 0.6
    assert dict(delay.delays.buckets())["0.25"] == 0
    assert dict(delay.delays.buckets())["0.5"] == 2
