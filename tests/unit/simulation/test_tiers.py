import pytest

from esp.simulation.checkers.violation import ViolationError
from esp.simulation.partition_tier.checks import InvariantError
from esp.simulation.tiers import NO_CRASH, _run_cores


def raising(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "invariant", "violation"),
    [
        (ViolationError("INV-A", "node 1", "why"), "INV-A", "INV-A at node 1: why"),
        (InvariantError("INV-B", "why"), "INV-B", "INV-B: why"),
        (AssertionError("epochs rise"), NO_CRASH, "INV-NO-CRASH: AssertionError: epochs rise"),
    ],
)
def test_whoever_notices_a_bug_is_named(error, invariant, violation):
    assert _run_cores(raising(error))[:2] == (invariant, violation)


def test_a_run_without_a_violation_catches_nothing():
    assert _run_cores(lambda: None)[:2] == (None, None)


@pytest.mark.parametrize("error", [NameError("x"), TypeError("x"), AttributeError("x")])
def test_a_patch_that_is_no_good_catches_nothing_but_ends_the_run(error):
    with pytest.raises(type(error)):
        _run_cores(raising(error))
