"""``esp capture start``: a runner of a capture."""

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Annotated, Any, Final

import typer

from esp.cli.capture.telling import connect, load, telling
from esp.cli.options import BootstrapServer, CommandConfig
from esp.cli.output import print_warning
from esp.model.errors import OperatorError
from esp.options.durations import parse_duration_ms
from esp.options.value_options import ValueOptions, parse_value_options
from esp.rebalance.sizes import parse_size

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SIZE_LEAST: Final = 1024 * 1024
_VALUES: Final = "Values as columns"
_SPARK: Final = "On a Spark cluster"
_THREADS_MOST: Final = 4


def start(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The capture: letters, digits, _ and -. Its offsets are those of the group esp-capture.NAME.",
        ),
    ],
    topic: Annotated[list[str], typer.Option("--topic", help="A topic; may be given several times.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="DIR",
            help="The directory, this capture's own; or a URL that pyarrow knows (s3://, gs://, hdfs://).",
        ),
    ],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    command_config: CommandConfig = None,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Close a file this long after its first record was read.")
    ] = "15m",
    size: Annotated[str, typer.Option("--size", help="Close a file that has this size.")] = "128MB",
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="delta",
            help="Make a Delta table of each topic's files: DIR/TOPIC. It needs the extra esp[delta], and no JVM.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Capture what is there now, and end.")] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            help="The number of partitions to capture at once (default: 4, or one for each processor).",
            show_default=False,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Capture by tasks of a Spark cluster: spark://HOST:PORT, yarn, k8s://HOST:PORT, or local[2].",
            rich_help_panel=_SPARK,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="KEY=VALUE",
            help="A setting of Spark; may be given several times.",
            rich_help_panel=_SPARK,
        ),
    ] = None,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Go on although records were deleted before they were captured.")
    ] = False,
    value_format: Annotated[
        str | None,
        typer.Option(
            "--value-format", help="json, avro or string: the fields of values become columns.", rich_help_panel=_VALUES
        ),
    ] = None,
    value_schema: Annotated[
        str | None,
        typer.Option("--value-schema", help="Of json: name STRING, count INT. Of avro: JSON.", rich_help_panel=_VALUES),
    ] = None,
    schema_registry: Annotated[
        str | None, typer.Option("--schema-registry", metavar="URL", help="Of avro.", rich_help_panel=_VALUES)
    ] = None,
    schema_subject: Annotated[
        str | None,
        typer.Option("--schema-subject", help="The subject with the columns' schema.", rich_help_panel=_VALUES),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            help="permissive: values that cannot be decoded stand in _corrupt; failfast: the capture ends.",
            rich_help_panel=_VALUES,
        ),
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", help="Of times in json without one.", rich_help_panel=_VALUES)
    ] = None,
) -> None:
    """Write the records of topics to Parquet files, TOPIC/dt=DAY/PARTITION-FIRST-END.parquet, each record once.

    With --table delta each topic's files are a Delta table too, DIR/TOPIC, to which each round adds its files in one commit.

    A file appears when it is whole; so any reader of Parquet may read the directory at any time. Stop it by SIGTERM or Ctrl-C: it
    commits what it has read. Start it again with the same NAME and DIR, after a crash too: it goes on behind the last file. A second
    start takes the capture over, and the first one ends.

    With --master tasks of a Spark cluster read the topics and write the files, which every executor must reach under DIR, and this process
    commits them. Partitions are read at the start, and then when the first record that is in no file has waited for --every.

    [bold]Examples[/bold]

    esp capture start lake --topic flights --topic delays --to /data/lake

    esp capture start lake --topic flights --to /data/lake --once

    esp capture start lake --topic flights --to /data/lake --table delta

    esp capture start lake --topic flights --to s3://bucket/lake --master spark://10.0.0.1:7077

    esp capture start lake --topic delays --to s3://bucket/lake --value-format json --value-schema 'carrier STRING, delay INT'
    """
    _check_together(table, threads, master, conf)
    if _NAME.fullmatch(name) is None:
        raise OperatorError(f"NAME {name}: it is no name of a capture", "Write letters, digits, _ and -.")
    size_bytes = _file_bytes(size)
    with telling():
        values = {
            "valueFormat": value_format,
            "valueSchema": value_schema,
            "schemaRegistry": schema_registry,
            "schemaSubject": schema_subject,
            "mode": mode,
            "timeZone": time_zone,
        }
        options = _value_options(values, topic)
        every_s = parse_duration_ms("every", every) / 1000
        runner = load("esp.capture.runner")
        plan = load("esp.capture.plan").CapturePlan(
            name,
            tuple(dict.fromkeys(topic)),
            to,
            *connect(bootstrap_server, command_config),
            load("esp.capture.cutting").Limits(every_s, size_bytes),
            options,
            threads or min(_THREADS_MOST, os.cpu_count() or 1),
            once,
            skip_lost,
            table is not None,
        )
        _run(runner, plan, {} if master is None else {"make_crew": _on_spark(name, master, conf or [])})


def _file_bytes(size: str) -> int:
    """Return the size of a file in bytes.

    Raises:
        OperatorError: ``size`` is no size, or too small.
    """
    size_bytes = parse_size("--size", size)
    if size_bytes < _SIZE_LEAST:
        raise OperatorError(f"--size {size}: files would be too small for Parquet", "Write 1MB or more.")
    return size_bytes


def _value_options(values: Mapping[str, str | None], topics: Sequence[str]) -> ValueOptions:
    """Return the options of the columns of values, by their names as options of the Spark source.

    Raises:
        OperatorError: a topic's name is empty.
        OptionError: an option is not valid, or does not go with another one.
    """
    if not all(map(str.strip, topics)):
        raise OperatorError("--topic: a name is empty", "Name topics that exist.")
    return parse_value_options({option: text for option, text in values.items() if text is not None}, topics)


def _run(runner: Any, plan: Any, crews: Mapping[str, Any]) -> None:
    """Run a capture to its end, or to SIGTERM or SIGINT.

    Args:
        runner: the module :mod:`esp.capture.runner`.
        plan: the plan of the capture.
        crews: ``make_crew``, if another process than this one captures.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _setter(stop))
    runner.Runner(plan, print_warning, stop, **crews).run()


def _check_together(table: str | None, threads: int | None, master: str | None, conf: list[str] | None) -> None:
    """Return if these options make sense, and do so together.

    Raises:
        OperatorError: they do not.
    """
    if master is None and conf:
        raise OperatorError(f"--conf {conf[0]}: it is a setting of Spark, and none is used", "Give --master too.")
    if master is not None and threads is not None:
        raise OperatorError(
            f"--threads {threads}: with --master the tasks that Spark runs at once are its cores",
            "Leave one of the two out.",
        )
    if table not in (None, "delta"):
        raise OperatorError(f"--table {table}: there are no such tables here", "Write delta, or leave it out.")


def _on_spark(name: str, master: str, conf: list[str]) -> Any:
    """Return the maker of a crew of tasks of a Spark cluster.

    Raises:
        OperatorError: a setting has no value, or Spark cannot be used.
    """
    settings = {}
    for setting in conf:
        key, separator, value = setting.partition("=")
        if not key or not separator:
            raise OperatorError(f"--conf {setting}: it is no setting", "Write KEY=VALUE.")
        settings[key] = value
    return load("esp.spark.capture_crew").open_crew(name, master, settings)


def _setter(stop: threading.Event) -> Callable[[int, FrameType | None], None]:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return on_signal
