"""``esp groups``: consumer groups, how far they are, and where they go on; the flags of ``kafka-consumer-groups``."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from esp.cli.groups.changes import Reset, delete_groups, delete_offsets, now_ms, reset_offsets
from esp.cli.groups.offset_reset import (
    Offsets,
    Target,
    parse_datetime,
    parse_duration,
    parse_offsets_csv,
    parse_topics,
)
from esp.cli.groups.progress import Scope
from esp.cli.groups.reports import (
    describe_members,
    describe_offsets,
    describe_states,
    describe_whole,
    known_groups,
    list_groups,
)
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.options import BootstrapServer, Json, action
from esp.cli.output import print_warning
from esp.cli.text_files import read_text
from esp.model.errors import OperatorError

_ACTIONS: Final = ("--list", "--describe", "--delete", "--delete-offsets", "--reset-offsets")
_RESET: Final = "Target of --reset-offsets"

_State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="[STATES]",
        help="With --describe: the state. With --list: show states, or only groups in these states.",
    ),
]

_Type = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="[TYPES]",
        help="With --list: show types, share groups among them, or only groups of these types.",
    ),
]

_Topic = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME[:0,1]",
        help="Topic, or some of its partitions; may be given several times. With --describe: the offsets of these only.",
    ),
]

_Times = Annotated[
    bool,
    typer.Option(
        "--times",
        help="With --describe: the age of the first record that is not read, and the time until retention may delete it.",
    ),
]


class GroupAction(StrEnum):
    """The actions that may be words, with groups behind them, in place of options."""

    LIST = "list"
    DESCRIBE = "describe"
    DELETE = "delete"


_Word = Annotated[
    GroupAction | None,
    typer.Argument(metavar="ACTION", help="list, describe or delete; else one of the flags.", show_default=False),
]

_Names = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP", help="describe, delete: the groups.", show_default=False)
]


def groups(
    word: _Word = None,
    names: _Names = None,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    list_: Annotated[bool, action("--list", "List the groups.")] = False,
    describe: Annotated[
        bool, action("--describe", "Show the offsets and lag of groups; or --members, or --state.")
    ] = False,
    delete: Annotated[bool, action("--delete", "Delete groups with their offsets.")] = False,
    delete_offsets_: Annotated[bool, action("--delete-offsets", "Delete the committed offsets of --topic.")] = False,
    reset_offsets_: Annotated[bool, action("--reset-offsets", "Reset the committed offsets of groups.")] = False,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="The group; may be given several times.", show_default=False)
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups.")] = False,
    topic: _Topic = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics for which the group has committed offsets.")
    ] = False,
    members: Annotated[bool, typer.Option("--members", help="With --describe: the members.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="With --describe: lag by partition (the default).")
    ] = False,
    state: _State = None,
    type_: _Type = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="With --describe: more columns.")] = False,
    times: _Times = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The first offset.", rich_help_panel=_RESET)
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end of the log.", rich_help_panel=_RESET)] = False,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="The committed offset; the end if there is none.", rich_help_panel=_RESET),
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, help="This offset.", rich_help_panel=_RESET)
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="This many records forward; back if negative.", rich_help_panel=_RESET),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="YYYY-MM-DDThh:mm:ss.sss",
            help="The first record from this time on.",
            rich_help_panel=_RESET,
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration", metavar="PnDTnHnMnS", help="The first record since this long ago.", rich_help_panel=_RESET
        ),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="CSV", help="A file that --export wrote.", rich_help_panel=_RESET),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change only.", rich_help_panel=_RESET)] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Carry the change out.", rich_help_panel=_RESET)] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the offsets as CSV.", rich_help_panel=_RESET)] = False,
    json: Json = False,
) -> None:
    """List, describe and delete consumer groups, and reset their offsets.

    The action describe shows all about a group at once: state and epochs, members with their partitions, and for each partition the lag in
    records and time, and the time until unread records may be deleted. Of more than a hundred partitions it shows sums by topic, and those
    that need attention first. The flag --describe prints what Kafka's tool prints.

    [bold]Examples[/bold]

    esp groups --list --state

    esp groups describe readers

    esp groups --describe --group readers

    esp groups describe readers --topic flights

    esp groups --describe --group readers --times

    esp groups --describe --all-groups --members --verbose

    esp groups --reset-offsets --group readers --topic flights:0,1 --to-earliest --dry-run

    esp groups --reset-offsets --group readers --all-topics --by-duration PT1H --execute

    esp groups --delete --group readers
    """
    is_whole = word is GroupAction.DESCRIBE and not (members or offsets or times or state is not None)
    if word is not None:
        _check_words(word, names or [], is_mixed=list_ or describe or delete or delete_offsets_ or reset_offsets_)
        list_, describe, delete = (
            word is each for each in (GroupAction.LIST, GroupAction.DESCRIBE, GroupAction.DELETE)
        )
        group = [*(names or []), *(group or [])] or None
    chosen = _chosen((list_, describe, delete, delete_offsets_, reset_offsets_))
    _require_groups(chosen, group, all_groups)
    reset: Reset | None = None
    if reset_offsets_:
        targets = {
            Target.EARLIEST: to_earliest or None,
            Target.LATEST: to_latest or None,
            Target.CURRENT: to_current or None,
            Target.OFFSET: to_offset,
            Target.SHIFT: shift_by,
            Target.TIME: _since_ms(to_datetime, by_duration),
            Target.FILE: from_file,
        }
        reset = _read_reset(targets, topic, all_topics, group or [])
        _check_execution(execute=execute, dry_run=dry_run, export=export)
    elif delete_offsets_ and not topic:
        raise OperatorError("--delete-offsets needs --topic", "Write --topic NAME or --topic NAME:0,1")
    _check_view(describe=describe, members=members, offsets=offsets, state=state is not None, times=times)
    scope = _read_scope(topic, has_other_view=members or state is not None) if describe and topic else None
    with GroupsAdmin(bootstrap_server, LOOK_TIMEOUT_S if list_ or describe else None) as admin:
        if list_:
            list_groups(admin, state, type_, json)
            return
        named = [each.group_id for each in known_groups(admin)] if all_groups else list(dict.fromkeys(group or []))
        if is_whole:
            describe_whole(admin, named, verbose, json, servers=bootstrap_server, scope=scope)
        elif describe and members:
            describe_members(admin, named, verbose, json)
        elif describe and state is not None:
            describe_states(admin, named, verbose, json)
        elif describe:
            times_from = bootstrap_server if times else None
            describe_offsets(admin, named, verbose, json, times_from=times_from, scope=scope)
        elif delete:
            delete_groups(admin, named)
        elif delete_offsets_:
            delete_offsets(admin, named[0], topic or [])
        else:
            assert reset is not None, "read above"
            reset_offsets(admin, named, reset, execute=execute, export=export, json=json)


def _chosen(given: Sequence[bool]) -> str:
    """Return the one of the actions that is given.

    Raises:
        OperatorError: none is, or several are.
    """
    chosen = [name for name, is_given in zip(_ACTIONS, given, strict=True) if is_given]
    if len(chosen) != 1:
        raise OperatorError(
            f"esp groups takes one of {', '.join(_ACTIONS)}, list, describe or delete",
            "See esp groups --help for examples.",
        )
    return chosen[0]


def _check_words(word: GroupAction, names: list[str], *, is_mixed: bool) -> None:
    if is_mixed:
        raise OperatorError(f"esp groups {word} goes with no other action", f"Write esp groups {word} GROUP")
    if names and word is GroupAction.LIST:
        raise OperatorError("esp groups list takes no group", f"Write esp groups describe {names[0]}")


def _check_view(*, describe: bool, members: bool, offsets: bool, state: bool, times: bool) -> None:
    if describe and members + offsets + state > 1:
        raise OperatorError("--members, --offsets and --state exclude each other", "Give one of them.")
    if times:
        _require_offsets("--times", has_other_view=not describe or members or state)


def _read_scope(topics: Sequence[str], *, has_other_view: bool) -> Scope:
    """The partitions of which offsets are described. Raises OperatorError."""
    _require_offsets("--topic", has_other_view=has_other_view)
    return parse_topics(topics)


def _require_offsets(option: str, *, has_other_view: bool) -> None:
    """Raise OperatorError: an option is given that only the view of offsets has."""
    if has_other_view:
        raise OperatorError(
            f"{option} belongs to --describe with offsets", f"Write esp groups --describe --group NAME {option}"
        )


def _require_groups(chosen: str, group: list[str] | None, all_groups: bool) -> None:
    if chosen == "--list":
        return
    if bool(group) == all_groups:
        raise OperatorError(f"{chosen} needs --group or --all-groups", f"Write esp groups {chosen} --group NAME")
    if chosen == "--delete-offsets" and len(group or ()) != 1:
        raise OperatorError("--delete-offsets takes one group", "Run it once for each.")


def _check_execution(*, execute: bool, dry_run: bool, export: bool) -> None:
    """Refuse --execute beside --dry-run, and warn where neither says whether offsets are to be changed.

    Raises:
        OperatorError: both are given.
    """
    if execute and dry_run:
        raise OperatorError("--execute and --dry-run exclude each other", "Give one of them.")
    if not execute and not dry_run and not export:
        print_warning("no offset is changed without --execute; --dry-run silences this warning")


def _since_ms(to_datetime: str | None, by_duration: str | None) -> int | None:
    if to_datetime is not None and by_duration is not None:
        raise OperatorError("--to-datetime and --by-duration exclude each other", "Give one of them.")
    if to_datetime is not None:
        return parse_datetime(to_datetime)
    return None if by_duration is None else now_ms() - parse_duration(by_duration)


def _read_reset(
    targets: dict[Target, bool | int | str | None], topics: list[str] | None, all_topics: bool, group: list[str]
) -> Reset:
    chosen = [target for target, value in targets.items() if value is not None]
    if len(chosen) != 1:
        raise OperatorError(
            f"--reset-offsets takes one of {', '.join(f'--{target}' for target in Target)}, --by-duration",
            "See esp groups --help for examples.",
        )
    [target] = chosen
    value = targets[target]
    read: Offsets = {}
    if isinstance(value, str):
        read = parse_offsets_csv(read_text(value), group)
    elif bool(topics) == all_topics:
        raise OperatorError("--reset-offsets needs --topic or --all-topics", "Write --topic NAME or --topic NAME:0,1")
    return Reset(target, int(value) if isinstance(value, int) else 0, None if all_topics else topics, read)
