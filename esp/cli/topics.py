"""``esp topics``: create, list, describe, grow and delete topics; the flags of ``kafka-topics``."""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from esp.cli.kafka_answers import TopicError, TopicInfo
from esp.cli.kafka_client import Admin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import console, print_line
from esp.cli.properties import parse_pairs
from esp.model.errors import ErrorCode, OperatorError

_ACTIONS = ("--create", "--list", "--describe", "--delete", "--alter")


def topics(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    create: Annotated[bool, typer.Option("--create", help="Create --topic.", rich_help_panel="What to do")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the topics.", rich_help_panel="What to do")] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show partitions and settings.", rich_help_panel="What to do")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete --topic.", rich_help_panel="What to do")] = False,
    alter: Annotated[
        bool, typer.Option("--alter", help="Give --topic more --partitions.", rich_help_panel="What to do")
    ] = False,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Name; a regular expression save with --create.", show_default=False)
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="How many; the broker's default without it.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, help="Replicas; the broker's default without it.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the new topic.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="No error if it is there.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if it is not there.")] = False,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Leave out internal topics.")] = False,
    json: Json = False,
) -> None:
    """Create, list, describe, grow and delete topics.

    [bold]Examples[/bold]

    esp topics --create --topic flights --partitions 4 --config retention.ms=-1

    esp topics --list

    esp topics --describe --topic 'flights.*'

    esp topics --delete --topic flights
    """
    chosen = [name for name, given in zip(_ACTIONS, (create, list_, describe, delete, alter), strict=True) if given]
    if len(chosen) != 1:
        raise OperatorError(f"esp topics takes one of {', '.join(_ACTIONS)}", "See esp topics --help for examples.")
    if chosen[0] not in ("--list", "--describe") and topic is None:
        raise OperatorError(f"{chosen[0]} needs --topic", f"Write esp topics {chosen[0]} --topic NAME")
    if config and not create:
        raise OperatorError(
            "--config goes with --create only", "Settings of a topic that is there cannot be changed yet."
        )
    if alter and partitions is None:
        raise OperatorError("--alter needs --partitions", "Partitions are all that it changes; give the new number.")
    configs = parse_pairs("--config", config or [])
    with Admin(bootstrap_server) as admin:
        if create:
            assert topic is not None, "checked above"
            _create(admin, topic, partitions or -1, replication_factor or -1, configs, if_not_exists)
            return
        found = _select(admin.topics(), topic, exclude_internal)
        if topic is not None and not found and not if_exists:
            raise OperatorError(f"there is no topic {topic}", "See esp topics --list for those that are there.")
        if list_:
            _list(found, json)
        elif describe:
            _describe(admin, found, json)
        elif delete:
            for each in found:
                _delete(admin, each.name)
        else:
            for each in found:
                _grow(admin, each.name, partitions or -1)


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
            f"--topic {pattern}: no topic's name, nor a regular expression: {error}", "Quote it for the shell."
        ) from error
    return [each for each in shown if compiled.fullmatch(each.name)]


def _create(
    admin: Admin, topic: str, partitions: int, replication_factor: int, configs: dict[str, str], if_not_exists: bool
) -> None:
    try:
        admin.create_topic(topic, partitions, replication_factor, configs)
    except TopicError as error:
        if if_not_exists and error.code is ErrorCode.topic_already_exists:
            return
        remedy = "Choose another name or setting."
        if error.code is ErrorCode.topic_already_exists:
            remedy = "Add --if-not-exists if that is as it should be."
        raise OperatorError(f"topic {topic} was not created: {error}", remedy) from error
    print_line(f"Created topic {topic}.")


def _delete(admin: Admin, topic: str) -> None:
    try:
        admin.delete_topic(topic)
    except TopicError as error:
        raise OperatorError(f"topic {topic} was not deleted: {error}", "See esp topics --list.") from error


def _grow(admin: Admin, topic: str, partitions: int) -> None:
    try:
        admin.grow_topic(topic, partitions)
    except TopicError as error:
        raise OperatorError(
            f"topic {topic} keeps its partitions: {error}", "A topic can only get more partitions than it has."
        ) from error


def _list(found: Sequence[TopicInfo], json: bool) -> None:
    if json:
        print_line(msgspec.json.encode([each.name for each in found]).decode())
        return
    for each in found:
        print_line(each.name)


def _describe(admin: Admin, found: Sequence[TopicInfo], json: bool) -> None:
    overrides = admin.topic_overrides([each.name for each in found])
    if json:
        described = [each._asdict() | {"configs": overrides[each.name]} for each in found]
        for each in described:
            each["partitions"] = [partition._asdict() for partition in each["partitions"]]
        print_line(msgspec.json.encode(described).decode())
        return
    for topic in found:
        configs = ",".join(f"{name}={value}" for name, value in sorted(overrides[topic.name].items()))
        replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
        print_line(
            f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {replicas}\tConfigs: {configs}"
        )
        if console.is_terminal:
            console.print(_partition_table(topic))
            continue
        for partition in topic.partitions:
            leader = str(partition.leader) if partition.leader >= 0 else "none"
            print_line(
                f"\tTopic: {topic.name}\tPartition: {partition.partition}\tLeader: {leader}"
                f"\tReplicas: {_joined(partition.replicas)}\tIsr: {_joined(partition.isr)}"
            )


def _partition_table(topic: TopicInfo) -> Table:
    table = Table("Partition", "Leader", "Replicas", "In sync", box=None, padding=(0, 4, 0, 0))
    for partition in topic.partitions:
        short = len(partition.isr) < len(partition.replicas)
        table.add_row(
            str(partition.partition),
            str(partition.leader) if partition.leader >= 0 else "[red]none",
            _joined(partition.replicas),
            f"[yellow]{_joined(partition.isr)}" if short else _joined(partition.isr),
        )
    return table


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
