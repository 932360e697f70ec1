"""All bugs that named tests catch, each in a process of its own."""

from typing import Final

from tests.mutants.capture import CAPTURE_MUTANTS
from tests.mutants.security import SECURITY_MUTANTS

TESTED_MUTANTS: Final = (*SECURITY_MUTANTS, *CAPTURE_MUTANTS)
