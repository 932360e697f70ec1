"""What all tests share: hypothesis profiles, and the fixtures of running nodes."""

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["esp.testing.pytest_plugin"]

settings.register_profile(
    "ci", derandomize=True, max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_LONGEST_FIRST: Final = [
    Path(__file__).parent / name for name in ("integration/spark", "integration", "conformance", "")
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take minutes: the short ones then fill what the processes have left at the end."""
    items.sort(key=lambda item: next(n for n, folder in enumerate(_LONGEST_FIRST) if item.path.is_relative_to(folder)))
