from typer.testing import CliRunner

from esp.simulation.command import app
from esp.simulation.fleet import Summary, TierSummary, run_tier
from esp.simulation.outcome import Outcome
from esp.simulation.tiers import LOG, PARTITION


def outcome(seed, **fields):
    known = {"violation": None, "invariant": None, "simulated_s": 60.0, "steps": 5, "faults": 3, "acked_records": 7}
    known |= {"read_records": 9, "digest": "1-0", "partitions": 4, "excused_partitions": 0, "poisoned_nodes": 0}
    return Outcome(seed=seed, **known | fields)


def test_what_was_excused_is_counted_beside_what_was_looked_at():
    summary = Summary()
    summary.add(outcome(1))
    summary.add(outcome(2, excused_partitions=3, poisoned_nodes=1))
    lines = [line.split() for line in summary.lines()]
    assert ["partitions", "8"] in lines
    assert ["excused", "from", "durability", "3"] in lines
    assert ["nodes", "whose", "devices", "lied", "1"] in lines


def test_a_violation_is_listed_with_how_to_see_it_again():
    summary = Summary()
    summary.add(outcome(17, violation="INV-ORDER at node 1: no", invariant="INV-ORDER"))
    lines = list(summary.lines())
    assert "  seed 17: INV-ORDER at node 1: no" in lines
    assert any("make sim SEED=17" in line for line in lines)


def test_seeds_of_a_fast_tier_are_run_in_their_order():
    seen = []
    summary = run_tier(
        LOG, range(5, 17), processes=2, on_found=lambda seed, found: seen.append((seed, found.violation))
    )
    assert seen == [(seed, None) for seed in range(5, 17)]
    assert summary.seeds == 12
    assert summary.cpu_s > 0


def test_a_violation_of_a_fast_tier_is_listed_with_how_to_see_it_again():
    lines = list(TierSummary(PARTITION, seeds=2, failed={7: "INV-ORDER at node 1: no"}).lines())
    assert "  seed 7: INV-ORDER at node 1: no" in lines
    assert "    again: make sim TIER=partition SEED=7" in lines


def test_a_tier_that_there_is_not_is_refused_with_those_that_there_are():
    refused = CliRunner().invoke(app, ["run", "--tier", "loog"])
    assert refused.exit_code == 2
    assert "nodes, partition, quorum, log" in " ".join(refused.output.replace("│", " ").split())


def test_a_seed_of_the_log_tier_is_replayed_with_its_steps():
    replayed = CliRunner().invoke(app, ["replay", "7", "--tier", "log"])
    assert replayed.exit_code == 0
    lines = replayed.stdout.splitlines()
    assert any(line.startswith("topic-0      append ") for line in lines)
    assert any(line.startswith("compacted-0    the power is lost ") for line in lines)
    assert lines[-1].startswith("no violation; ")


def test_a_seed_of_another_fast_tier_is_replayed_without_a_trace():
    replayed = CliRunner().invoke(app, ["replay", "7", "--tier", "partition"])
    assert replayed.exit_code == 0
    assert replayed.stdout.startswith("no violation; ")


def test_a_replay_of_a_fast_tier_has_no_faults_to_choose_from():
    refused = CliRunner().invoke(app, ["replay", "7", "--tier", "log", "--only", "3"])
    assert refused.exit_code == 2
