"""``esp spark sinks``: the batches that exactly-once sinks have written, as they stand in their groups; and a sink that forgets."""

from collections.abc import Sequence
from typing import Annotated

import typer

from esp.cli.kafka.answers import CommittedOffset, GroupListing, PartitionId
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_note, working
from esp.consumer.group_messages import Committed
from esp.model.errors import ErrorCode, OperatorError
from esp.sink.share import GROUP_PREFIX, NO_BATCH, group_of, read_share

Name = Annotated[str, typer.Argument(metavar="NAME", help="The sink, as the program names it.")]
Topic = Annotated[str | None, typer.Option("--topic", help="This topic only.", show_default=False)]

_WIDTH = 9


def list_sinks(bootstrap_server: BootstrapServer = "127.0.0.1:9092", json: Json = False) -> None:
    """List the sinks, with the topics that they write to and their newest batches.

    [bold]Examples[/bold]

    esp spark sinks list
    """
    with GroupsAdmin(bootstrap_server) as admin, working("asking the coordinators"):
        names = [group.group_id.removeprefix(GROUP_PREFIX) for group in _groups(admin)]
        found = [(name, topic, offsets) for name in names for topic, offsets in _by_topic(admin, name).items()]
    rows = [
        (
            name,
            topic,
            len(offsets),
            max(map(_last_batch, offsets.values()), key=lambda batch: -1 if batch is None else batch),
        )
        for name, topic, offsets in found
    ]
    if json:
        keys = ("sink", "topic", "partitions", "batch")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    columns = ("SINK", "TOPIC", "PARTITIONS", "BATCH")
    print_columns([(heading, _WIDTH) for heading in columns], [_cells(row) for row in rows])


def show_sink(
    name: Name, bootstrap_server: BootstrapServer = "127.0.0.1:9092", topic: Topic = None, json: Json = False
) -> None:
    """Show the last batch that a sink has written to each partition, and its rows there.

    [bold]Examples[/bold]

    esp spark sinks show flights
    """
    with GroupsAdmin(bootstrap_server) as admin, working("asking the coordinator"):
        offsets = _offsets(admin, name, topic)
    rows = []
    for partition, committed in offsets.items():
        share = read_share(Committed(committed.offset, committed.metadata))
        facts = (None, None, None) if share is None else (_last_batch(committed), share.rows, share.partitions)
        rows.append((partition.topic, partition.partition, *facts))
    if json:
        keys = ("topic", "partition", "batch", "rows", "partitions")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    columns = ("TOPIC", "PARTITION", "BATCH", "ROWS", "OF PARTITIONS")
    print_columns([(heading, _WIDTH) for heading in columns], [_cells(row) for row in rows])


def reset_sink(
    name: Name,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Topic = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without it only show what would be done.")] = False,
) -> None:
    """Make a sink forget what it has written, for a query that begins anew: its next batch is written whatever the topic holds.

    Stop the query first: the command cannot know whether it runs, and the next batch of one that runs is refused. Rows that come again are
    then in the topic twice.

    [bold]Examples[/bold]

    esp spark sinks reset flights

    esp spark sinks reset flights --execute
    """
    with GroupsAdmin(bootstrap_server) as admin, working("asking the coordinator"):
        offsets = _offsets(admin, name, topic)
        failed: dict[PartitionId, ErrorCode] = {}
        if execute and topic is None:
            admin.delete_group(group_of(name))
        elif execute:
            told = admin.delete_offsets(group_of(name), offsets)
            failed = {partition: code for partition, code in told.items() if code is not ErrorCode.none}
    if failed:
        partition, code = next(iter(failed.items()))
        raise OperatorError(
            f"sink {name} keeps the batch of {partition.topic}-{partition.partition}: {code.name}",
            "Stop its query, and try again.",
        )
    rows = [
        _cells((f"{partition.topic}-{partition.partition}", _last_batch(committed)))
        for partition, committed in offsets.items()
    ]
    print_columns([("PARTITION", _WIDTH), ("FORGETS UP TO BATCH", _WIDTH)], rows)
    if execute:
        print_note(
            f"Sink {name} has no batches now. A query that is further than batch 0 needs begin=True, and the next batch of one that runs "
            "is refused."
        )
    else:
        print_note("Nothing was changed. Add --execute to do it.")


def _last_batch(committed: CommittedOffset) -> int | None:
    """The last batch of a partition; None if it has none."""
    batch = committed.offset - 1
    return None if batch == NO_BATCH else batch


def _cells(row: Sequence[object]) -> list[str]:
    return ["-" if cell is None else str(cell) for cell in row]


def _groups(admin: GroupsAdmin) -> list[GroupListing]:
    found, silent = admin.list_groups()
    if silent:
        raise OperatorError(
            f"brokers {', '.join(map(str, silent))} do not answer: the sinks that they coordinate are unknown",
            "Start them.",
        )
    return [group for group in found if group.group_id.startswith(GROUP_PREFIX)]


def _by_topic(admin: GroupsAdmin, name: str) -> dict[str, dict[PartitionId, CommittedOffset]]:
    topics: dict[str, dict[PartitionId, CommittedOffset]] = {}
    for partition, committed in admin.committed(group_of(name)).items():
        topics.setdefault(partition.topic, {})[partition] = committed
    return topics


def _offsets(admin: GroupsAdmin, name: str, topic: str | None) -> dict[PartitionId, CommittedOffset]:
    """The offsets that a sink has committed.

    Raises:
        OperatorError: it has committed nothing.
    """
    found = {
        partition: committed
        for partition, committed in admin.committed(group_of(name)).items()
        if topic is None or partition.topic == topic
    }
    if not found:
        where = "" if topic is None else f" to topic {topic}"
        raise OperatorError(f"sink {name} has written nothing{where}", "List the sinks: esp spark sinks list")
    return found
