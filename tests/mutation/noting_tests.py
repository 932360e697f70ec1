"""Notes which functions each unit test enters, and how long it takes: a pytest plugin, ``-p tests.mutation.noting_tests``.

The notes go to the file of which ``ESP_MUTATION_NOTES`` is the path: one line of JSON for each test.
"""

import os
import time
from collections.abc import Iterator
from typing import Final

import pytest

from esp.simulation.coverage.marking import install
from tests.mutation.reach import MUTATED, Note, write

VARIABLE: Final = "ESP_MUTATION_NOTES"

_entered: dict[str, None] = {}
install(_entered, MUTATED)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test, and note what it entered; what a fixture of its module enters counts for the first one."""
    began_s = time.process_time()
    result = yield
    name, _, _ = item.nodeid.partition("[")
    write(os.environ[VARIABLE], Note("", name, time.process_time() - began_s, tuple(_entered)))
    _entered.clear()
    return result
