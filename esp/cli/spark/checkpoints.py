"""``esp spark checkpoints``: shows how far queries have come, and sets them back."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from esp.checkpoints.batch_files import Place, parse_offsets, write_offsets
from esp.checkpoints.checkpoint import Checkpoint, check_sources, read_checkpoint
from esp.checkpoints.progress import Progress, report
from esp.checkpoints.recreated import (
    GROUP_PREFIX,
    Noted,
    Witness,
    find_recreated,
    find_witness,
    group_of_query,
)
from esp.checkpoints.setting_back import (
    Change,
    check_can_be_set_back,
    check_has_no_state,
    plan_back_to,
    plan_to_offsets,
    set_back,
)
from esp.cli.durations import format_span
from esp.cli.groups.changes import now_ms
from esp.cli.groups.offset_reset import parse_datetime
from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.kafka.held_records import first_unread_times, look_at_held
from esp.cli.kafka.record_times import read_times
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_line, print_note, working
from esp.cli.spark.checkpoint_places import open_files
from esp.model.errors import OperatorError
from esp.model.position_note import read_note

Directory = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation: a directory, or a URL.")
]

_EARLIEST: Final = "earliest"


def show(
    directory: Directory,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="GROUP",
            help="The group to which the query commits: its option groupId. One of esp.spark.watch is found by itself.",
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no broker: only what the files say.")] = False,
    json: Json = False,
) -> None:
    """Show how far a query has come in each partition, and for how long its unread records will be there.

    BEHIND is the age of the first record that is not read, LOSS IN the time until retention may delete it. A checkpoint has no ids of
    topics: a topic that was created again is known by the group to which the query commits, by esp.spark.watch or its option groupId.

    [bold]Examples[/bold]

    esp spark checkpoints show /data/checkpoints/flights

    esp spark checkpoints show s3://bucket/checkpoints/flights --offline --json
    """
    checkpoint = read_checkpoint(open_files(directory))
    if offline and group is not None:
        raise OperatorError(f"--group {group}: --offline asks no broker for it", "Leave one of the two out.")
    check_sources(checkpoint)
    rows, witness = _look(checkpoint, None if offline else bootstrap_server, group)
    if json:
        print_json(
            {
                "query_id": checkpoint.query_id,
                "planned_batch": checkpoint.planned,
                "committed_batch": checkpoint.committed,
                "has_state": checkpoint.has_state,
                "group": witness and witness.group,
                "group_batch": witness and witness.batch,
                "partitions": [{**row._asdict(), **row.place._asdict(), "place": str(row.place)} for row in rows],
            }
        )
        return
    print_line(f"query      {checkpoint.query_id}")
    print_line(f"committed  {'no batch yet' if checkpoint.committed is None else f'batch {checkpoint.committed}'}")
    if checkpoint.under_way is not None:
        print_line(f"under way  batch {checkpoint.planned}")
    print_line(f"state      {'yes' if checkpoint.has_state else 'none'}")
    if not offline:
        print_line(f"topic ids  {_describe(witness)}")
    print_line("")
    columns = ("PARTITION", "OFFSET", "BATCH END", "END", "LAG", "BEHIND", "LOSS IN", "NOTE")
    print_columns([(heading, 9) for heading in columns], [_cells(row) for row in rows])


def offsets_at(
    directory: Directory,
    moment: Annotated[
        str, typer.Argument(metavar="TIME", help="Such as 2026-11-26T09:00 (UTC, or with Z or +01:00), or earliest.")
    ],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
) -> None:
    """Print the offsets at a time, of all partitions that a query reads: JSON for the option startingOffsets.

    A partition without a record since that time has its end.

    [bold]Examples[/bold]

    esp spark checkpoints offsets-at /data/checkpoints/flights 2026-11-26T09:00
    """
    checkpoint = read_checkpoint(open_files(directory))
    check_sources(checkpoint)
    with GroupsAdmin(bootstrap_server) as admin, working("asking the leaders"):
        places = _there(admin, checkpoint.offsets)
        found = _find(admin, places, moment, "TIME")
        ends = admin.latest(places)
    offsets = {Place(*each): ends[each] if offset < 0 else offset for each, offset in found.items()}
    if not offsets:
        raise OperatorError(
            f"{directory}: its sources have no partitions that are there", "See: esp spark checkpoints show"
        )
    print_line(write_offsets(offsets))


def set_back_to(
    directory: Directory,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TIME|OFFSETS|earliest",
            help='A time such as 2026-11-26T09:00, or offsets as Spark writes them: {"topic": {"0": 23}}, or earliest.',
        ),
    ],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without it only show what would be done.")] = False,
) -> None:
    """Set a query back, so that it reads records again under new batch numbers.

    Stop the query first: one without new records, or with a long trigger, is not recognised while it runs, goes on from memory, and the
    change has no effect. No batch may be under way, and the query must have no state. The checkpoint is copied first.

    [bold]Examples[/bold]

    esp spark checkpoints set-back /data/checkpoints/flights --to 2026-11-26T09:00

    esp spark checkpoints set-back /data/checkpoints/flights --to '{"flights": {"0": 4711}}' --execute
    """
    files = open_files(directory)
    checkpoint = read_checkpoint(files)
    check_can_be_set_back(checkpoint, time.time())
    changes = _plan(checkpoint, to, bootstrap_server)
    if not changes:
        raise OperatorError(
            f"{directory}: its query is not further than that in any partition", "See: esp spark checkpoints show"
        )
    check_has_no_state(checkpoint, {change.place: change.after for change in changes})
    times = read_times(bootstrap_server, {PartitionId(*change.place): change.after for change in changes})
    at_present_ms = now_ms()
    rows = []
    for change in changes:
        at_ms = times.get(PartitionId(*change.place))
        since = "" if at_ms is None else f"{_clock(at_ms)}, {format_span(at_present_ms - at_ms)} ago"
        rows.append(
            (str(change.place), str(change.before), str(change.after), str(change.before - change.after), since)
        )
    print_columns([(heading, 9) for heading in ("PARTITION", "FROM", "TO", "RECORDS AGAIN", "SINCE")], rows)
    if not execute:
        print_note("Nothing was changed. Add --execute to do it.")
        return
    copied = set_back(files, checkpoint, changes, f".before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    print_note(
        f"The query goes on from these offsets as batch {(checkpoint.committed or 0) + 1}. The checkpoint of before: {copied}"
    )


def _plan(checkpoint: Checkpoint, to: str, servers: str) -> list[Change]:
    current = checkpoint.offsets
    with GroupsAdmin(servers) as admin, working("asking the leaders"):
        there = _there(admin, current)
        if to.lstrip().startswith("{"):
            earliest = {Place(*each): offset for each, offset in admin.earliest(there).items()}
            return plan_to_offsets(current, parse_offsets(to), earliest)
        return plan_back_to(current, {Place(*each): offset for each, offset in _find(admin, there, to, "--to").items()})


def _find(admin: GroupsAdmin, partitions: list[PartitionId], moment: str, name: str) -> dict[PartitionId, int]:
    """The offsets at a moment; -1: no record is as late.

    Raises:
        OperatorError: it is none.
    """
    if moment == _EARLIEST:
        return admin.earliest(partitions)
    return admin.since(partitions, parse_datetime(moment, name))


def _there(admin: GroupsAdmin, places: Iterable[Place]) -> list[PartitionId]:
    """The partitions among these that the cluster has."""
    wanted = {PartitionId(*place) for place in places}
    found = admin.partitions({each.topic for each in wanted})
    return [each for some in found.values() for each in some if each in wanted]


def _look(checkpoint: Checkpoint, servers: str | None, group: str | None) -> tuple[list[Progress], Witness | None]:
    """The progress in each partition, and the group that has the ids of topics.

    Raises:
        OperatorError: the cluster does not answer, or the group has no offsets.
    """
    offsets = checkpoint.offsets
    if servers is None:
        return [row._replace(note="") for row in report(checkpoint, {}, {}, 0)], None
    topics = {place.topic for place in offsets}
    with GroupsAdmin(servers) as admin, working("asking the leaders"):
        there = [each for some in admin.partitions(topics).values() for each in some]
        held = look_at_held(servers, admin, admin.latest(there))
        witness = _find_witness(admin, checkpoint, group)
        recreated = {} if witness is None else find_recreated(checkpoint, witness, admin.topic_ids(topics))
    times = first_unread_times(servers, {PartitionId(*place): offset for place, offset in offsets.items()}, held)
    rows = report(
        checkpoint,
        {Place(*each): what for each, what in held.items()},
        {Place(*each): at_ms for each, at_ms in times.items()},
        now_ms(),
        recreated,
    )
    return rows, witness


def _find_witness(admin: GroupsAdmin, checkpoint: Checkpoint, group: str | None) -> Witness | None:
    """The group that was named, or that of ``esp.spark.watch``; None: the query has none.

    Raises:
        OperatorError: the group that was named has no offsets.
    """
    if group is not None:
        witness = Witness(group, _noted(admin, group))
        if not witness.offsets:
            raise OperatorError(
                f"--group {group}: it has no offsets: it is new, they have expired, or they were deleted with all its topics",
                "Name the group of the query's option groupId (esp groups --list), or leave the option out.",
            )
        return witness
    listed, _ = admin.list_groups()
    names = [each.group_id for each in listed if each.group_id.startswith(GROUP_PREFIX)]
    own = group_of_query(checkpoint.query_id)
    return find_witness(checkpoint.query_id, {name: _noted(admin, name) for name in ([own] if own in names else names)})


def _noted(admin: GroupsAdmin, group: str) -> Noted:
    return {Place(*each): (told.offset, read_note(told.metadata)) for each, told in admin.committed(group).items()}


def _describe(witness: Witness | None) -> str:
    """The witness in words."""
    if witness is None:
        return "not known: esp.spark.watch, or --group with the query's groupId, has them"
    return f"of group {witness.group}" + ("" if witness.batch is None else f", batch {witness.batch}")


def _cells(row: Progress) -> list[str]:
    numbers = (row.offset, row.batch_end, row.end, row.lag)
    spans = (row.behind_ms, row.loss_ms)
    return [
        str(row.place),
        *("-" if number is None else str(number) for number in numbers),
        *("-" if span is None else format_span(span) for span in spans),
        row.note,
    ]


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
