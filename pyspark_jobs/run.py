"""The whole pipeline in one command: start a broker, feed the flights, stream them, check and draw the result, stop the broker.

The broker is known as a command only: it must print a line ``ready ... listening=HOST:PORT`` on stdout once it takes
requests, and end in order on SIGTERM. A cluster of several nodes, ``--nodes 3``, is a command likewise, whose line says
``ready bootstrap=HOST:PORT,...``. With ``--source esp --exactly-once`` Spark needs no jar. Everything is written below one
directory, which the next run replaces.
"""

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import FrameType
from typing import NamedTuple

from pyspark_jobs.lag import LagRecorder
from pyspark_jobs.leader_killer import LeaderKiller
from pyspark_jobs.processes import PipelineProcess, ProcessError

DEFAULT_DIRECTORY = "run"
HOST = "127.0.0.1"
DEFAULT_PORT = 19092
KILL_INTERVAL_S = 5.0
TOPIC = "flights"
GROUPS = ("spark.rows", "spark.windows")
"""The groups to which the positions of the queries of the streaming job are committed."""
SINK = "flight-delays"
MARKER = ".pipeline-run"
"""A file that says that a directory is ours to replace."""

READY = re.compile(r"ready\b.*\b(?:listening|bootstrap)=(\S+)")
BROKER_START_TIMEOUT_S = 60.0
STEP_TIMEOUT_S = 900.0
KILL_AFTER_LINE = "windows: batch 1,"
"""The streaming job is killed after this line, so in the midst of its third batch."""


class Way(NamedTuple):
    """The way in which a run reads and writes.

    Attributes:
        source: the format by which the jobs read topics: ``kafka`` or ``esp``.
        is_exactly_once: whether the windows are written by the exactly-once sink.
        is_watched: whether the queries' positions are committed to groups.
    """

    source: str
    is_exactly_once: bool
    is_watched: bool


class Pipeline:
    """The steps of one run.

    Args:
        directory: where everything goes.
        bootstrap_server: a running cluster.
        limit: how many flights; None is all.
        way: how the run reads and writes.
        spark_arguments: ``--master`` and ``--conf`` for the jobs.
    """

    def __init__(
        self, directory: str, bootstrap_server: str, limit: int | None, way: Way, spark_arguments: Sequence[str]
    ) -> None:
        self.rows = os.path.join(directory, "rows")
        self.report = os.path.join(directory, "report")
        self.logs = os.path.join(directory, "logs")
        self._checkpoint = os.path.join(directory, "checkpoint")
        self._lag = os.path.join(directory, "lag.csv")
        self._sink = os.path.join(directory, "sink.txt")
        self._scratch = os.path.join(directory, "tmp")  # a killed job leaves its scratch; here the next run removes it
        self._bootstrap_server = bootstrap_server
        self._cluster = ["--bootstrap-server", bootstrap_server]
        self._way = way
        self._way_arguments = ["--source", way.source, *(["--exactly-once"] if way.is_exactly_once else [])]
        self._limit = [] if limit is None else ["--limit", str(limit)]
        self._spark = list(spark_arguments)

    def recording_lag(self) -> AbstractContextManager[object]:
        """While the context lasts, the queries' lag is sampled, if their positions are committed."""
        if not self._way.is_watched:
            return nullcontext()
        return LagRecorder(self._bootstrap_server, TOPIC, GROUPS, self._lag)

    def feed(self) -> None:
        """Play the flights into their topic."""
        self._run("feed_flights", self._limit)

    def stream(self, max_offsets_per_trigger: int, *, kill: bool) -> None:
        """Run the streaming job until it has read all; ``kill`` it in the middle and start it again."""
        arguments = [
            *("--output", self.rows, "--checkpoint", self._checkpoint, "--available-now"),
            *("--max-offsets-per-trigger", str(max_offsets_per_trigger)),
            *self._way_arguments,
            *(["--watch"] if self._way.is_watched else []),
            *self._spark,
        ]
        if kill:
            with self._start("flight_delays", arguments) as job:
                for line in job.lines(STEP_TIMEOUT_S):
                    say(line)
                    if line.startswith(KILL_AFTER_LINE):
                        break
                else:
                    raise ProcessError(f"flight_delays ended before it could be killed\n{job.log_tail()}")
            say("killed the streaming job (SIGKILL); starting it again on its checkpoint")
        self._run("flight_delays", arguments)

    def show_sink(self) -> None:
        """Show the last batch that the exactly-once sink has written to each partition, and keep it for the page."""
        command = [sys.executable, "-m", "esp", "spark", "sinks", "show", SINK, *self._cluster]
        with PipelineProcess("sink", command, self.logs) as process, open(self._sink, "w", encoding="utf-8") as file:
            for line in process.lines(STEP_TIMEOUT_S):
                say(line)
                file.write(f"{line}\n")
            process.require_success()

    def draw(self) -> None:
        """Check every count and draw the report."""
        arguments = ["--rows", self.rows, "--output", self.report, *self._way_arguments, *self._limit, *self._spark]
        if self._way.is_watched:
            arguments += ["--lag", self._lag]
        if self._way.is_exactly_once:
            arguments += ["--sink-text", self._sink]
        self._run("flight_report", arguments)

    def _start(self, job: str, arguments: Sequence[str]) -> PipelineProcess:
        command = [sys.executable, "-u", "-m", f"pyspark_jobs.{job}", *self._cluster, *arguments]
        return PipelineProcess(job, command, self.logs, {"TMPDIR": self._scratch})

    def _run(self, job: str, arguments: Sequence[str]) -> None:
        with self._start(job, arguments) as process:
            for line in process.lines(STEP_TIMEOUT_S):
                say(line)
            process.require_success()


def start_broker(command: Sequence[str], log_directory: str) -> tuple[PipelineProcess, str]:
    """Start the broker and wait until it takes requests; the answer is its process and its address.

    Raises:
        ProcessError: it ended, or was not ready in time.
    """
    broker = PipelineProcess("broker", command, log_directory)
    try:
        for line in broker.lines(BROKER_START_TIMEOUT_S):
            if (ready := READY.match(line)) is not None:
                return broker, ready[1]
        raise ProcessError(f"the broker ended before it was ready\n{broker.log_tail()}")
    except BaseException:
        broker.kill()
        raise


def prepare_directory(directory: str) -> None:
    """Make ``directory`` empty and ours.

    Raises:
        ProcessError: it holds something that no run of ours has put there.
    """
    if os.path.isdir(directory) and os.listdir(directory):
        if not os.path.exists(os.path.join(directory, MARKER)):
            raise ProcessError(f"{directory} is not empty and not of an earlier run: choose another --dir")
        shutil.rmtree(directory)
    for name in ("logs", "tmp"):
        os.makedirs(os.path.join(directory, name))
    with open(os.path.join(directory, MARKER), "w", encoding="utf-8"):
        pass


def say(line: str) -> None:
    """Print a line of a step."""
    print(f"    {line}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pipeline; exit status 1 when a step failed or a count was off."""
    arguments = _parse(argv)
    directory = os.path.abspath(arguments.dir)
    signal.signal(signal.SIGTERM, _on_sigterm)
    start = time.monotonic()

    def heading(text: str) -> None:
        print(f"[{time.monotonic() - start:5.1f} s] {text}", flush=True)

    try:
        prepare_directory(directory)
        with ExitStack() as stack:
            address, broker = arguments.bootstrap_server, None
            if address is None:
                command = shlex.split(arguments.broker or _default_broker(directory, arguments.nodes, arguments.port))
                what = "a broker" if arguments.nodes == 1 else f"a cluster of {arguments.nodes}"
                heading(f"Starting {what}: {shlex.join(command)}")
                broker, address = start_broker(command, os.path.join(directory, "logs"))
                stack.enter_context(broker)
                say(f"it listens on {address}")
            spark_arguments = ["--master", arguments.master, *(f"--conf={setting}" for setting in arguments.conf)]
            way = Way(arguments.source, arguments.exactly_once, has_esp())
            pipeline = Pipeline(directory, address, arguments.limit, way, spark_arguments)
            killer = stack.enter_context(ExitStack())
            if arguments.kill_leaders is not None:
                killer.enter_context(LeaderKiller(_data_directory(directory), arguments.kill_leaders, say))
            with pipeline.recording_lag():
                heading("Feeding the flights of 2013 into a topic")
                pipeline.feed()
                heading("Streaming them by Spark: to Parquet, and as delays per window to a topic")
                pipeline.stream(arguments.max_offsets_per_trigger, kill=arguments.kill_streaming)
            if way.is_exactly_once:
                heading("Asking for the last batch that the sink has written to each partition")
                pipeline.show_sink()
            heading("Reading both back: checks and charts")
            pipeline.draw()
            killer.close()
            if broker is not None:
                heading("Stopping the broker")
                broker.stop()
    except ProcessError as error:
        print(f"\nThe pipeline failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; everything that was started has been ended.", file=sys.stderr)
        return 130
    heading("Done")
    print(f"\n  page    {os.path.join(pipeline.report, 'index.html')}")
    print(f"  charts  {pipeline.report}/*.png\n  rows    {pipeline.rows}\n  logs    {pipeline.logs}")
    return 0


def has_esp() -> bool:
    """True if the package ``esp`` is installed."""
    return importlib.util.find_spec("esp") is not None


def _data_directory(directory: str) -> str:
    return os.path.join(directory, "data")


def _default_broker(directory: str, nodes: int, port: int) -> str:
    data = _data_directory(directory)
    if nodes == 1:
        arguments = ["broker", "--data-dir", data, "--set", f"listeners=PLAINTEXT://{HOST}:{port}"]
    else:
        arguments = ["cluster", "start", "--nodes", str(nodes), "--dir", data, "--port", str(port)]
    return shlex.join([sys.executable, "-m", "esp", *arguments])


def _on_sigterm(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description="Run the whole pipeline against a broker of its own.")
    parser.add_argument("--dir", default=DEFAULT_DIRECTORY, help="where everything goes; replaced by each run")
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--broker", metavar="COMMAND", help="what to start (default: esp broker, or esp cluster start)"
    )
    cluster.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="a running cluster, instead of a broker of its own"
    )
    parser.add_argument("--nodes", type=int, default=1, help="of the cluster that is started (default: 1)")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"the first port of what is started (default: {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--kill-leaders",
        type=float,
        nargs="?",
        const=KILL_INTERVAL_S,
        metavar="SECONDS",
        help=f"kill the cluster's nodes in turn, each so long after the last came back (default: {KILL_INTERVAL_S:.0f})",
    )
    parser.add_argument("--limit", type=int, help="only the first so many flights of the year")
    parser.add_argument(
        "--max-offsets-per-trigger", type=int, default=60_000, help="flights per batch (default: 60000)"
    )
    parser.add_argument(
        "--source",
        choices=("kafka", "esp"),
        default="kafka",
        help="what reads the topics: Spark's Kafka source, or the one of the package esp (default: kafka)",
    )
    parser.add_argument(
        "--exactly-once",
        action="store_true",
        help="write the windows by esp.spark.exactly_once, and check that no record is in their topic twice",
    )
    parser.add_argument(
        "--kill-streaming", action="store_true", help="kill the streaming job in the middle, and restart it"
    )
    parser.add_argument("--master", default="local[*]", help="Spark master of the jobs")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting of the jobs")
    arguments = parser.parse_args(argv)
    if arguments.nodes < 1:
        parser.error("--nodes: there must be at least one")
    if arguments.nodes > 1 and (arguments.broker or arguments.bootstrap_server):
        parser.error("--nodes says what is started; it goes with neither --broker nor --bootstrap-server")
    if arguments.kill_leaders is not None and arguments.nodes < 3:
        parser.error("--kill-leaders needs --nodes 3 or more: of fewer, one must not fail")
    if (arguments.source == "esp" or arguments.exactly_once) and not has_esp():
        parser.error('--source esp and --exactly-once need the package esp: pip install "esp[spark]"')
    return arguments


if __name__ == "__main__":
    sys.exit(main())
