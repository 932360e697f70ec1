"""Bugs that named tests catch have their places in the product; some of them are put back here, the rest by ``make mutants-security``."""

import importlib.util
from pathlib import Path

import pytest

from tests.mutants.by_tests import TESTED_MUTANTS
from tests.mutants.patching import mutate
from tests.mutants.security_wall import is_caught

ROOT = Path(__file__).resolve().parents[2]
FAST = ("final-nonces-are-not-compared", "any-login-module-is-taken", "files-in-doubt-are-removed")


@pytest.mark.parametrize("found", TESTED_MUTANTS, ids=lambda found: found.mutant.name)
def test_every_bug_finds_its_text_and_its_test(found):
    module = importlib.util.find_spec(found.mutant.module)
    changed = mutate(Path(module.origin).read_text(encoding="utf-8"), found.mutant)
    compile(changed, found.mutant.module, "exec")
    file, _, name = found.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_there_are_enough_and_no_name_stands_twice():
    assert len(TESTED_MUTANTS) == len({found.mutant.name for found in TESTED_MUTANTS}) >= 20


@pytest.mark.parametrize("name", FAST)
def test_a_bug_is_caught(name):
    (found,) = (each for each in TESTED_MUTANTS if each.mutant.name == name)
    assert is_caught(found)
