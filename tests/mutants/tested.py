"""The process of one mutant that a test catches: ``python -m tests.mutants.tested NAME [TEST]``; its status is pytest's."""

import sys

import pytest

from tests.mutants.by_tests import TESTED_MUTANTS
from tests.mutants.patching import install


def main(name: str, test: str | None = None) -> int:
    """Install the mutant, and run its test, or another one."""
    found = next(each for each in TESTED_MUTANTS if each.mutant.name == name)
    install(found.mutant)
    return pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0", test or found.test])


sys.exit(main(*sys.argv[1:]))
