"""The wall counts what only the mutant breaks; and eleven mutants die of it here, the rest by ``make mutants``."""

import pytest

from esp.simulation.tiers import NODES, PARTITION
from tests.mutants import wall
from tests.mutants.mutant import UNMUTATED, Mutant
from tests.mutants.table import MUTANTS
from tests.mutants.verdict import Verdict
from tests.mutants.wall import print_wall, run_mutant

MUTANT = Mutant("m", "KAFKA-1", "A-1", "a_module", "a", "b", tiers=(PARTITION,))
SAME = MUTANT._replace(name="same", equivalent="Nobody asks.")
GAP = MUTANT._replace(name="gap", is_gap=True)

FAST = (
    ("fetch-ignores-divergence", "INV-LOGMATCH", "INV-HW-EVIDENCE"),
    ("truncate-to-high-watermark", "INV-CANDIDATE-COMPLETE"),
    ("commit-below-minimum", "INV-HW-STRICT"),
    ("high-watermark-falls", "INV-HW-MONO"),
    ("followers-do-not-count", "INV-CANDIDATE-COMPLETE"),
    ("pending-shrink-is-done", "INV-MAXISR"),
    ("high-watermark-above-the-end", "INV-ORDER"),
    ("epoch-of-the-file-is-ignored", "INV-RAFT-EPOCH", "INV-RAFT-ELECTION"),
    ("metadata-fetch-before-the-flush", "INV-RAFT-EVIDENCE"),
    ("commit-of-an-earlier-epoch", "INV-RAFT-COMMIT-EPOCH"),
    ("recovery-point-before-the-sync", "INV-DISK-ORDER"),
)


@pytest.fixture
def world(monkeypatch):
    """Seeds that fail with the mutant, and those that fail without it too."""

    class World:
        mutated = ()
        unmutated = ()

    def run(name, _tier, first, seeds, _nodes):
        bad = World.unmutated if name == UNMUTATED else World.mutated
        for count in range(seeds):
            if first + count in bad:
                return {
                    "invariant": "INV-A",
                    "violation": "INV-A: why",
                    "seeds": count + 1,
                    "last": first + count,
                    "cpu_s": count + 1.0,
                }
        return {"invariant": None, "violation": None, "seeds": seeds, "last": first + seeds - 1, "cpu_s": float(seeds)}

    monkeypatch.setattr(wall, "_run", run)
    wall._violation_of_the_product.cache_clear()
    monkeypatch.setattr(wall, "MUTANTS", {"m": MUTANT, "same": SAME, "gap": GAP})
    return World


def test_a_mutant_is_caught_by_the_first_seed_that_passes_without_it(world):
    world.mutated = (3, 5, 9)
    world.unmutated = (3, 4)
    verdict = run_mutant(MUTANT, PARTITION, first=1, seeds=20)
    assert verdict[:-2] == ("m", PARTITION, "INV-A", "INV-A: why", 5, ("3: INV-A: why",), 5.0, 1, "")


def test_a_mutant_lives_where_the_product_fails_as_well(world):
    world.mutated = world.unmutated = (3, 20)
    verdict = run_mutant(MUTANT, PARTITION, first=1, seeds=20)
    assert (verdict.invariant, verdict.seeds, len(verdict.void)) == (None, 20, 2)


def test_a_mutant_that_names_its_invariants_is_caught_by_no_other(world, monkeypatch, capsys):
    world.mutated = (3, 5)
    elsewhere = MUTANT._replace(catchers=("INV-B", "INV-C"))
    verdict = run_mutant(elsewhere, PARTITION, first=1, seeds=20)
    assert (verdict.invariant, verdict.seeds, verdict.void) == (None, 20, ())
    assert verdict.others == ("3: INV-A: why", "5: INV-A: why")
    assert verdict.caught_by == "NOTHING: IT LIVES (2 by others)"
    among = run_mutant(MUTANT._replace(catchers=("INV-B", "INV-A")), PARTITION, first=1, seeds=20)
    assert (among.invariant, among.seeds, among.others) == ("INV-A", 3, ())
    monkeypatch.setitem(wall.MUTANTS, "m", elsewhere)
    assert not print_wall(["m"], seeds=4)
    printed = capsys.readouterr().out
    assert "0 of 1 caught" in printed
    assert "not what must catch it: m partition 3: INV-A: why" in printed


def test_the_wall_prints_how_many_seeds_a_mutant_may_take(world, capsys):
    world.mutated = (7,)
    print_wall(["m"])
    print_wall(["m"], seeds=20)
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines() if line.startswith("m ")] == [
        "7/3000",
        "7/20",
    ]


def test_a_mutant_may_have_a_first_seed_of_its_own(world, monkeypatch, capsys):
    world.mutated = (3, 23)
    monkeypatch.setitem(wall.MUTANTS, "m", MUTANT._replace(first=20))
    assert print_wall(["m"], seeds=4)
    assert not print_wall(["m"], seeds=3)
    assert print_wall(["m"], first=1, seeds=3)
    assert capsys.readouterr().out.count("1 of 1 caught") == 2


def test_the_wall_prints_each_mutant_and_tells_whether_one_lives(world, capsys):
    world.mutated = (7,)
    assert print_wall(["m"], first=1, seeds=10)
    printed = capsys.readouterr().out
    assert "KAFKA-1" in printed
    assert "INV-A" in printed
    assert "1 of 1 caught" in printed
    assert not print_wall(["m"], first=8, seeds=10)
    assert "IT LIVES" in capsys.readouterr().out


def test_a_wall_that_was_stopped_goes_on_where_it_was_and_runs_again_what_lived(world, tmp_path, capsys):
    results = tmp_path / "results"
    world.mutated = (7,)
    assert not print_wall(["m"], first=1, seeds=3, results=results)
    assert print_wall(["m"], first=1, seeds=10, results=results)
    world.mutated = ()
    assert print_wall(["m"], first=1, seeds=10, results=results)
    assert not print_wall(["m"], first=2, seeds=10, results=results)
    assert capsys.readouterr().out.count("INV-A") == 2


def test_the_wall_tells_the_seeds_on_which_the_product_itself_fails(world, capsys):
    world.mutated = world.unmutated = (3,)
    assert not print_wall(["m"], first=1, seeds=10)
    assert "void: partition 3: INV-A: why" in capsys.readouterr().out


def test_the_cheapest_mutants_by_the_table_come_first(world, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(wall, "MUTANTS", {name: MUTANT._replace(name=name) for name in ("dear", "unknown", "cheap")})
    monkeypatch.setattr(wall, "cpu_s_of_rows", lambda _: {("dear", PARTITION): 90.0, ("cheap", PARTITION): 0.1})
    monkeypatch.setattr(wall.os, "cpu_count", lambda: 1)
    ran = []
    monkeypatch.setattr(wall, "run_mutant", lambda mutant, tier, **_: ran.append(mutant.name) or _verdict(mutant.name))
    assert print_wall([])
    assert ran == ["cheap", "unknown", "dear"]


def _verdict(name):
    return Verdict(name, PARTITION, "INV-A", "INV-A: why", 1, (), 0.1)


def test_an_equivalent_mutant_is_not_run_and_counts_for_nothing(world, capsys):
    world.mutated = (1,)
    assert print_wall([], first=1, seeds=1)
    printed = capsys.readouterr().out
    assert "equivalent: Nobody asks." in printed
    assert "1 of 1 caught" in printed


def test_a_gap_is_run_only_if_it_is_named(world, capsys):
    assert not print_wall(["gap"], first=1, seeds=1)
    assert "IT LIVES" in capsys.readouterr().out
    world.mutated = (1,)
    assert print_wall([], first=1, seeds=1)
    assert "gap" not in capsys.readouterr().out


def test_a_process_that_fails_is_no_death_of_a_mutant():
    with pytest.raises(RuntimeError, match="the process of m failed"):
        run_mutant(MUTANT, PARTITION, first=1, seeds=1)


@pytest.mark.parametrize(("name", "invariants"), [(name, invariants) for name, *invariants in FAST])
def test_the_simulator_catches_a_known_bug_by_the_right_invariant(name, invariants):
    mutant = MUTANTS[name]
    tier = mutant.tiers[0]
    assert tier != NODES
    assert run_mutant(mutant, tier, first=1, seeds=60).invariant in invariants
