"""``esp queues describe``: how far a share group is, the members that have its records, and the records that fail."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from esp.cli.kafka.answers import PartitionInfo
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.queues import Queue, QueueRecords, describe_queue, look_at_records
from esp.cli.kafka.transactions import TransactionsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_line, print_warning, working
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition

_UNKNOWN: Final = "-"

Group = Annotated[str, typer.Option("--group", help="The share group.")]
"""The option of all of these commands."""


def describe(
    group: Group,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Annotated[str | None, typer.Option("--topic", help="Only the partitions of this topic.")] = None,
    members: Annotated[bool, typer.Option("--members", help="The members, with the records that they have.")] = False,
    json: Json = False,
) -> None:
    """Show the partitions of a share group, or its members.

    [bold]Columns[/bold]: START is the first record that is not finished, END the first record that no member was ever given; the group's
    window is between them. IN-FLIGHT counts the records that members have now, OLDEST-LOCK is the longest time for which one of these has
    been held. ATTEMPTS counts records by deliveries (3x2: three records, twice each). LETTERS counts dead letters that are still to be
    written. Kafka's brokers report START and LAG only.

    [bold]Examples[/bold]

    esp queues describe --group orders

    esp queues describe --group orders --members
    """
    with working("asking the coordinator and the leaders"):
        queue = describe_queue(bootstrap_server, group)
        places = led_partitions(bootstrap_server, queue, topic)
        found, silent = look_at_records(bootstrap_server, group, places)
    if silent:
        print_warning(
            "these brokers have no records of the group in memory, or are none of ESP: "
            + ", ".join(map(str, sorted(silent)))
        )
    if json:
        print_json(_document(group, queue, places, found))
    elif members:
        _print_members(queue, found)
    else:
        _print_partitions(queue, places, found)


def led_partitions(servers: str, queue: Queue, topic: str | None) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions of a share group with their leaders.

    Raises:
        OperatorError: the group does not read the topic.
    """
    if topic is not None and not any(each.topic == topic for each in queue.partitions):
        known = ", ".join(sorted({each.topic for each in queue.partitions})) or "none"
        raise OperatorError(f"the group reads no topic {topic}", f"It reads: {known}.")
    wanted = {each.topic for each in queue.partitions if topic in (None, each.topic)}
    with TransactionsAdmin(servers, LOOK_TIMEOUT_S) as admin:
        there = admin.partitions(wanted)
    return {each: there[each] for each in sorted(queue.partitions) if each in there}


def _print_partitions(
    queue: Queue, places: Mapping[TopicPartition, PartitionInfo], found: Mapping[TopicPartition, QueueRecords]
) -> None:
    headings = (
        "TOPIC",
        "PARTITION",
        "LEADER",
        "START",
        "END",
        "LAG",
        "IN-FLIGHT",
        "OLDEST-LOCK",
        "ATTEMPTS",
        "LETTERS",
    )
    rows = []
    for name, place in places.items():
        offsets, records = queue.partitions[name], found.get(name)
        start = offsets.start_offset if records is None else records.start_offset
        row = [name.topic, str(name.partition), str(place.leader), _number(start)]
        if records is None:
            row += [_UNKNOWN, _number(offsets.lag), *[_UNKNOWN] * 4]
        else:
            lock_ms = records.oldest_lock_ms
            row += [
                str(records.end_offset),
                _number(offsets.lag),
                str(records.acquired_count),
                _UNKNOWN if lock_ms is None else f"{lock_ms / 1000:.1f} s",
                ", ".join(f"{count}x{attempts}" for attempts, count in records.attempts.items()) or _UNKNOWN,
                _letters(records),
            ]
        rows.append(row)
    print_line(f"{queue.state}, {len(queue.members)} {'member' if len(queue.members) == 1 else 'members'}")
    print_columns([(heading, 0) for heading in headings], rows)


def _print_members(queue: Queue, found: Mapping[TopicPartition, QueueRecords]) -> None:
    held = _held(found)
    there = {each.member_id for each in queue.members}
    rows = [
        [each.member_id, each.client_id, each.host, str(held.get(each.member_id, 0)) if found else _UNKNOWN]
        for each in sorted(queue.members)
    ]
    rows += [[each, "(not a member)", _UNKNOWN, str(count)] for each, count in held.items() if each not in there]
    print_columns([(heading, 0) for heading in ("MEMBER", "CLIENT-ID", "HOST", "IN-FLIGHT")], rows)


def _held(found: Mapping[TopicPartition, QueueRecords]) -> dict[str, int]:
    held: dict[str, int] = {}
    for records in found.values():
        for member, count in records.holders.items():
            held[member] = held.get(member, 0) + count
    return held


def _letters(records: QueueRecords) -> str:
    failing_ms = records.letters_failing_ms
    return (
        str(records.letter_count) if not failing_ms else f"{records.letter_count} (failing {failing_ms / 1000:.0f} s)"
    )


def _number(number: int) -> str:
    return _UNKNOWN if number < 0 else str(number)


def _document(
    group: str,
    queue: Queue,
    places: Mapping[TopicPartition, PartitionInfo],
    found: Mapping[TopicPartition, QueueRecords],
) -> dict[str, Any]:
    held = _held(found)
    return {
        "group": group,
        "state": queue.state,
        "members": [
            {**each._asdict(), "in_flight": held.get(each.member_id, 0) if found else None} for each in queue.members
        ],
        "partitions": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "leader": place.leader,
                **queue.partitions[name]._asdict(),
                "records": None if name not in found else _records(found[name]),
            }
            for name, place in places.items()
        ],
    }


def _records(records: QueueRecords) -> dict[str, Any]:
    return {
        "start_offset": records.start_offset,
        "end_offset": records.end_offset,
        "in_flight": records.acquired_count,
        "oldest_lock_ms": records.oldest_lock_ms,
        "attempts": {str(attempts): count for attempts, count in records.attempts.items()},
        "pending_letters": records.letter_count,
        "letters_failing_ms": records.letters_failing_ms,
        "span_max": records.span_max,
        "attempts_max": records.attempts_max,
        "holders": records.holders,
    }
