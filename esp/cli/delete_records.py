"""``esp delete-records``: the oldest records of partitions are deleted; the flags and the file of ``kafka-delete-records``."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
import typer

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.records import Deletion, RecordsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line
from esp.cli.text_files import read_text
from esp.model.errors import ErrorCode, OperatorError

_VERSION: Final = 1
_ALL: Final = "all"
ALL_COMMITTED: Final = -1
_FORM: Final = (
    'Write {"partitions": [{"topic": "flights", "partition": 0, "offset": 100}], "version": 1}; offset -1 means all.'
)


class _Entry(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class _Document(msgspec.Struct):
    partitions: list[_Entry]
    version: int = _VERSION


def parse_offsets(text: str, source: str) -> dict[PartitionId, int]:
    """Read Kafka's JSON of partitions and offsets.

    Raises:
        OperatorError: it is none, of another version, or names a partition twice.
    """
    try:
        found = msgspec.json.decode(text, type=_Document)
    except msgspec.DecodeError as error:
        raise OperatorError(f"{source}: {error}", _FORM) from error
    if found.version != _VERSION:
        raise OperatorError(f"{source}: version {found.version} is not known", _FORM)
    offsets: dict[PartitionId, int] = {}
    for number, each in enumerate(found.partitions):
        partition = PartitionId(each.topic, each.partition)
        if partition in offsets:
            raise OperatorError(f"{source}: partitions[{number}]: {each.topic}-{each.partition} is listed twice", _FORM)
        if each.partition < 0 or each.offset < ALL_COMMITTED:
            raise OperatorError(f"{source}: partitions[{number}]: a number is too small", _FORM)
        offsets[partition] = each.offset
    if not offsets:
        raise OperatorError(f"{source}: names no partition", _FORM)
    return offsets


def parse_before(text: str) -> int:
    """Read ``--before``: an offset, or ``all``.

    Raises:
        OperatorError: it is neither.
    """
    if text == _ALL:
        return ALL_COMMITTED
    if not text.isascii() or not text.isdecimal():
        raise OperatorError(f"--before {text}: not an offset", f"Write a number, or {_ALL}.")
    return int(text)


def delete_records(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    offset_json_file: Annotated[
        str | None, typer.Option("--offset-json-file", metavar="FILE", help="Partitions and offsets in Kafka's JSON.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Instead of a file: the topic.")] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, help="With --topic: one or more partitions (default: all)."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="OFFSET|all", help="With --topic: the first offset to keep; all: keep no record."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Delete the records before an offset, permanently.

    [bold]Examples[/bold]

    esp delete-records --topic flights --partition 0 --before 100

    esp delete-records --topic flights --before all

    esp delete-records --offset-json-file offsets.json
    """
    offsets, first = _read_options(offset_json_file, topic, partition, before)
    with RecordsAdmin(bootstrap_server) as admin:
        if topic is not None:
            wanted = [PartitionId(topic, each) for each in partition or ()] or admin.partitions(topic)
            if not wanted:
                raise OperatorError(f"there is no topic {topic}", "See the topics: esp topics --list")
            offsets = dict.fromkeys(wanted, first)
        if not json:
            print_line("Executing records delete operation")
        done = admin.delete_records(offsets)
    _print(done, json=json)
    failed = [each for each, found in done.items() if found.error is not ErrorCode.none]
    if failed:
        raise OperatorError(
            f"{len(failed)} of {len(done)} partitions kept their records: {failed[0].topic}-{failed[0].partition}: "
            f"{done[failed[0]].error.name.upper()}",
            "See the offsets of the partitions: esp get-offsets. Records of compacted topics cannot be deleted.",
        )


def _read_options(
    path: str | None, topic: str | None, partitions: list[int] | None, before: str | None
) -> tuple[dict[PartitionId, int], int]:
    """The offsets by partition that the file names; without a file none, and the offset that applies to all partitions of the topic."""
    if (path is None) == (topic is None):
        raise OperatorError("esp delete-records takes --offset-json-file or --topic", "Give one of them.")
    if path is not None:
        if partitions or before is not None:
            raise OperatorError("--partition and --before go with --topic", "The file gives both.")
        return parse_offsets(read_text(path), path), ALL_COMMITTED
    if before is None:
        raise OperatorError("--topic needs --before", f"Give the first offset to keep: a number, or {_ALL}.")
    return {}, parse_before(before)


def _print(done: Mapping[PartitionId, Deletion], *, json: bool) -> None:
    if not json:
        print_line("Records delete operation completed:")
    rows = []
    for each, found in done.items():
        error = None if found.error is ErrorCode.none else found.error.name.upper()
        low_watermark = found.low_watermark if error is None else None
        rows.append({"topic": each.topic, "partition": each.partition, "low_watermark": low_watermark, "error": error})
        if not json:
            what = f"low_watermark: {low_watermark}" if error is None else f"error: {error}"
            print_line(f"partition: {each.topic}-{each.partition}\t{what}")
    if json:
        print_json(rows)
