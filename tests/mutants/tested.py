"""The process of one mutant that a test catches, gaps of the wall among them; its status is pytest's.

``python -m tests.mutants.tested NAME [TEST]``.
"""

import sys

import pytest

from tests.mutants.by_tests import TESTED_MUTANTS
from tests.mutants.patching import install
from tests.mutants.table import MUTANTS


def main(name: str, test: str | None = None) -> int:
    """Install the mutant, and run its test, or another one."""
    tested = {each.mutant.name: (each.mutant, each.test) for each in TESTED_MUTANTS}
    mutant, named = tested[name] if name in tested else (MUTANTS[name], MUTANTS[name].covered_by)
    install(mutant)
    return pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0", test or named])


sys.exit(main(*sys.argv[1:]))
