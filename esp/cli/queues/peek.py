"""``esp queues peek``: the records at the front of a share group, with the state of each; nothing is acquired."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from esp.cli.kafka.answers import ConsumedRecord
from esp.cli.kafka.consumer import Consumer
from esp.cli.kafka.queues import QueueRecords, QueueRun, describe_queue, look_at_records
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_warning, working
from esp.cli.queues.describe import Group, led_partitions
from esp.cli.record_formats import record_as_json
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition

_WAIT_MS: Final = 3_000
"""The time for the next records to come."""
_NEW: Final = "NEW"
"""The state of a record that no member has had yet."""
_UNKNOWN: Final = "-"
_SHOWN: Final = 60
"""Characters of a value that are shown."""


def peek(
    group: Group,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Annotated[str | None, typer.Option("--topic", help="Only the records of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Only the records of this partition; with --topic.")
    ] = None,
    max_: Annotated[int, typer.Option("--max", metavar="N", min=1, help="Records of each partition at most.")] = 10,
    json: Json = False,
) -> None:
    """Show the records at the front of a share group. They are read as by any consumer: nothing is acquired or counted.

    [bold]States[/bold]: NEW, no member has had it; AVAILABLE, it was given back; ACQUIRED, a member has it; ACKNOWLEDGED; ARCHIVING, its
    dead letter is being written; ARCHIVED. Brokers of Kafka do not tell the states.

    [bold]Example[/bold]

    esp queues peek --group orders --topic orders --partition 0 --max 3
    """
    if partition is not None and topic is None:
        raise OperatorError("--partition needs --topic", "Write --topic NAME --partition NUMBER.")
    with working("reading"):
        queue = describe_queue(bootstrap_server, group)
        places = led_partitions(bootstrap_server, queue, topic)
        if partition is not None:
            places = {name: each for name, each in places.items() if name.partition == partition}
        if not places:
            raise OperatorError("the group reads no such partition", f"See them: esp queues describe --group {group}")
        found, silent = look_at_records(bootstrap_server, group, places)
        rows: list[tuple[ConsumedRecord, QueueRun | None, str]] = []
        for name in places:
            start = found[name].start_offset if name in found else queue.partitions[name].start_offset
            read = _read(bootstrap_server, name, start, max_)
            rows += [(record, *_state(found, name, record.offset)) for record in read]
    if silent:
        print_warning("the states of records are not known to these brokers: " + ", ".join(map(str, sorted(silent))))
    if json:
        for record, run, state in rows:
            print_json(_document(record, run, state))
        return
    headings = ("TOPIC", "PARTITION", "OFFSET", "STATE", "ATTEMPTS", "MEMBER", "KEY", "VALUE")
    print_columns(
        [(heading, 0) for heading in headings],
        [
            [
                record.topic,
                str(record.partition),
                str(record.offset),
                state,
                _UNKNOWN if run is None else str(run.delivery_count),
                _UNKNOWN if run is None or run.member_id is None else run.member_id,
                _text(record.key),
                _text(record.value),
            ]
            for record, run, state in rows
        ],
    )


def _state(
    found: Mapping[TopicPartition, QueueRecords], name: TopicPartition, offset: int
) -> tuple[QueueRun | None, str]:
    records = found.get(name)
    if records is None:
        return None, _UNKNOWN
    run = next((run for run in records.runs if run.start_offset <= offset < run.end_offset), None)
    if run is not None:
        return run, run.state.name
    return None, _NEW if offset >= records.end_offset else _UNKNOWN


def _read(servers: str, name: TopicPartition, start: int, most: int) -> list[ConsumedRecord]:
    """The first records from an offset on, or from the log's start if that is later or the group has none."""
    read: list[ConsumedRecord] = []
    with Consumer(servers, "read_uncommitted") as consumer:
        consumer.start_from(name.topic, name.partition, max(0, start))
        while len(read) < most:
            fetched = consumer.poll(_WAIT_MS)
            if not fetched:
                break
            read += fetched
    return read[:most]


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    text = "".join(character if character.isprintable() else "." for character in text)
    return text if len(text) <= _SHOWN or not sys.stdout.isatty() else f"{text[:_SHOWN]}…"


def _document(record: ConsumedRecord, run: QueueRun | None, state: str) -> dict[str, Any]:
    return {
        **record_as_json(record),
        "state": None if state == _UNKNOWN else state,
        "delivery_count": None if run is None else run.delivery_count,
        "member_id": None if run is None else run.member_id,
        "locked_for_ms": None if run is None or run.member_id is None else run.locked_for_ms,
    }
