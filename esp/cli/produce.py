"""``esp produce``: lines become records; the flags of ``kafka-console-producer``."""

import os
import sys
import threading
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, Final

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from esp.cli.kafka.producer import Producer, producer_setting
from esp.cli.options import BootstrapServer
from esp.cli.output import errors
from esp.cli.properties import parse_pairs
from esp.cli.record_lines import LineError, LineParser
from esp.model.errors import OperatorError

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


class Compression(StrEnum):
    """The codec of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class _Tally:
    """Counts what the broker said, from the producer's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = 0
        self.refused = 0
        self.reason: Exception | None = None

    def count(self, error: Exception | None) -> None:
        """Take the broker's word for one record."""
        with self._lock:
            if error is None:
                self.taken += 1
            else:
                self.refused += 1
                self.reason = self.reason or error


def produce(
    topic: Annotated[str, typer.Option("--topic", help="The topic to write to.", show_default=False)],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    file: Annotated[str | None, typer.Option("--file", help="Read this file instead of standard input.")] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--reader-property",
            metavar="NAME=VALUE",
            help="Input format: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
            "headers.key.separator, null.marker, ignore.error.",
        ),
    ] = None,
    compression: Annotated[
        Compression, typer.Option("--compression-codec", help="Codec of the batches.")
    ] = Compression.NONE,
    acks: Annotated[
        str,
        typer.Option(
            "--request-required-acks",
            metavar="all|1|0",
            help="Replicas that must have a record before it is acknowledged.",
        ),
    ] = "all",
    batch_size: Annotated[int, typer.Option("--batch-size", min=0, help="Largest batch in bytes.")] = 16_384,
    producer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--producer-property", "--command-property", metavar="NAME=VALUE", help="A setting of the producer."
        ),
    ] = None,
) -> None:
    """Write lines of standard input, or of a file, as records.

    [bold]Examples[/bold]

    echo hello | esp produce --topic greetings

    esp produce --topic flights --file flights.csv --compression-codec zstd

    printf 'h1:a,h2:b\\tkey\\tvalue\\n' | esp produce --topic t --property parse.headers=true --property parse.key=true
    """
    if acks not in _ACKS:
        raise OperatorError(f"--request-required-acks {acks}: not all, 1 or 0", "all is the safe choice.")
    parser = LineParser.from_properties(parse_pairs("--property", property_ or []))
    settings: dict[str, Any] = {
        "acks": _ACKS[acks],
        "enable_idempotence": _ACKS[acks] == -1,
        "compression_type": None if compression is Compression.NONE else compression.value,
        "batch_size": batch_size,
        "linger_ms": 5,
        "max_block_ms": 15_000,
        **dict(map(producer_setting, producer_property or [])),
    }
    tally = _Tally()
    with _open(file) as source, Producer(bootstrap_server, settings, tally.count) as producer:
        for number, line in enumerate(_lines_with_progress(source), 1):
            try:
                key, value, headers = parser.parse(line)
            except LineError as error:
                raise OperatorError(
                    f"line {number}: {error}",
                    "Correct the line, or add --property ignore.error=true; the lines before it were sent.",
                ) from error
            producer.send(topic, key, value, headers)
    if tally.refused:
        raise OperatorError(
            f"{tally.refused} of {tally.refused + tally.taken} records were not written: {tally.reason}",
            "The others were written.",
        )
    if errors.is_terminal:
        errors.print(f"{tally.taken} records written to {topic}")


def _open(path: str | None) -> BinaryIO:
    if path is None:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # a copy, so that closing it leaves standard input alone
    try:
        return open(path, "rb")
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}", "Give the path of a readable file.") from error


def _lines_with_progress(source: BinaryIO) -> Iterator[bytes]:
    """Yield the lines without their ends; with a bar on a terminal, unless the lines are typed there."""
    if not errors.is_terminal or source.isatty():
        for line in source:
            yield line.rstrip(b"\r\n")
        return
    size = os.fstat(source.fileno()).st_size or None
    columns = (TextColumn("sending"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("", total=size)
        for line in source:
            progress.advance(task, len(line))
            yield line.rstrip(b"\r\n")
