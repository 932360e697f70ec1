"""Puts one mutation into this process: a pytest plugin, ``-p tests.mutation.applying``, and what a process of simulated runs begins with.

Which mutation is in the environment: ``ESP_MUTATION`` is the path of a file with the module's name in its first line, and the mutated
source behind it.
"""

import os
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.patching import install

VARIABLE = "ESP_MUTATION"


def apply_from_environment() -> None:
    """Have the import of the module give the mutated one."""
    module, _, mutated = Path(os.environ[VARIABLE]).read_text(encoding="utf-8").partition("\n")
    source = Path(module.replace(".", "/") + ".py")
    if not source.exists():
        source = Path(module.replace(".", "/")) / "__init__.py"
    install(Mutant("by machine", "", "", module, source.read_text(encoding="utf-8"), mutated))


if VARIABLE in os.environ:
    apply_from_environment()
