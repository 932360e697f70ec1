"""``esp tokens``: delegation tokens, by which programs log in as a user for a limited time (KIP-48)."""

import base64
from datetime import timedelta
from typing import Annotated, Any, Final

import typer

from esp.cli.kafka.tokens import NO_LIMIT_MS, KnownToken, create_token, expire_token, renew_token, tokens
from esp.cli.options import BootstrapServer, Json, asking
from esp.cli.output import print_columns, print_json, print_line, print_note
from esp.model.errors import OperatorError
from esp.protocol.entity_fields import EPOCH

_HOUR_MS: Final = 3_600_000
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PREFIX: Final = "User:"

TokenId = Annotated[str, typer.Argument(metavar="ID", help="The token's id.", show_default=False)]
Hours = Annotated[
    float | None,
    typer.Option("--hours", min=0, help="For so many hours from now on; without it as long as the cluster allows."),
]


def list_tokens(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="USER", help="Only tokens that concern this user; may be given several times."),
    ] = None,
    hmacs: Annotated[
        bool, typer.Option("--hmacs", help="Print the HMACs too: with one of them any program is the token's owner.")
    ] = False,
    json: Json = False,
) -> None:
    """List the tokens that you may see, the first to end at the top.

    [bold]Examples[/bold]

    esp tokens list

    esp tokens list --owner alice --json
    """
    found = tokens(bootstrap_server, [_name(each) for each in owner or ()])
    if json:
        print_json([_told(known, with_hmac=hmacs) for known in found])
        return
    columns = [("ID", 22), ("OWNER", 12), ("REQUESTER", 12), ("RENEWERS", 12), ("ENDS", 20), ("RENEWABLE UNTIL", 20)]
    rows = []
    for token, hmac in found:
        names = (token.owner, token.requester, ",".join(token.renewers) or "-")
        rows.append((token.token_id, *names, _moment(token.expiry_ms), _moment(token.max_ms), _text(hmac)))
    if hmacs:
        print_columns([*columns, ("HMAC", 0)], rows)
    else:
        print_columns(columns, [row[:-1] for row in rows])


def create(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="A token of this user; without it, of your own.")
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="USER", help="A user that may renew and expire the token; may be given several times."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours",
            min=0,
            help="Hours for which the token can be renewed; without it, for as long as the brokers allow.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Create a token. Standard output gets one line: the setting with which a Java client or Spark logs in.

    [bold]Examples[/bold]

    (umask 077; esp tokens create --renewer spark > token.properties)

    esp tokens create --owner alice --hours 12 --json
    """
    known = create_token(
        bootstrap_server,
        None if owner is None else _name(owner),
        [_name(each) for each in renewer or ()],
        _milliseconds(hours),
    )
    token = known.token
    if json:
        print_json(_told(known, with_hmac=True))
    else:
        words = f'{_MODULE} required username="{token.token_id}" password="{_text(known.hmac)}" tokenauth="true";'
        print_line(f"sasl.jaas.config={words}")
    print_note(
        f"Token {token.token_id} of {token.owner} ends at {_moment(token.expiry_ms)}, and can be renewed until {_moment(token.max_ms)}."
    )


def renew(token_id: TokenId, bootstrap_server: BootstrapServer = "127.0.0.1:9092", hours: Hours = None) -> None:
    """Renew a token: move its end.

    [bold]Examples[/bold]

    esp tokens renew TYSlJ2MDS1yv4ZPVRkLvXw
    """
    known = _find(bootstrap_server, token_id)
    expiry_ms = renew_token(bootstrap_server, known.hmac, _milliseconds(hours))
    print_note(f"Token {token_id} ends at {_moment(expiry_ms)}.")


def expire(
    token_id: TokenId,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    hours: Annotated[
        float | None, typer.Option("--hours", min=0, help="It ends in so many hours; without it, at once.")
    ] = None,
) -> None:
    """End a token now. Sessions that logged in with it go on until the token's former end.

    [bold]Examples[/bold]

    esp tokens expire TYSlJ2MDS1yv4ZPVRkLvXw
    """
    known = _find(bootstrap_server, token_id)
    expiry_ms = expire_token(bootstrap_server, known.hmac, _milliseconds(hours))
    print_note(f"Token {token_id} is gone." if hours is None else f"Token {token_id} ends at {_moment(expiry_ms)}.")


def _find(servers: str, token_id: str) -> KnownToken:
    """The token of an id, whose HMAC the cluster tells: so none is an argument, which other users of the machine could see.

    Raises:
        OperatorError: there is none that this client may see.
    """
    for known in tokens(servers):
        if known.token.token_id == token_id:
            return known
    raise OperatorError(f"there is no token {token_id} that you may see", "See which there are: esp tokens list")


def _told(known: KnownToken, *, with_hmac: bool) -> dict[str, Any]:
    token = known.token
    told: dict[str, Any] = {
        "id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issuedMs": token.issue_ms,
        "expiresMs": token.expiry_ms,
        "renewableUntilMs": token.max_ms,
    }
    return {**told, "hmac": _text(known.hmac)} if with_hmac else told


def _name(user: str) -> str:
    return user.removeprefix(_PREFIX)


def _text(hmac: bytes) -> str:
    return base64.b64encode(hmac).decode()


def _milliseconds(hours: float | None) -> int:
    return NO_LIMIT_MS if hours is None else int(hours * _HOUR_MS)


def _moment(time_ms: int) -> str:
    return f"{EPOCH + timedelta(seconds=time_ms // 1000):%Y-%m-%dT%H:%M:%SZ}"


delegation_tokens = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Create, list, renew and expire delegation tokens, by which programs log in as a user for a limited time.",
)
delegation_tokens.command("list")(asking(list_tokens))
delegation_tokens.command("create")(asking(create))
delegation_tokens.command("renew")(asking(renew))
delegation_tokens.command("expire")(asking(expire))
