"""``esp topics``: create, list, describe, grow and delete topics, with the flags of ``kafka-topics``; and the trash."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from esp.cli.kafka.answers import RefusedError, TopicInfo
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.topics import TopicsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line, working
from esp.cli.properties import parse_pairs
from esp.cli.topic_description import Selection, describe_topics, print_topics
from esp.cli.trash import TrashAction, run_trash
from esp.model.errors import ErrorCode, OperatorError


def _filter(name: str, text: str) -> Any:
    return typer.Option(name, help=text, rich_help_panel="Filters of --describe")


_ACTIONS = ("--create", "--list", "--describe", "--delete", "--alter")


def topics(
    trash_action: Annotated[
        TrashAction | None,
        typer.Argument(metavar="[ACTION]", help="trash, restore or purge; else one of the flags.", show_default=False),
    ] = None,
    trash_topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]", help="restore, purge: a deleted topic's name, or its id.", show_default=False
        ),
    ] = None,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    create: Annotated[bool, typer.Option("--create", help="Create --topic.", rich_help_panel="Actions")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the topics.", rich_help_panel="Actions")] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show partitions and settings.", rich_help_panel="Actions")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete --topic.", rich_help_panel="Actions")] = False,
    alter: Annotated[
        bool, typer.Option("--alter", help="Give --topic more --partitions.", rich_help_panel="Actions")
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Name; except with --create, a regular expression.", show_default=False),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Number of partitions (default: the broker's).")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, help="Replicas of each partition (default: the broker's)."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the new topic.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="No error if the topic exists.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if the topic does not exist.")] = False,
    under_replicated: Annotated[
        bool, _filter("--under-replicated-partitions", "Describe partitions with replicas that are not in sync.")
    ] = False,
    unavailable: Annotated[bool, _filter("--unavailable-partitions", "Describe partitions without a leader.")] = False,
    at_min_isr: Annotated[
        bool, _filter("--at-min-isr-partitions", "Describe partitions with exactly min.insync.replicas in sync.")
    ] = False,
    under_min_isr: Annotated[
        bool, _filter("--under-min-isr-partitions", "Describe partitions with fewer than min.insync.replicas in sync.")
    ] = False,
    with_overrides: Annotated[
        bool, _filter("--topics-with-overrides", "Describe topics with settings of their own, without partitions.")
    ] = False,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Leave out internal topics.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="restore: also where no replica is left that has all records.")
    ] = False,
    json: Json = False,
) -> None:
    """Create, list, describe, grow and delete topics, and restore deleted ones.

    With topic.trash.retention.ms above 0, of the cluster or the topic, a deleted topic is in the trash for that time: no client finds it,
    and it can be restored under its id, with records, settings and committed offsets. The space that it takes is free when it is purged.

    [bold]Examples[/bold]

    esp topics --create --topic flights --partitions 4 --config retention.ms=-1

    esp topics --list

    esp topics --describe --topic 'flights.*'

    esp topics --describe --under-replicated-partitions

    esp topics --alter --topic flights --partitions 8

    esp topics --delete --topic flights

    esp topics trash

    esp topics restore flights

    esp topics purge flights
    """
    chosen = [name for name, given in zip(_ACTIONS, (create, list_, describe, delete, alter), strict=True) if given]
    _check_trash_use(trash_action, force, is_mixed=bool(chosen) or topic is not None)
    if trash_action is not None:
        run_trash(bootstrap_server, trash_action, trash_topic, is_forced=force, json=json)
        return
    _check_action(chosen, topic, partitions, has_config=bool(config))
    filters = (under_replicated, unavailable, at_min_isr, under_min_isr, with_overrides)
    selection = _selection(chosen[0], [each for each, given in zip(Selection, filters, strict=True) if given])
    configs = parse_pairs("--config", config or [])
    with TopicsAdmin(bootstrap_server, LOOK_TIMEOUT_S if list_ or describe else None) as admin:
        if create:
            assert topic is not None, "checked above"
            _create(admin, topic, partitions or -1, replication_factor or -1, configs, if_not_exists)
            return
        found = _select(admin.topics(), topic, exclude_internal)
        if topic is not None and not found and not if_exists:
            raise OperatorError(f"there is no topic {topic}", "See the topics: esp topics --list")
        if list_:
            _list(found, json)
        elif describe:
            with working("asking the brokers"):
                described = describe_topics(admin, found, selection)
            print_topics(described, json)
        elif delete:
            for each in found:
                _delete(admin, each.name)
        else:
            for each in found:
                _grow(admin, each.name, partitions or -1)


def _check_action(chosen: Sequence[str], topic: str | None, partitions: int | None, *, has_config: bool) -> None:
    """Refuse a command without one action, or an action without the options that it needs.

    Raises:
        OperatorError: the action, or an option of it, is missing or does not belong there.
    """
    if len(chosen) != 1:
        raise OperatorError(
            f"esp topics takes one of {', '.join(_ACTIONS)}, trash, restore or purge",
            "See esp topics --help for examples.",
        )
    if chosen[0] not in ("--list", "--describe") and topic is None:
        raise OperatorError(f"{chosen[0]} needs --topic", f"Write esp topics {chosen[0]} --topic NAME")
    if has_config and chosen[0] != "--create":
        raise OperatorError(
            "--config goes with --create only",
            "Change a topic that is there: esp configs --alter --entity-type topics --entity-name NAME --add-config NAME=VALUE",
        )
    if chosen[0] == "--alter" and partitions is None:
        raise OperatorError(
            "--alter needs --partitions", "It changes the number of partitions only; give the new number."
        )


def _selection(chosen: str, selected: Sequence[Selection]) -> Selection | None:
    """Return the filter of --describe; None if none is given.

    Raises:
        OperatorError: several filters are given, or one with another action.
    """
    if len(selected) > 1 or (selected and chosen != "--describe"):
        raise OperatorError(
            f"{' and '.join(f'--{each}' for each in selected)}: not together, or not with {chosen}",
            f"Write esp topics --describe --{selected[0]}",
        )
    return selected[0] if selected else None


def _check_trash_use(action: TrashAction | None, force: bool, *, is_mixed: bool) -> None:
    """Refuse an action on the trash beside another action, and --force without restore.

    Raises:
        OperatorError: the options do not go together.
    """
    if action is not None and is_mixed:
        raise OperatorError(
            f"esp topics {action} goes with no other action, and takes the topic without --topic",
            f"Write esp topics {action} NAME",
        )
    if force and action is not TrashAction.RESTORE:
        raise OperatorError("--force goes with restore only", "Write esp topics restore NAME --force")


def _select(known: Sequence[TopicInfo], pattern: str | None, exclude_internal: bool) -> list[TopicInfo]:
    """Return the topics that a name or regular expression means; a name that is there means that topic alone."""
    shown = [each for each in known if not (exclude_internal and each.internal)]
    if pattern is None:
        return shown
    exact = [each for each in shown if each.name == pattern]
    if exact:
        return exact
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise OperatorError(
            f"--topic {pattern}: neither a topic's name nor a regular expression: {error}", "Quote it for the shell."
        ) from error
    return [each for each in shown if compiled.fullmatch(each.name)]


def _create(
    admin: TopicsAdmin,
    topic: str,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    if_not_exists: bool,
) -> None:
    try:
        admin.create_topic(topic, partitions, replication_factor, configs)
    except RefusedError as error:
        if if_not_exists and error.code is ErrorCode.topic_already_exists:
            return
        remedy = "Choose another name or setting."
        if error.code is ErrorCode.topic_already_exists:
            remedy = "Add --if-not-exists if the topic may exist."
        raise OperatorError(f"topic {topic} was not created: {error.message}", remedy) from error
    print_line(f"Created topic {topic}.")


def _delete(admin: TopicsAdmin, topic: str) -> None:
    try:
        admin.delete_topic(topic)
    except RefusedError as error:
        raise OperatorError(f"topic {topic} was not deleted: {error.message}", "See esp topics --list.") from error


def _grow(admin: TopicsAdmin, topic: str, partitions: int) -> None:
    try:
        admin.grow_topic(topic, partitions)
    except RefusedError as error:
        raise OperatorError(
            f"topic {topic} keeps its partitions: {error.message}", "A topic can only get more partitions than it has."
        ) from error


def _list(found: Sequence[TopicInfo], json: bool) -> None:
    if json:
        print_json([each.name for each in found])
        return
    for each in found:
        print_line(each.name)
