"""``python -m tests.mutants.security_wall [NAME …]``: puts bugs back, one at a time, and runs the test that is to catch each."""

import re
import subprocess
import sys
from typing import Final

import typer

from tests.mutants.by_tests import TESTED_MUTANTS
from tests.mutants.security import SecurityMutant

FAILED: Final = 1
"""pytest's status if a test has failed; a file that cannot be imported, or a test that is gone, has another one."""
_BAD_PATCH: Final = re.compile(rb"^E +(NameError|ImportError|SyntaxError|AttributeError)\b", re.MULTILINE)
"""A mutant that dies of these is dead for the wrong reason."""


def is_caught(found: SecurityMutant) -> bool:
    """True if the test of a bug fails with it, and not because the patch is wrong."""
    command = [sys.executable, "-m", "tests.mutants.tested", found.mutant.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode == FAILED and _BAD_PATCH.search(done.stdout) is None


def main(names: list[str]) -> int:
    """Print what became of each bug, of all unless some are named; 1 if one is not caught."""
    chosen = [each for each in TESTED_MUTANTS if not names or each.mutant.name in names]
    alive = 0
    for found in chosen:
        caught = is_caught(found)
        alive += not caught
        verdict = found.test if caught else "NOTHING: IT LIVES"
        typer.echo(f"{found.mutant.name:<46} {found.mutant.bug:<34} {verdict}")
    typer.echo(f"{len(chosen) - alive} of {len(chosen)} caught")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
