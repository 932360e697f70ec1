"""Kafka Connect, distributed: lines of a file to a topic, exactly once, and from there to another file, while workers are killed in turn.

The source connector writes in transactions. A sink connector of this kind is at least once: after a kill it may write lines again.
"""

import contextlib
import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from esp.testing.node_process import HOST
from esp.testing.ports import free_port
from tests.ecosystem.clients import CommittedReader, create_topic
from tests.ecosystem.killer import Killer, ProgramVictim
from tests.ecosystem.oracles.lines import judge_at_least_once, judge_exactly_once, numbered_line, numbers_in
from tests.ecosystem.program import Program, write_properties
from tests.ecosystem.stage import KILLS_GRACE_S, Outcome, Stage
from tests.ecosystem.waiting import TooLateError, wait_for

_LOGGER: Final = logging.getLogger(__name__)

MAIN_CLASS: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
WORKERS: Final = 2
TOPIC: Final = "lines"
LINES_PER_S: Final = 200
KILL_EVERY_S: Final = 20.0
"""A worker takes most of it to start on a busy machine."""

READY_TIMEOUT_S: Final = 180
CATCH_UP_TIMEOUT_S: Final = 240
_LAST: Final = 1000
"""The number of records among which the last line is looked for."""

_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
_FILE: Final = "org.apache.kafka.connect.file.FileStream"


class GrowingFile:
    """A file to which numbered lines are appended at a steady rate until told to stop."""

    def __init__(self, path: Path, per_s: int) -> None:
        self.path = path
        self.lines = 0
        self._pause_s = 10 / per_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        path.touch()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with self.path.open("a") as file:
            while not self._stopping.wait(self._pause_s):
                for _ in range(10):
                    file.write(numbered_line(self.lines) + "\n")
                    self.lines += 1
                file.flush()


class Worker:
    """A worker: the process and its REST interface."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.url = f"http://{HOST}:{free_port()}"
        properties: dict[str, object] = {
            "bootstrap.servers": stage.cluster.bootstrap,
            "group.id": "connect",
            "exactly.once.source.support": "enabled",
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "consumer.isolation.level": "read_committed",
            "consumer.session.timeout.ms": 6000,  # so that the sink goes on before the next kill
            "consumer.heartbeat.interval.ms": 1000,
            "listeners": self.url,
            "plugin.discovery": "service_load",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": 1000,
            "offset.flush.interval.ms": 1000,
        }
        for name in ("config", "offset", "status"):
            properties[f"{name}.storage.topic"] = f"connect-{name}s"
            properties[f"{name}.storage.replication.factor"] = stage.replication_factor
        path = write_properties(stage.directory / f"worker-{number}.properties", properties)
        self.program: Program = stage.program(MAIN_CLASS, [str(path)], f"connect-worker-{number}")

    def ask(self, path: str, body: object = None) -> Any:
        """Send a request to the worker's REST interface: PUT of a body, or GET.

        Returns:
            The answer; None if the worker does not answer, or not with success.
        """
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    @property
    def is_ready(self) -> bool:
        """True if the worker lists its connectors, which it does some seconds after its port is open."""
        return self.ask("/connectors") is not None

    def runs(self, connector: str) -> bool:
        """True if the connector and its task run."""
        status = self.ask(f"/connectors/{connector}/status")
        if status is None or status["connector"]["state"] != "RUNNING":
            return False
        return [task["state"] for task in status["tasks"]] == ["RUNNING"]


def run(stage: Stage) -> Iterator[Outcome]:
    """Run the two connectors and judge topic and file."""
    source, sink = stage.directory / "source.txt", stage.directory / "sink.txt"
    create_topic(stage.cluster.bootstrap, TOPIC, 1, stage.replication_factor)
    workers = [Worker(stage, number) for number in range(1, WORKERS + 1)]
    for worker in workers:
        worker.program.start()
    for worker in workers:
        wait_for(lambda worker=worker: worker.is_ready, READY_TIMEOUT_S, f"{worker.program.name} is ready")
    with CommittedReader(stage.cluster.bootstrap, TOPIC) as reader:
        with GrowingFile(source, LINES_PER_S) as growing:
            _create(workers[0], "source", {"connector.class": _FILE + "SourceConnector", "topic": TOPIC}, source)
            _create(workers[0], "sink", {"connector.class": _FILE + "SinkConnector", "topics": TOPIC}, sink)
            for name in ("source", "sink"):
                wait_for(lambda name=name: workers[0].runs(name), READY_TIMEOUT_S, f"connector {name}")
            wait_for(lambda: reader.has(bool) and _size(sink) > 0, READY_TIMEOUT_S, "the first line")
            victims = [ProgramVictim(worker.program) for worker in workers]
            with stage.node_kills() as nodes, Killer(victims, KILL_EVERY_S) as killer:
                wait_for(
                    lambda: nodes.has_killed(stage.node_kills_wanted) and killer.has_killed(stage.kills),
                    KILL_EVERY_S * stage.kills * 4 + KILLS_GRACE_S,
                    f"{stage.kills} kills",
                )
        total, last = growing.lines, numbered_line(growing.lines - 1)
        _LOGGER.info("%d lines are written, %d are in the topic", total, len(reader.records))
        with contextlib.suppress(TooLateError):
            wait_for(lambda: last in sink.read_text(), CATCH_UP_TIMEOUT_S, "the last line in the sink")
            wait_for(
                lambda: reader.has(lambda records: any(last in record.value.decode() for record in records[-_LAST:])),
                CATCH_UP_TIMEOUT_S,
                "the last line in the topic",
            )
        numbers = [number for record in reader.records for number in numbers_in(record.value.decode())]
    kills = killer.kills + nodes.kills
    violations = judge_exactly_once(total, numbers) + stage.own_ends([worker.program for worker in workers])
    yield Outcome("Connect: file to topic, exactly once", kills, len(numbers), violations)
    written = numbers_in(sink.read_text())
    yield Outcome("Connect: topic to file, at least once", kills, len(written), judge_at_least_once(total, written))


def _create(worker: Worker, name: str, settings: dict[str, str], file: Path) -> None:
    config = {**settings, "tasks.max": "1", "file": str(file)}
    if name == "source":
        config["exactly.once.support"] = "required"
    wait_for(
        lambda: worker.ask(f"/connectors/{name}/config", config) is not None,
        READY_TIMEOUT_S,
        f"the worker takes connector {name}",
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
