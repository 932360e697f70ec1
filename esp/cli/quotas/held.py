"""``esp quotas held``: the clients that quotas hold at the moment, added up over the brokers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from esp.cli.kafka.quotas import HeldThere, find_held
from esp.cli.output import print_columns, print_json, print_line, print_warning
from esp.cli.quotas.entities import in_words, of_parts
from esp.model.acl_hosts import as_peers_have_it
from esp.model.client_quotas import CLIENT_ID, IP, USER, QuotaEntity
from esp.model.errors import OperatorError

_UNKNOWN: Final = 1
"""The exit status where not all brokers have told."""


@dataclass(frozen=True, slots=True)
class Held:
    """A client that brokers hold because of one quota, with what each of them holds of it."""

    first: HeldThere
    at: dict[int, HeldThere] = field(default_factory=dict)

    @property
    def connections(self) -> int:
        """The connections that wait, at all brokers."""
        return sum(each.connections for each in self.at.values())

    @property
    def left_ms(self) -> int:
        """The longest time for which one of them waits still."""
        return max(each.left_ms for each in self.at.values())


def show_held(servers: str, wanted: QuotaEntity, *, json: bool) -> None:
    """Show the clients that are held.

    Args:
        servers: bootstrap servers.
        wanted: the names of clients, or the defaults whose quotas hold them; none: all.
        json: as one JSON document.

    Raises:
        OperatorError: no broker tells.
    """
    told = find_held(servers)
    unknown = {broker: found for broker, found in told.items() if isinstance(found, OperatorError)}
    if unknown and len(unknown) == len(told):
        raise next(iter(unknown.values()))
    held = add_up(
        {broker: found for broker, found in told.items() if not isinstance(found, OperatorError)},
        wanted,
    )
    if json:
        print_json(_document(held, unknown))
    else:
        _print(held)
    for broker, error in unknown.items():
        print_warning(f"broker {broker} is not counted: {error.problem}")
    if unknown:
        raise typer.Exit(_UNKNOWN)


def add_up(told: Mapping[int, Iterable[HeldThere]], wanted: QuotaEntity) -> list[Held]:
    """Return what brokers hold, client by client, those first that wait longest.

    Args:
        told: the clients that each broker holds.
        wanted: those that are looked for, as for :func:`show_held`.
    """
    found: dict[tuple[object, ...], Held] = {}
    for broker, clients in told.items():
        for each in clients:
            if all(_is_about(each, kind, name) for kind, name in wanted):
                client = (each.key, each.entity, each.user, each.client_id, each.address)
                found.setdefault(client, Held(each)).at[broker] = each
    return sorted(found.values(), key=lambda held: -held.left_ms)


def _is_about(held: HeldThere, kind: str, name: str | None) -> bool:
    if name is None:
        return (kind, name) in held.entity
    if kind == IP:
        return held.address == as_peers_have_it(name)
    return {USER: held.user, CLIENT_ID: held.client_id}[kind] == name


def _client(held: HeldThere) -> str:
    names = {USER: held.user, CLIENT_ID: held.client_id}
    return of_parts((kind, name) for kind, name in names.items() if name is not None) or of_parts([(IP, held.address)])


def _print(held: list[Held]) -> None:
    if not held:
        print_line("No client is held.")
        return
    print_columns(
        [("CLIENT", 30), ("FROM", 15), ("CONNECTIONS", 11), ("WAITS", 9), ("BROKERS", 10), ("QUOTA", 24), ("OF", 0)],
        [
            [
                _client(each.first),
                each.first.address,
                str(each.connections) if each.connections else "refused",
                f"{each.left_ms / 1000:,.1f} s",
                ",".join(map(str, each.at)),
                each.first.key,
                in_words(each.first.entity),
            ]
            for each in held
        ],
    )


def _document(held: list[Held], unknown: Mapping[int, OperatorError]) -> Any:
    return {
        "held": [
            {
                "user": each.first.user,
                "client_id": each.first.client_id,
                "address": each.first.address,
                "quota": each.first.key,
                "entity": {part.type: part.name for part in each.first.entity},
                "connections": each.connections,
                "waits_ms": each.left_ms,
                "brokers": [
                    {"broker": broker, "connections": there.connections, "waits_ms": there.left_ms}
                    for broker, there in each.at.items()
                ],
            }
            for each in held
        ],
        "unknown": [{"broker": broker, "reason": error.problem} for broker, error in unknown.items()],
    }
