"""When a node's costs may be measured."""

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
