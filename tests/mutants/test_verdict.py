"""Verdicts are kept as soon as they are known, and are found again."""

from tests.mutants.mutant import BEYOND_PROMISE, FLIPPED_BITS
from tests.mutants.verdict import Verdict, Verdicts

CAUGHT = Verdict("m", "nodes", "INV-A", "INV-A: why", 5, ("3: INV-B: why",), 1.5, 2, FLIPPED_BITS, "2026-11-25")
ALIVE = CAUGHT._replace(invariant=None, violation=None)


def test_what_is_kept_is_read_again(tmp_path):
    path = tmp_path / "results"
    Verdicts(path).add(CAUGHT)
    Verdicts(path).add(CAUGHT._replace(mutant="n"))
    assert list(Verdicts(path)) == [CAUGHT, CAUGHT._replace(mutant="n")]
    assert Verdicts(path).caught("m", "nodes", first=2, kind=FLIPPED_BITS) == CAUGHT


def test_only_the_same_seeds_are_an_answer():
    kept = Verdicts(None)
    kept.add(CAUGHT)
    assert kept.caught("m", "nodes", first=2, kind=FLIPPED_BITS)
    assert not kept.caught("m", "nodes", first=1, kind=FLIPPED_BITS)
    assert not kept.caught("m", "nodes", first=2, kind="")
    assert not kept.caught("m", "log", first=2, kind=FLIPPED_BITS)


def test_the_last_verdict_counts(tmp_path):
    path = tmp_path / "results"
    kept = Verdicts(path)
    kept.add(CAUGHT)
    kept.add(ALIVE)
    assert list(Verdicts(path)) == [ALIVE]
    assert not Verdicts(path).caught("m", "nodes", first=2, kind=FLIPPED_BITS)


def test_a_verdict_says_which_seeds_it_took():
    assert CAUGHT.which_seeds == "5 of flipped bits (from 2)"
    assert CAUGHT._replace(first=1, kind=BEYOND_PROMISE).which_seeds == "5 beyond the promise"
    assert CAUGHT._replace(first=1, kind="").which_seeds == "5"
    assert CAUGHT.caught_by == "INV-A (1 void)"
