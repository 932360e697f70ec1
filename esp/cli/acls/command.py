"""``esp acls``: rules of access, listed, added and removed; the flags of ``kafka-acls``."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from esp.cli.acls.rules import (
    Resource,
    Roles,
    Subjects,
    bindings_of,
    filters_of,
    listing_filters,
    parse_operation,
    parse_pattern,
    resources_of,
    word_of,
)
from esp.cli.kafka.acls import AclsAdmin
from esp.cli.options import BootstrapServer, Json, action
from esp.cli.output import print_columns, print_json, print_line, print_note
from esp.model.acl import AclBinding, AclPermission, PatternType, ResourceType
from esp.model.errors import OperatorError

_WHICH: Final = "Resource"
_RULE: Final = "Rule"
_COLUMNS: Final = (("PRINCIPAL", 16), ("PERMISSION", 5), ("OPERATION", 10), ("RESOURCE", 20), ("HOST", 0))


def _of(name: str, text: str, metavar: str | None = None, panel: str = _WHICH) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


def _in_rule(name: str, text: str, metavar: str | None = None) -> Any:
    return _of(name, text, metavar, _RULE)


def acls(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    list_: Annotated[bool, action("--list", "List rules: all, or those of resources or principals.")] = False,
    add: Annotated[bool, action("--add", "Add rules.")] = False,
    remove: Annotated[bool, action("--remove", "Remove rules; without principals all rules of the resources.")] = False,
    topic: Annotated[list[str] | None, _of("--topic", "A topic; * is every topic. Repeat.", "NAME")] = None,
    group: Annotated[list[str] | None, _of("--group", "A group; * is every group. Repeat.", "NAME")] = None,
    transactional_id: Annotated[
        list[str] | None, _of("--transactional-id", "A transactional id; * is every one. Repeat.", "ID")
    ] = None,
    delegation_token: Annotated[
        list[str] | None, _of("--delegation-token", "The id of a delegation token; * is every one. Repeat.", "ID")
    ] = None,
    user_principal: Annotated[
        list[str] | None,
        _of(
            "--user-principal",
            "A user whose tokens others make or see, such as User:alice; * is every one. Repeat.",
            "P",
        ),
    ] = None,
    cluster: Annotated[bool, _of("--cluster", "The cluster as a whole.")] = False,
    resource_pattern_type: Annotated[
        str,
        _of(
            "--resource-pattern-type",
            "literal, or prefixed: all names that begin so. To list or remove also any, and match: all that is about the name.",
            "TYPE",
        ),
    ] = "literal",
    allow_principal: Annotated[
        list[str] | None, _in_rule("--allow-principal", "A principal that may, such as User:alice. Repeat.", "P")
    ] = None,
    deny_principal: Annotated[
        list[str] | None, _in_rule("--deny-principal", "A principal that may not. Repeat.", "P")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _in_rule("--allow-host", "An address from which it may; on ESP a network too: 10.0.0.0/8. Repeat.", "H"),
    ] = None,
    deny_host: Annotated[
        list[str] | None, _in_rule("--deny-host", "An address from which it may not. Repeat.", "H")
    ] = None,
    operation: Annotated[
        list[str] | None, _in_rule("--operation", "Read, Write, Describe, ...; All, if none is given. Repeat.", "O")
    ] = None,
    producer: Annotated[bool, _in_rule("--producer", "What a producer needs: Write, Describe, Create.")] = False,
    consumer: Annotated[bool, _in_rule("--consumer", "What a consumer needs: Read and Describe; Read group.")] = False,
    idempotent: Annotated[bool, _in_rule("--idempotent", "With --producer: IdempotentWrite on the cluster.")] = False,
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="P", help="With --list: rules of this principal. Repeat.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the rules that would be added or removed; change nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --remove: do not ask.")] = False,
    json: Json = False,
) -> None:
    """List, add and remove rules of access.

    [bold]Examples[/bold]

    esp acls --add --allow-principal User:alice --producer --topic orders

    esp acls --add --allow-principal User:bob --consumer --topic orders --group billing

    esp acls --list --topic orders --resource-pattern-type match

    esp acls --remove --allow-principal User:alice --producer --topic orders --dry-run
    """
    if [list_, add, remove].count(True) != 1:
        raise OperatorError("One of --list, --add and --remove is needed.", "See esp acls --help.")
    resources = resources_of(
        {
            ResourceType.TOPIC: topic or (),
            ResourceType.GROUP: group or (),
            ResourceType.TRANSACTIONAL_ID: transactional_id or (),
            ResourceType.DELEGATION_TOKEN: delegation_token or (),
            ResourceType.USER: user_principal or (),
        },
        is_cluster=cluster,
        pattern=parse_pattern(resource_pattern_type, is_filter=not add),
    )
    what = (
        resources,
        [parse_operation(text) for text in operation or ()],
        Roles(producer, consumer, idempotent),
        Subjects(allow_principal or (), allow_host or ()),
        Subjects(deny_principal or (), deny_host or ()),
    )
    if list_:
        _list(bootstrap_server, resources, principal or (), json=json)
    elif add:
        rules = bindings_of(*what)
        if not dry_run:
            with AclsAdmin(bootstrap_server) as admin:
                admin.add(rules)
        _show(rules, json=json)
        _tell(rules, "added", dry_run=dry_run)
    else:
        filters = filters_of(*what)
        with AclsAdmin(bootstrap_server) as admin:
            found = admin.rules(filters)
            if not dry_run and found:
                _ask(found, force=force)
                found = admin.remove(filters) or found
        _show(found, json=json)
        _tell(found, "removed", dry_run=dry_run)


def _list(servers: str, resources: Sequence[Resource], principals: Sequence[str], *, json: bool) -> None:
    with AclsAdmin(servers) as admin:
        found = admin.rules(listing_filters(resources, principals))
    _show(found, json=json)


def _tell(rules: Sequence[AclBinding], done: str, *, dry_run: bool) -> None:
    if rules:
        number = f"{len(rules)} rule{'s' if len(rules) > 1 else ''}"
        print_note(f"{number} would be {done}; nothing was changed." if dry_run else f"{number} {done}.")


def _ask(rules: Sequence[AclBinding], *, force: bool) -> None:
    """Let a person at a terminal agree.

    Raises:
        OperatorError: there is no terminal, or the answer is no.
    """
    if force:
        return
    if not sys.stdin.isatty():
        raise OperatorError(f"{len(rules)} rules would be removed.", "Give --force, or see them with --dry-run.")
    _show(rules, json=False)
    if not typer.confirm(f"Remove these {len(rules)} rules?"):
        raise OperatorError("Nothing was removed.", "Give other options to remove other rules.")


def _show(rules: Sequence[AclBinding], *, json: bool) -> None:
    if json:
        print_json([_row(rule) for rule in rules])
        return
    if not rules:
        print_line("no rules")
        return
    print_columns(
        _COLUMNS,
        [
            (
                rule.principal,
                "allow" if rule.permission is AclPermission.ALLOW else "deny",
                word_of(rule.operation),
                f"{rule.resource_type.name.lower()}:{rule.resource_name}{_pattern_mark(rule)}",
                rule.host,
            )
            for rule in rules
        ],
    )


def _pattern_mark(rule: AclBinding) -> str:
    return "..." if rule.pattern_type is PatternType.PREFIXED else ""


def _row(rule: AclBinding) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
        "resourceType": rule.resource_type.name,
        "resourceName": rule.resource_name,
        "patternType": rule.pattern_type.name,
    }
