"""``esp capture start``: a runner of a capture."""

import os
import re
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Final

import typer

from esp.cli.capture.telling import connect, load, telling
from esp.cli.options import BootstrapServer, CommandConfig
from esp.cli.output import print_warning
from esp.model.errors import OperatorError
from esp.options.durations import parse_duration_ms
from esp.options.value_options import parse_value_options
from esp.rebalance.sizes import parse_size

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SIZE_LEAST: Final = 1024 * 1024
_VALUES: Final = "Values as columns"


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
        str, typer.Option("--every", metavar="TIME", help="A file is closed so long after its first record was read.")
    ] = "15m",
    size: Annotated[str, typer.Option("--size", help="A file is closed at this size.")] = "128MB",
    once: Annotated[bool, typer.Option("--once", help="Capture what is there now, and end.")] = False,
    threads: Annotated[int, typer.Option("--threads", min=1, help="So many partitions are captured at once.")] = min(
        4, os.cpu_count() or 1
    ),
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

    A file appears when it is whole; so any reader of Parquet may read the directory at any time. Stop it by SIGTERM or Ctrl-C: it
    commits what it has read. Start it again with the same NAME and DIR, after a crash too: it goes on behind the last file. A second
    start takes the capture over, and the first one ends.

    [bold]Examples[/bold]

    esp capture start lake --topic flights --topic delays --to /data/lake

    esp capture start lake --topic flights --to /data/lake --once

    esp capture start lake --topic delays --to s3://bucket/lake --value-format json --value-schema 'carrier STRING, delay INT'
    """
    if _NAME.fullmatch(name) is None:
        raise OperatorError(f"NAME {name}: it is no name of a capture", "Write letters, digits, _ and -.")
    size_bytes = parse_size("--size", size)
    if size_bytes < _SIZE_LEAST:
        raise OperatorError(f"--size {size}: files would be too small for Parquet", "Write 1MB or more.")
    stop = threading.Event()
    with telling():
        values = {
            "valueFormat": value_format,
            "valueSchema": value_schema,
            "schemaRegistry": schema_registry,
            "schemaSubject": schema_subject,
            "mode": mode,
            "timeZone": time_zone,
        }
        given = {option: text for option, text in values.items() if text is not None}
        options = parse_value_options(given, topic)
        every_s = parse_duration_ms("every", every) / 1000
        runner = load("esp.capture.runner")
        cutting = load("esp.capture.cutting")
        plan = runner.CapturePlan(
            name,
            tuple(dict.fromkeys(topic)),
            to,
            *connect(bootstrap_server, command_config),
            cutting.Limits(every_s, size_bytes),
            options,
            threads,
            once,
            skip_lost,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _setter(stop))
        runner.Runner(plan, print_warning, stop).run()


def _setter(stop: threading.Event) -> Callable[[int, FrameType | None], None]:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return on_signal
