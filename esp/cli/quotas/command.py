"""``esp quotas``: the quotas of clients, listed, set and removed, the one that counts for a client, and the clients that are held."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from esp.cli.kafka.quotas import alter_quotas, describe_quotas
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_line
from esp.cli.quotas.entities import in_words
from esp.cli.quotas.held import show_held
from esp.model.client_quotas import (
    CLIENT_ID,
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    QuotaEntity,
    quota_entity,
)
from esp.model.errors import OperatorError
from esp.quotas.limits import QuotaLimits

_WHICH: Final = "Clients"
_ANONYMOUS: Final = "ANONYMOUS"


class Action(StrEnum):
    """The actions of the command."""

    LIST = "list"
    SET = "set"
    REMOVE = "remove"
    WHICH = "which"
    HELD = "held"


def _of(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_WHICH, show_default=False)


def quotas(
    do: Annotated[Action, typer.Argument(metavar="ACTION", help="list, set, remove, which or held.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE | KEY]...", help="set: the quotas. remove: their keys; none means all."),
    ] = None,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    user: Annotated[str | None, _of("--user", "A user: the name in the principal.", "NAME")] = None,
    user_default: Annotated[bool, _of("--user-default", "Each user without a quota of its own.")] = False,
    client_id: Annotated[str | None, _of("--client-id", "A client id.", "NAME")] = None,
    client_id_default: Annotated[
        bool, _of("--client-id-default", "Each client id without a quota of its own.")
    ] = False,
    ip: Annotated[str | None, _of("--ip", "An address.", "ADDRESS")] = None,
    ip_default: Annotated[bool, _of("--ip-default", "Each address without a quota of its own.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change without making it.")] = False,
    json: Json = False,
) -> None:
    """List, set and remove quotas of clients; see which one counts for a client, and which clients they hold now.

    A user's quotas are producer_byte_rate and consumer_byte_rate (bytes a second) and request_percentage (100 is the whole of a broker),
    each at every broker, and controller_mutation_rate (partitions a second), in the whole cluster. An address has
    connection_creation_rate.

    held shows the clients over a quota, whose connections no broker reads at the moment, and the addresses that may open no connection.

    [bold]Examples[/bold]

    esp quotas list

    esp quotas set --client-id reports consumer_byte_rate=1048576 --dry-run

    esp quotas set --user-default producer_byte_rate=10485760 request_percentage=50

    esp quotas remove --client-id reports

    esp quotas which --user alice --client-id reports

    esp quotas held
    """
    entity = _entity(
        {
            USER: (user, user_default),
            CLIENT_ID: (client_id, client_id_default),
            IP: (ip, ip_default),
        }
    )
    if do in (Action.SET, Action.REMOVE) and json:
        raise OperatorError(f"--json is not for {do.value}", "Leave it out.")
    if do not in (Action.SET, Action.REMOVE) and (dry_run or values):
        raise OperatorError(f"{do.value} changes nothing", "Leave out --dry-run and the quotas.")
    if do is Action.LIST:
        _list(bootstrap_server, entity, json=json)
    elif do is Action.WHICH:
        _which(bootstrap_server, user=user, client_id=client_id, ip=ip, json=json)
    elif do is Action.HELD:
        show_held(bootstrap_server, entity, json=json)
    elif do is Action.SET:
        _change(bootstrap_server, entity, parse_values(values or []), dry_run=dry_run)
    else:
        _remove(bootstrap_server, entity, values or [], dry_run=dry_run)


def parse_values(texts: list[str]) -> dict[str, float]:
    """Read quotas of the form ``key=value``.

    Raises:
        OperatorError: there is none, or one is not of that form.
    """
    if not texts:
        raise OperatorError("set needs quotas", "For example producer_byte_rate=1048576")
    found: dict[str, float] = {}
    for text in texts:
        key, _, value = text.partition("=")
        try:
            found[key] = float(value)
        except ValueError as error:
            raise OperatorError(f"{text}: not of the form key=number", "Write producer_byte_rate=1048576.") from error
    return found


def _entity(given: Mapping[str, tuple[str | None, bool]]) -> QuotaEntity:
    for kind, (name, is_default) in given.items():
        if name is not None and is_default:
            raise OperatorError(f"--{kind} and --{kind}-default exclude each other", "Give one of them.")
    return quota_entity((kind, name) for kind, (name, is_default) in given.items() if name is not None or is_default)


def _require(entity: QuotaEntity, do: str) -> None:
    if not entity:
        raise OperatorError(
            f"{do} needs a client", "Give --user, --client-id, both, or --ip; or the option with -default."
        )


def _list(servers: str, entity: QuotaEntity, *, json: bool) -> None:
    """Show the quotas of the entities that have the given parts."""
    found = {
        each: values for each, values in sorted(describe_quotas(servers).items(), key=str) if set(entity) <= set(each)
    }
    if json:
        print_json(
            [
                {"entity": {part.type: part.name for part in each}, "quotas": dict(values)}
                for each, values in found.items()
            ]
        )
        return
    rows = [
        [in_words(each), key, f"{value:,.12g}"]
        for each, values in found.items()
        for key, value in sorted(values.items())
    ]
    if not rows:
        print_line("There are no quotas." if not entity else f"{in_words(entity)} has no quotas.")
        return
    print_columns([("CLIENTS", 30), ("QUOTA", 26), ("A SECOND", 0)], rows)


def _which(servers: str, *, user: str | None, client_id: str | None, ip: str | None, json: bool) -> None:
    """Show the quotas that count for a client, each with the entity that has it."""
    if user is None and client_id is None and ip is None:
        raise OperatorError("which needs a client", "Give --user, --client-id, both, or --ip.")
    limits = QuotaLimits(describe_quotas(servers))
    found = {}
    if user is not None or client_id is not None:
        found = {key: limits.find(key, user or _ANONYMOUS, client_id or "") for key in CLIENT_KEYS}
    if ip is not None:
        found[CONNECTION_CREATION_RATE] = limits.find_for_address(ip)
    if json:
        print_json(
            {
                key: None
                if limit is None
                else {"value": limit.value, "entity": {part.type: part.name for part in limit.entity}}
                for key, limit in found.items()
            }
        )
        return
    print_columns(
        [("QUOTA", 26), ("A SECOND", 16), ("OF", 0)],
        [
            [key, "no limit", ""] if limit is None else [key, f"{limit.value:,.12g}", in_words(limit.entity)]
            for key, limit in found.items()
        ],
    )


def _change(servers: str, entity: QuotaEntity, values: Mapping[str, float], *, dry_run: bool) -> None:
    _require(entity, "set")
    before = describe_quotas(servers).get(entity, {})
    alter_quotas(servers, entity, values, validate_only=dry_run)
    for key, value in values.items():
        was = f", was {before[key]:,.12g}" if key in before else ""
        print_line(f"{'DRY RUN: ' if dry_run else ''}{in_words(entity)}: {key} is {value:,.12g} a second{was}")


def _remove(servers: str, entity: QuotaEntity, keys: list[str], *, dry_run: bool) -> None:
    _require(entity, "remove")
    before = describe_quotas(servers).get(entity, {})
    missing = [key for key in keys if key not in before]
    if missing or not before:
        raise OperatorError(
            f"{in_words(entity)} has no quota {', '.join(missing)}".rstrip(), "See them with `esp quotas list`."
        )
    removed = keys or sorted(before)
    alter_quotas(servers, entity, dict.fromkeys(removed), validate_only=dry_run)
    for key in removed:
        print_line(
            f"{'DRY RUN: ' if dry_run else ''}{in_words(entity)}: {key} is removed, was {before[key]:,.12g} a second"
        )
