"""Java's archive of Kafka's classes (class data sharing): with it Kafka's programs take half of the processor time in tests.

The first test process of the machine keeps the classes that a Kafka broker loads in a short run, beside the jars and for all test
processes. The archive changes nothing but the time in which a program starts: a JVM that cannot use it starts without. Measurements of
Kafka do not use it.
"""

import fcntl
import hashlib
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from esp.testing.kafka_tools import SHORT_RUN_OPTIONS, KafkaTools
from esp.testing.node_process import NodeError
from esp.testing.real_kafka import RealKafka

_QUIET: Final = "-Xlog:disable"
"""A JVM would say on its standard output what it thinks of an archive."""


def with_archive(tools: KafkaTools) -> KafkaTools:
    """The same tools, which start quickly; the archive is made first if there is none (some seconds)."""
    archive = tools.library_dir.parent / f"classes-{_java_version()}.jsa"
    if not archive.exists():
        with (archive.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _make(tools, archive)
    return tools.with_options(*SHORT_RUN_OPTIONS, _QUIET, f"-XX:SharedArchiveFile={archive}")


def _java_version() -> str:
    """A name for this Java: no other one can use what it makes."""
    told = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr  # noqa: S607 - as for the tools
    return hashlib.sha256(told).hexdigest()[:12]


def _make(tools: KafkaTools, archive: Path) -> None:
    made = archive.with_suffix(".part")
    made.unlink(missing_ok=True)
    archiving = tools.with_options(
        *SHORT_RUN_OPTIONS, _QUIET, "-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={made}"
    )
    with tempfile.TemporaryDirectory() as directory:
        data_dir = Path(directory) / "kafka"
        RealKafka(data_dir, tools=tools).format(secrets.token_urlsafe(16), "--ignore-formatted")
        try:
            with RealKafka(data_dir, tools=archiving):
                pass
        except NodeError:  # the tests will tell
            made.unlink(missing_ok=True)
    if not made.exists():
        made.touch()  # this Java makes none: an empty one is ignored
    made.rename(archive)
