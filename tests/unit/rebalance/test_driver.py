"""Plans carried out on a cluster in memory, and killed at every moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.placement.estimate import SMALL_COPIES_FACTOR
from esp.placement.limits import Limits
from esp.placement.plan import Plan
from esp.rebalance.cluster import ALL_BROKERS, FOLLOWER_THROTTLED_RATE, FOLLOWER_THROTTLED_REPLICAS, ConfigTarget
from esp.rebalance.driver import Driver
from esp.rebalance.execution import Execution, Outcome, Patience
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import Wish, Wished
from esp.rebalance.pace import HELD_BYTES_PER_SECOND, Pace
from esp.rebalance.report import Report
from esp.rebalance.stages import Stage
from tests.models.fake_cluster import FakeCluster, Killed
from tests.models.rebalance_plans import plan_of

P = [TopicPartition("t", number) for number in range(8)]


@pytest.fixture
def cluster() -> FakeCluster:
    return make_cluster()


def make_cluster() -> FakeCluster:
    return FakeCluster(range(1, 5), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))


def spread_plan(cluster: FakeCluster, **limits: int) -> Plan:
    """Each partition to brokers 3 and 4 in part, in two steps."""
    bounds = Limits(broker_bytes_per_second=1000, **limits)
    return plan_of(cluster, [dict.fromkeys(P[:4], (1, 3)), dict.fromkeys(P[4:], (2, 4))], limits=bounds)


def run(
    cluster: FakeCluster,
    plan: Plan,
    path: Path,
    pace: Pace | None = None,
    latency: Iterator[float | None] | None = None,
    patience: Patience | None = None,
) -> tuple[Outcome, Execution, list[Report]]:
    reports: list[Report] = []
    with Journal(str(path), "p1") as journal:
        assert journal.lock()
        execution = Execution(plan, pace or Pace(plan.limits.broker_bytes_per_second), patience or Patience())
        told = latency or iter(lambda: None, 0)
        outcome = Driver(cluster, execution, journal, cluster, reports.append, lambda: next(told, None)).run("p1")
    return outcome, execution, reports


def wish(path: Path, wanted: Wish) -> None:
    with Journal(str(path), "p1") as journal:
        journal.add(Wished(0, wanted))


def test_plan_ends_with_everything_in_place_and_no_throttle(cluster: FakeCluster, tmp_path: Path) -> None:
    plan = spread_plan(cluster)
    outcome, execution, reports = run(cluster, plan, tmp_path / "plan")
    assert outcome is Outcome.DONE
    assert all(cluster.replicas[move.name] == move.after for move in plan.moves)
    assert all(cluster.leaders[move.name] == move.after[0] for move in plan.moves), "preferred leaders lead"
    assert not cluster.throttles
    assert not cluster.began_unthrottled
    assert reports[-1].left_bytes == 0
    assert all(moving.stage is Stage.DONE for moving in execution.moves)


def test_throttles_of_others_stay(cluster: FakeCluster, tmp_path: Path) -> None:
    before = {
        ALL_BROKERS: {FOLLOWER_THROTTLED_RATE: "7"},
        ConfigTarget(topic="t"): {FOLLOWER_THROTTLED_REPLICAS: "9:1"},
    }
    cluster.configs = {target: dict(settings) for target, settings in before.items()}
    run(cluster, spread_plan(cluster), tmp_path / "plan")
    assert cluster.throttles == before


def test_no_broker_takes_part_in_more_moves_than_allowed(cluster: FakeCluster, tmp_path: Path) -> None:
    outcome, _, reports = run(cluster, spread_plan(cluster, moves_per_broker_max=2), tmp_path / "plan")
    assert outcome is Outcome.DONE
    assert cluster.most_at_once == 2, "all copies come from broker 1"
    assert any("takes part in 2 moves" in move.reason for report in reports for move in report.moves)


def test_small_moves_go_many_at_a_time_and_large_ones_do_not(tmp_path: Path) -> None:
    names = [TopicPartition("t", number) for number in range(60)]
    for size, most in ((10, 2 * SMALL_COPIES_FACTOR), (1000, 2), (1, 2 * SMALL_COPIES_FACTOR)):
        cluster = FakeCluster(range(1, 5), dict.fromkeys(names, (1, 2)), dict.fromkeys(names, size))
        limits = Limits(broker_bytes_per_second=600, moves_per_broker_max=2)
        plan = plan_of(
            cluster, [dict.fromkeys(names[start : start + 2], (3, 2)) for start in range(0, 60, 2)], limits=limits
        )
        outcome, _, _ = run(cluster, plan, tmp_path / f"plan-{size}")
        assert outcome is Outcome.DONE
        assert cluster.most_at_once == most, size


def test_step_waits_for_the_room_that_another_makes(cluster: FakeCluster, tmp_path: Path) -> None:
    plan = plan_of(cluster, [{P[0]: (3, 2)}, {P[1]: (3, 2)}], waits_for={1: (0,)})
    outcome, _, reports = run(cluster, plan, tmp_path / "plan")
    assert outcome is Outcome.DONE
    assert cluster.most_at_once == 1
    assert any(move.reason.startswith("waiting for disk space") for report in reports for move in report.moves)


@settings(max_examples=20)
@given(kill_at=st.lists(st.integers(1, 60), max_size=4), loses_journal=st.booleans())
def test_killed_anywhere_and_resumed_it_ends_as_if_nothing_had_been(
    tmp_path_factory: pytest.TempPathFactory, kill_at: list[int], loses_journal: bool
) -> None:
    cluster = make_cluster()
    plan = spread_plan(cluster, moves_per_broker_max=2)
    path = tmp_path_factory.mktemp("killed") / "plan"
    for calls in kill_at:
        cluster.calls, cluster.kill_at = 0, calls
        try:
            run(cluster, plan, path)
        except Killed:
            if loses_journal:  # as on another machine
                Path(f"{path}.journal").unlink()
    cluster.kill_at = None
    outcome, _, _ = run(cluster, plan, path)
    assert outcome is Outcome.DONE
    assert all(cluster.replicas[move.name] == move.after for move in plan.moves)
    assert not cluster.began_unthrottled
    assert not cluster.throttles


@settings(max_examples=20)
@given(cut=st.integers(0, 2000))
def test_journal_torn_anywhere_can_be_gone_on_with(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    cluster = make_cluster()
    plan = spread_plan(cluster)
    path = tmp_path_factory.mktemp("torn") / "plan"
    cluster.kill_at = 40
    with pytest.raises(Killed):
        run(cluster, plan, path)
    journal = Path(f"{path}.journal")
    journal.write_bytes(journal.read_bytes()[: max(1, cut)])
    outcome, _, _ = run(cluster, plan, path)
    assert outcome is Outcome.DONE
    assert not cluster.throttles


def test_pause_holds_the_copies_and_begins_no_more(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "plan"
    slept = 0

    def on_sleep() -> None:
        nonlocal slept
        slept += 1
        if slept == 1:
            wish(path, Wish.PAUSE)
        if slept == 5:
            assert cluster.rate == HELD_BYTES_PER_SECOND
            wish(path, Wish.RUN)

    cluster.size = dict.fromkeys(P, 100_000)
    cluster.on_sleep = on_sleep
    outcome, _, reports = run(cluster, spread_plan(cluster), path, Pace(10_000))
    assert outcome is Outcome.DONE
    assert any(move.reason == "waiting for the plan to be resumed" for report in reports for move in report.moves)
    assert not cluster.throttles


def test_cancel_leaves_what_is_done_and_takes_the_throttles_away(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "plan"
    plan = spread_plan(cluster, moves_per_broker_max=1)

    def on_sleep() -> None:
        if sum(cluster.replicas[each] != (1, 2) for each in P) == 2:
            wish(path, Wish.CANCEL)

    cluster.on_sleep = on_sleep
    outcome, execution, _ = run(cluster, plan, path)
    assert outcome is Outcome.CANCELLED
    assert not cluster.targets
    assert not cluster.throttles
    assert [moving.stage for moving in execution.moves].count(Stage.DONE) >= 2


def test_cancel_leaves_the_preferred_leader_first(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "plan"
    plan = plan_of(cluster, [{P[0]: (3, 2), P[1]: (2, 3)}], limits=Limits(broker_bytes_per_second=1000))
    cluster.on_sleep = lambda: wish(path, Wish.CANCEL) if cluster.targets else None
    outcome, _, _ = run(cluster, plan, path, pace=Pace(10))
    assert outcome is Outcome.CANCELLED
    assert [cluster.replicas[name] for name in P[:2]] == [(1, 2), (1, 2)]
    assert not cluster.targets


def test_broker_that_dies_stops_its_moves_and_no_others(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.size = dict.fromkeys(P, 5000)
    plan = plan_of(cluster, [{P[0]: (1, 3), P[1]: (1, 4)}, {P[2]: (2, 3)}], waits_for={1: (0,)})

    def on_sleep() -> None:
        if cluster.now > 1_001_000:
            cluster.fence(3)

    cluster.on_sleep = on_sleep
    outcome, execution, reports = run(cluster, plan, tmp_path / "plan")
    assert outcome is Outcome.STOPPED
    assert [moving.stage for moving in execution.moves] == [Stage.BLOCKED, Stage.DONE, Stage.BLOCKED]
    assert "broker 3, which has been down" in execution.moves[0].reason
    assert any(move.reason == "waiting for broker 3, which is down" for report in reports for move in report.moves)
    assert not cluster.throttles
    assert not cluster.targets


def test_broker_that_comes_back_in_time_is_waited_for(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.size = dict.fromkeys(P, 5000)

    def on_sleep() -> None:
        if 1_001_000 < cluster.now < 1_030_000:
            cluster.fence(3)
        else:
            cluster.unfence(3)

    cluster.on_sleep = on_sleep
    outcome, _, _ = run(cluster, plan_of(cluster, [{P[0]: (1, 3)}]), tmp_path / "plan")
    assert outcome is Outcome.DONE


def test_move_without_progress_ends_at_its_deadline(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.size = dict.fromkeys(P, 1 << 30)
    plan = plan_of(cluster, [{P[0]: (1, 3)}])
    outcome, execution, _ = run(cluster, plan, tmp_path / "plan", Pace(1), patience=Patience(no_progress_ms=60_000))
    assert outcome is Outcome.STOPPED
    assert execution.moves[0].reason.startswith("blocked by its deadline")
    assert not cluster.targets


def test_refused_move_is_told_with_the_controller_s_reason(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.refuses = {P[0]: "not today"}
    outcome, execution, _ = run(cluster, spread_plan(cluster), tmp_path / "plan")
    assert outcome is Outcome.STOPPED
    assert "not today" in execution.moves[0].reason
    assert all(moving.stage is Stage.DONE for moving in execution.moves[1:])


def test_somebody_else_s_change_blocks_a_move(cluster: FakeCluster, tmp_path: Path) -> None:
    plan = spread_plan(cluster)
    cluster.replicas[P[0]] = (3, 4)
    outcome, execution, _ = run(cluster, plan, tmp_path / "plan")
    assert outcome is Outcome.STOPPED
    assert "outside the plan" in execution.moves[0].reason


def test_rate_follows_what_producers_feel(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.size = dict.fromkeys(P, 40_000_000)
    told = iter([*[500.0] * 3, *[1.0] * 100_000])
    seen: list[int] = []
    cluster.on_sleep = lambda: seen.append(cluster.rate)
    outcome, _, _ = run(cluster, plan_of(cluster, [{P[0]: (1, 3)}]), tmp_path / "plan", Pace(1_000_000, 50.0), told)
    assert outcome is Outcome.DONE
    assert min(seen) == 125_000, "halved three times"
    assert max(seen) > 1_000_000, "and faster than the budget while nobody suffers"


def test_cluster_that_does_not_answer_is_asked_again(cluster: FakeCluster, tmp_path: Path) -> None:
    plan = spread_plan(cluster)
    real = cluster.reassignments
    asked = 0

    def sometimes() -> dict[TopicPartition, object]:
        nonlocal asked
        asked += 1
        if asked % 3 == 0:
            raise OperatorError("nobody answers", "Wait.")
        return real()

    cluster.reassignments = sometimes  # type: ignore[method-assign,assignment]
    outcome, _, reports = run(cluster, plan, tmp_path / "plan")
    assert outcome is Outcome.DONE
    assert any(report.trouble == "waiting for an answer: nobody answers" for report in reports)


def test_cluster_that_never_answers_ends_the_tool_and_the_plan_can_be_resumed(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    def never() -> dict[TopicPartition, object]:
        raise OperatorError("nobody answers", "Wait.")

    real, cluster.reassignments = cluster.reassignments, never  # type: ignore[method-assign,assignment]
    with pytest.raises(OperatorError, match="nobody answers"):
        run(cluster, spread_plan(cluster), tmp_path / "plan")
    cluster.reassignments = real  # type: ignore[method-assign]
    assert run(cluster, spread_plan(cluster), tmp_path / "plan")[0] is Outcome.DONE
