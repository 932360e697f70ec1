"""``esp produce``: lines become records; the flags of ``kafka-console-producer``."""

import os
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, BinaryIO, Final

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from esp.cli.kafka.producer import Producer
from esp.cli.kafka.producer_settings import producer_setting
from esp.cli.options import BootstrapServer
from esp.cli.output import errors, print_note
from esp.cli.properties import parse_pairs
from esp.cli.record_lines import LineError, LineParser, split_lines
from esp.model.errors import OperatorError
from esp.records.builder import NewRecord

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}

_CHUNK_BYTES: Final = 128 * 1024
"""Read at once: enough to split and encode many lines together, little enough that the broker never waits for the next batch."""


class Compression(StrEnum):
    """The codec of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


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
    with _open(file) as source, Producer(bootstrap_server, topic, settings) as producer:
        chunks = _chunks_with_progress(source, producer.wait_for_input)
        if parser.is_plain:
            for lines in split_lines(chunks):
                producer.send_values(lines)
        else:
            for number, line in enumerate(chain.from_iterable(split_lines(chunks)), 1):
                producer.send(_parse(parser, number, line))
    if producer.refused:
        raise OperatorError(
            f"{producer.refused} of {producer.refused + producer.acknowledged} records were not written: {producer.refusal}",
            "The others were written.",
        )
    if errors.is_terminal:
        print_note(f"{producer.acknowledged} records written to {topic}")


def _parse(parser: LineParser, number: int, line: bytes) -> NewRecord:
    try:
        key, value, headers = parser.parse(line)
    except LineError as error:
        raise OperatorError(
            f"line {number}: {error}",
            "Correct the line, or add --property ignore.error=true; the lines before it were sent.",
        ) from error
    return NewRecord(value, key, tuple(headers))


def _open(path: str | None) -> BinaryIO:
    if path is None:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # a copy, so that closing it leaves standard input alone
    try:
        return open(path, "rb")
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}", "Give the path of a readable file.") from error


def _chunks_with_progress(source: BinaryIO, wait: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the bytes as they come; with a bar on a terminal, unless they are typed there.

    Args:
        source: where they come from.
        wait: waits until there are some.
    """
    chunks = _chunks(source.fileno(), wait)
    if not errors.is_terminal or source.isatty():
        yield from chunks
        return
    size = os.fstat(source.fileno()).st_size or None
    columns = (TextColumn("sending"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("", total=size)
        for chunk in chunks:
            progress.advance(task, len(chunk))
            yield chunk


def _chunks(descriptor: int, wait: Callable[[int], None]) -> Iterator[bytes]:
    while True:
        wait(descriptor)
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk
