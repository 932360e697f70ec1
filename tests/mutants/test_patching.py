import importlib
import sys

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.patching import MutantTextError, _MutantFinder, install, mutate


def mutant(text="a = 1\n", replacement="a = 2\n", module="made_up_module"):
    return Mutant("m", "a bug", "A-1", module, text, replacement)


def test_the_text_is_replaced():
    assert mutate("x\na = 1\ny\n", mutant()) == "x\na = 2\ny\n"


@pytest.mark.parametrize("source", ["", "a = 3\n", "a = 1\na = 1\n"])
def test_text_that_is_gone_or_stands_twice_is_an_error(source):
    with pytest.raises(MutantTextError, match=r"m: its text stands [02] times"):
        mutate(source, mutant())


def test_the_module_that_is_imported_is_the_changed_one(tmp_path, monkeypatch):
    (tmp_path / "made_up_module.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    install(mutant())
    try:
        made_up_module = importlib.import_module("made_up_module")
        assert made_up_module.a == 2
    finally:
        sys.meta_path[:] = before
        sys.modules.pop("made_up_module", None)


def test_other_modules_are_left_alone():
    assert _MutantFinder(mutant()).find_spec("json", None) is None


def test_a_module_that_is_there_already_cannot_be_changed():
    with pytest.raises(MutantTextError, match="imported already"):
        install(mutant(module="json"))
