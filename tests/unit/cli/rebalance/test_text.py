import msgspec

from esp.cli.rebalance.text import plan_as_json, plan_lines
from esp.model.ids import TopicPartition
from esp.rebalance.plan_file import PlanFile
from tests.models.fake_cluster import FakeCluster
from tests.models.rebalance_plans import plan_of

P = [TopicPartition("t", number) for number in range(3)]
CLUSTER = FakeCluster(range(1, 5), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1 << 20))
PLAN = plan_of(CLUSTER, [{P[0]: (1, 3), P[1]: (2, 1)}, {P[2]: (3, 4)}], waits_for={1: (0,)})


def test_plan_tells_bytes_links_time_and_every_move() -> None:
    text = "\n".join(plan_lines(PlanFile("p1", 0, PLAN), steps=True))
    assert "Plan p1 to spread" in text
    assert "3 partitions in 2 steps, 2 with copies" in text
    assert "bytes      3.0 MiB" in text
    assert "link 1 -> 3: 2.0 MiB" in text
    assert "link 1 -> 4: 1.0 MiB" in text
    assert "t-0: [1, 2] -> [1, 3]: copy 1.0 MiB from 1 to 3" in text
    assert "t-1: [1, 2] -> [2, 1]: no copy" in text
    assert "step 1: 1 move, 2.0 MiB" in text
    assert "after steps 0" in text
    assert "rests on: sizes" in text


def test_steps_are_left_out_if_nobody_asks() -> None:
    assert "t-0" not in "\n".join(plan_lines(PlanFile("p1", 0, PLAN), steps=False))


def test_plan_without_moves_says_so() -> None:
    assert list(plan_lines(PlanFile("p1", 0, plan_of(CLUSTER, [])), steps=True))[1] == "Nothing to do."


def test_json_has_the_same_sums() -> None:
    told = msgspec.json.decode(msgspec.json.encode(plan_as_json(PlanFile("p1", 0, PLAN))))
    assert told["bytes"] == 3 << 20
    assert told["links"] == [{"source": 1, "target": 3, "bytes": 2 << 20}, {"source": 1, "target": 4, "bytes": 1 << 20}]
    assert [len(step["moves"]) for step in told["steps"]] == [2, 1]
    assert set(told["seconds"]) == {"low_s", "high_s"}
