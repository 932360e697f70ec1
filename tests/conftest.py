"""What all tests share: hypothesis profiles, and the fixtures of running nodes."""

import gc
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

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


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what was collected out of all searches for cycles: it stays, and a search of it takes about a second."""
    gc.collect()
    gc.freeze()


_WITH_A_SESSION: Final = ("tests/integration/spark/", "tests/unit/pyspark_jobs/")
_WITH_PROGRAMS: Final = tuple(
    f"tests/integration/spark/test_{name}"
    for name in ("capture_by_spark", "pipeline", "sessions", "sink_kills", "sources_under_load")
)
"""Their sessions are those of programs that they start."""


class _OneSparkSession(LoadFileScheduling):
    """A file is run by one process, and all files that share a Spark session by the same one.

    A session takes half a minute of processor time to start and to warm up, as much as all that many of these files do with it.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_WITH_A_SESSION) and not nodeid.startswith(_WITH_PROGRAMS):
            return "Spark"
        return super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Say which tests go to one process, where ``--dist loadfile`` is asked for."""
    return _OneSparkSession(config, log) if config.getoption("dist") == "loadfile" else None
