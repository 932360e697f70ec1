"""When a node's costs may be measured."""

import os
import time

import pytest

from benchmarks import cost
from esp.testing.node import Node


def test_the_last_start_of_a_node_counts(tmp_path):
    node = Node(tmp_path / "data")
    said = b"INFO prepared for requests of every kind\n"
    node.stderr_path.write_bytes(said)
    assert node.is_warm
    node._stderr_start = len(said)
    assert not node.is_warm
    node.stderr_path.write_bytes(said + b"INFO starting\n" + said)
    assert node.is_warm


def test_a_node_that_is_idle_and_not_warm_is_waited_for(monkeypatch):
    class Slow:
        looks = 0

        @property
        def is_warm(self):
            self.looks += 1
            return self.looks > 3

    pauses = []
    monkeypatch.setattr(cost.time, "sleep", pauses.append)
    cost.wait_until_warm(Slow())
    assert len(pauses) == 3
    monkeypatch.setattr(cost, "_LONGEST_WARM_UP_S", -1.0)
    with pytest.raises(TimeoutError):
        cost.wait_until_warm(Slow())


def test_the_fine_clock_of_a_process_counts_what_the_kernel_counts_for_it():
    before_s, own_s = cost.fine_cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() < own_s + 0.05:
        pass
    passed_s = cost.fine_cpu_seconds(os.getpid()) - before_s
    assert passed_s == pytest.approx(time.process_time() - own_s, abs=0.02)
    with pytest.raises(OSError, match="Invalid argument"):
        cost.fine_cpu_seconds(2**22 + 1)
