"""The two brokers that are compared, each with its own defaults."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks.results import ESP, KAFKA
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka

SHARED_SETTINGS: Final = {"log.segment.delete.delay.ms": "1000"}
"""The settings of both products beside their defaults. Deleted data must leave the page cache before the next round (default: 60 s)."""

START_SCRIPT_OPTIONS: Final = (
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""The options that ``kafka-server-start.sh`` and ``kafka-run-class.sh`` give a broker's JVM by default, beside ``-Xmx1g``."""

DELETION_TIMEOUT_S: Final = 60.0
DELETION_POLL_INTERVAL_S: Final = 0.1


class DefaultKafka(RealKafka):
    """Kafka as its start script runs it."""

    START_TIMEOUT_S = 300.0
    """A machine may be busy with other things, and a JVM that starts takes many seconds of both cores."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str], port: int | None = None, **where: Any) -> None:
        super().__init__(data_dir, settings, port, heap="1g", **where)

    def _prepare(self) -> Sequence[str]:
        program, *arguments = super()._prepare()
        return [program, *START_SCRIPT_OPTIONS, *arguments]


def make_brokers(names: Iterable[str], directory: Path) -> dict[str, NodeProcess]:
    """Return the named brokers, not started, each with a data directory of its own in ``directory``."""
    kinds: dict[str, type[Node | DefaultKafka]] = {ESP: Node, KAFKA: DefaultKafka}
    return {name: kinds[name](directory / name, dict(SHARED_SETTINGS)) for name in names}


def make_formatted_brokers(
    names: Iterable[str],
    directory: Path,
    settings: Mapping[str, str] = SHARED_SETTINGS,
    *,
    esp_settings: Mapping[str, str] = MappingProxyType({}),
    format_arguments: Sequence[str] = (),
) -> dict[str, NodeProcess]:
    """Return the named brokers, not started; ESP's data directory is formatted with features beside the defaults.

    Args:
        names: the products.
        directory: where each gets a data directory of its own.
        settings: the settings of both.
        esp_settings: the settings of ESP beside these.
        format_arguments: the arguments of ``esp format`` beside ``--standalone``.
    """
    brokers: dict[str, NodeProcess] = {}
    for name in names:
        if name == ESP:
            brokers[ESP] = made = Node(directory / ESP, {**settings, **esp_settings})
            made.format(secrets.token_urlsafe(16), "--standalone", *format_arguments)
        else:
            brokers[name] = DefaultKafka(directory / name, dict(settings))
    return brokers


def wait_until_deleted(node: NodeProcess, topic: str) -> None:
    """Return once no directory of a deleted ``topic`` is left.

    Raises:
        TimeoutError: some still is, after a minute.
    """
    deadline = time.monotonic() + DELETION_TIMEOUT_S
    while any(True for directory in node.log_dirs for _ in directory.glob(f"{topic}-*")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the files of topic {topic} in {node.data_dir} are not deleted")
        time.sleep(DELETION_POLL_INTERVAL_S)
