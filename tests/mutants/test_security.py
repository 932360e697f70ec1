"""Security bugs have their places in the product and tests that name them; two of them are put back here, the rest by ``make mutants``."""

import importlib.util
from pathlib import Path

import pytest

from tests.mutants.patching import mutate
from tests.mutants.security import SECURITY_MUTANTS
from tests.mutants.security_wall import is_caught

ROOT = Path(__file__).resolve().parents[2]
FAST = ("final-nonces-are-not-compared", "any-login-module-is-taken")


@pytest.mark.parametrize("found", SECURITY_MUTANTS, ids=lambda found: found.mutant.name)
def test_every_bug_finds_its_text_and_its_test(found):
    module = importlib.util.find_spec(found.mutant.module)
    changed = mutate(Path(module.origin).read_text(encoding="utf-8"), found.mutant)
    compile(changed, found.mutant.module, "exec")
    file, _, name = found.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_there_are_enough_and_no_name_stands_twice():
    assert len(SECURITY_MUTANTS) == len({found.mutant.name for found in SECURITY_MUTANTS}) >= 20


@pytest.mark.parametrize("name", FAST)
def test_a_bug_is_caught(name):
    (found,) = (each for each in SECURITY_MUTANTS if each.mutant.name == name)
    assert is_caught(found)
