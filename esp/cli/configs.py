"""``esp configs``: settings of topics, brokers and groups, looked at and changed; the flags of ``kafka-configs``.

Changes of settings as ``kafka-configs`` takes them: ``k=v,k=[a,b]``, and files of them. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import typer

from esp.cli.kafka.answers import ConfigEntry, RefusedError
from esp.cli.kafka.configs import ConfigsAdmin, ResourceType
from esp.cli.options import BootstrapServer, Json, action
from esp.cli.output import console, in_one_line, print_columns, print_json, print_line, working
from esp.cli.text_files import read_text
from esp.model.errors import OperatorError
from esp.settings.properties import parse_properties

_COMMA: Final = re.compile(r",(?![^\[\]]*\])")
"""A comma that stands in no brackets."""


def parse_added(text: str) -> dict[str, str]:
    """Read ``--add-config``; brackets around a value, which let it hold commas, are taken away.

    Raises:
        OperatorError: a part is not of the form ``name=value``.
    """
    added: dict[str, str] = {}
    for part in _COMMA.split(text):
        name, separator, value = (each.strip() for each in part.partition("="))
        if not separator or not name:
            raise OperatorError(
                f"--add-config {part.strip()}: not of the form name=value",
                "Write name=value,name=value; put a value with commas in brackets: cleanup.policy=[compact,delete]",
            )
        added[name] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return added


def parse_file(text: str) -> dict[str, str]:
    """Read ``--add-config-file``, which has the form of Java's properties files.

    Raises:
        OperatorError: a line cannot be read.
    """
    try:
        return {entry.name: entry.value for entry in parse_properties(text)}
    except ValueError as error:
        raise OperatorError(f"--add-config-file: {error}", "Write one name=value per line.") from error


def parse_deleted(text: str) -> list[str]:
    """Read ``--delete-config``: names with commas between them."""
    return [name for name in map(str.strip, text.split(",")) if name]


def require_disjoint(added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Look whether the changes make sense together.

    Raises:
        OperatorError: there are none, or a setting is both set and deleted.
    """
    if not added and not deleted:
        raise OperatorError(
            "--alter needs --add-config, --add-config-file or --delete-config",
            "For example --add-config retention.ms=-1",
        )
    both = sorted(added.keys() & set(deleted))
    if both:
        raise OperatorError(f"{', '.join(both)}: both added and deleted", "Give each setting once.")


_DEFAULT: Final = ""
"""The name, in the protocol, of what holds for all brokers."""

_WHICH: Final = "Resource"


class EntityType(StrEnum):
    """The kinds of entities that have settings; Kafka's words."""

    TOPICS = "topics"
    BROKERS = "brokers"
    GROUPS = "groups"


class _Kind(NamedTuple):
    resource: ResourceType
    word: str
    sources: Mapping[bool, str]
    """The sources of an entity's own settings: True for the default of all entities, False for one by name."""


_KINDS: Final = {
    EntityType.TOPICS: _Kind(ResourceType.TOPIC, "topic", {False: "DYNAMIC_TOPIC_CONFIG"}),
    EntityType.BROKERS: _Kind(
        ResourceType.BROKER, "broker", {False: "DYNAMIC_BROKER_CONFIG", True: "DYNAMIC_DEFAULT_BROKER_CONFIG"}
    ),
    EntityType.GROUPS: _Kind(ResourceType.GROUP, "group", {False: "DYNAMIC_GROUP_CONFIG"}),
}


def _of(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_WHICH, show_default=False)


def configs(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    describe: Annotated[bool, action("--describe", "Show dynamic settings.")] = False,
    alter: Annotated[bool, action("--alter", "Change dynamic settings.")] = False,
    entity_type: Annotated[EntityType | None, _of("--entity-type", "The type of resource.")] = None,
    entity_name: Annotated[str | None, _of("--entity-name", "A topic's or group's name, a broker's id.")] = None,
    entity_default: Annotated[bool, _of("--entity-default", "The defaults for all brokers.")] = False,
    topic: Annotated[str | None, _of("--topic", "Short for --entity-type topics --entity-name.", "NAME")] = None,
    broker: Annotated[str | None, _of("--broker", "Short for --entity-type brokers --entity-name.", "ID")] = None,
    broker_defaults: Annotated[
        bool, _of("--broker-defaults", "Short for --entity-type brokers --entity-default.")
    ] = False,
    group: Annotated[str | None, _of("--group", "Short for --entity-type groups --entity-name.", "NAME")] = None,
    all_: Annotated[bool, typer.Option("--all", help="With --describe: all settings, not only dynamic ones.")] = False,
    add_config: Annotated[
        str | None,
        typer.Option(
            "--add-config", metavar="K=V,K=[A,B]", help="Settings to set; put a value with commas in brackets."
        ),
    ] = None,
    add_config_file: Annotated[
        str | None, typer.Option("--add-config-file", metavar="FILE", help="Settings to set, one name=value per line.")
    ] = None,
    delete_config: Annotated[
        str | None, typer.Option("--delete-config", metavar="K,K", help="Settings to reset to their defaults.")
    ] = None,
    json: Json = False,
) -> None:
    """Describe and change the settings of topics, brokers and groups.

    [bold]Examples[/bold]

    esp configs --describe --entity-type topics --entity-name flights --all

    esp configs --alter --entity-type topics --entity-name flights --add-config 'retention.ms=-1,cleanup.policy=[compact,delete]'

    esp configs --alter --entity-type topics --entity-name flights --delete-config retention.ms

    esp configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000

    esp configs --describe --broker 1 --all --json
    """
    if describe == alter:
        raise OperatorError("esp configs takes one of --describe, --alter", "See esp configs --help for examples.")
    kind, name = _entity(
        entity_type, _DEFAULT if entity_default else entity_name, topic, _DEFAULT if broker_defaults else broker, group
    )
    if entity_default and entity_name is not None:
        raise OperatorError("--entity-default and --entity-name exclude each other", "Give one of them.")
    changes = (add_config, add_config_file, delete_config)
    if describe and any(change is not None for change in changes):
        raise OperatorError("--describe changes nothing", "Write --alter with --add-config or --delete-config.")
    if describe:
        with ConfigsAdmin(bootstrap_server) as admin:
            _describe(admin, kind, name, all_=all_, json=json)
        return
    added = parse_file(read_text(add_config_file)) if add_config_file is not None else {}
    added |= parse_added(add_config) if add_config is not None else {}
    deleted = parse_deleted(delete_config or "")
    require_disjoint(added, deleted)
    if name is None:
        raise OperatorError(
            "--alter needs --entity-name", f"Name the {kind.word}, or give --entity-default for all brokers."
        )
    with ConfigsAdmin(bootstrap_server) as admin:
        _alter(admin, kind, name, added, deleted)


def _entity(
    entity_type: EntityType | None, entity_name: str | None, topic: str | None, broker: str | None, group: str | None
) -> tuple[_Kind, str | None]:
    """Return what was asked about, by the long options or by a short one; the name is None for all that are there."""
    short = {EntityType.TOPICS: topic, EntityType.BROKERS: broker, EntityType.GROUPS: group}
    named = [(kind, name) for kind, name in short.items() if name is not None]
    if len(named) + (entity_type is not None) != 1:
        raise OperatorError(
            "esp configs takes one of --entity-type, --topic, --broker, --broker-defaults, --group",
            "For example --entity-type topics --entity-name NAME",
        )
    if entity_type is not None:
        named = [(entity_type, name) for name in (entity_name,) if name is not None]
    kind = _KINDS[entity_type or named[0][0]]
    name = named[0][1] if named else None
    if name == _DEFAULT and kind.resource is not ResourceType.BROKER:
        raise OperatorError(f"--entity-default is for brokers, not for {kind.word}s", "Give --entity-name.")
    if name and kind.resource is ResourceType.BROKER and not name.isdecimal():
        raise OperatorError(f"{name} is not a broker id", "Brokers are named by their node.id, a number.")
    return kind, name


def _describe(admin: ConfigsAdmin, kind: _Kind, name: str | None, *, all_: bool, json: bool) -> None:
    with working("asking the brokers"):
        there = admin.names(kind.resource)
        if name and name not in there:
            raise OperatorError(
                f"The {kind.word} '{name}' doesn't exist and doesn't have dynamic config.",
                f"Leave the name out to see every {kind.word}.",
            )
        wanted = [name] if name is not None else there
        if name is None and kind.resource is ResourceType.BROKER:
            wanted = [*there, _DEFAULT]
        settings = admin.settings(kind.resource, wanted) if wanted else {}
    shown = {
        each: [entry for entry in settings[each] if all_ or entry.source == kind.sources[each == _DEFAULT]]
        for each in wanted
    }
    if json:
        print_json([_as_json(kind, each, entries) for each, entries in shown.items()])
        return
    for each, entries in shown.items():
        _print_entries(_heading(kind, each, all_), entries)


def _heading(kind: _Kind, name: str, all_: bool) -> str:
    if name == _DEFAULT:
        return f"Default configs for {kind.word}s in the cluster are:"
    return f"{'All' if all_ else 'Dynamic'} configs for {kind.word} {name} are:"


def _print_entries(heading: str, entries: Sequence[ConfigEntry]) -> None:
    print_line(in_one_line(heading))
    if console.is_terminal and entries:
        print_columns(
            [("Setting", 0), ("Value", 0), ("From", 0), ("Otherwise", 0)],
            [
                [entry.name, _value(entry), entry.source, ", ".join(map(_synonym, entry.synonyms[1:]))]
                for entry in entries
            ],
        )
        return
    for entry in entries:
        synonyms = ", ".join(f"{each.source}:{each.name}={_null(each.value)}" for each in entry.synonyms)
        print_line(
            f"  {entry.name}={_null(entry.value)} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"
        )


def _synonym(synonym: tuple[str, str, str | None]) -> str:
    source, name, value = synonym
    return f"{name}={_null(value)} ({source})"


def _value(entry: ConfigEntry) -> str:
    return "(secret)" if entry.sensitive else _null(entry.value)


def _null(value: str | None) -> str:
    return "null" if value is None else value


def _as_json(kind: _Kind, name: str, entries: Sequence[ConfigEntry]) -> dict[str, Any]:
    return {
        "type": kind.word,
        "name": name,
        "configs": [
            entry._asdict() | {"synonyms": [synonym._asdict() for synonym in entry.synonyms]} for entry in entries
        ],
    }


def _alter(admin: ConfigsAdmin, kind: _Kind, name: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    whose = f"{kind.word} {name}" if name else f"{kind.word}s in the cluster"
    try:
        admin.alter(kind.resource, name, added, deleted)
    except RefusedError as error:
        raise OperatorError(
            f"the settings of {whose} were not changed: {error.message}",
            "Names and values are Kafka's; --describe --all shows them.",
        ) from error
    print_line(f"Completed updating {'' if name else 'default '}config for {whose}.")
