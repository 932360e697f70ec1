"""The process of one security mutant: ``python -m tests.mutants.tested NAME [TEST]``; its status is pytest's."""

import sys

import pytest

from tests.mutants.patching import install
from tests.mutants.security import SECURITY_MUTANTS


def main(name: str, test: str | None = None) -> int:
    """Install the mutant, and run its test, or another one."""
    found = next(each for each in SECURITY_MUTANTS if each.mutant.name == name)
    install(found.mutant)
    return pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0", test or found.test])


sys.exit(main(*sys.argv[1:]))
