"""``esp certs``: makes an authority, issues certificates, renews them, and shows when they end."""

import importlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from esp.cli.options import Json
from esp.cli.output import print_columns, print_json, print_line

if TYPE_CHECKING:
    from esp.cli.certs.directory import CertificateDirectory, Listed

DEFAULT_DIR: Final = "esp-certs"
AUTHORITY_DAYS: Final = 3_650
DAYS: Final = 365
SOON_DAYS: Final = 30
"""A certificate that ends within so many days is renewed."""

Dir = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The authority's directory.")]
Days = Annotated[int, typer.Option("--days", min=1, max=36_500, help="Days for which the certificates count.")]

certs = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Make certificates for the nodes and clients of a cluster.

    [bold]An authority, a node, a client[/bold]

    esp certs create

    esp certs issue broker1 --host broker1.example --host 10.0.0.1

    esp certs issue carol

    [bold]Each month[/bold]

    esp certs renew
    """,
)


@certs.command("create")
def create(
    directory: Dir = Path(DEFAULT_DIR),
    name: Annotated[str, typer.Option("--name", help="The authority's common name.")] = "ESP",
    days: Days = AUTHORITY_DAYS,
) -> None:
    """Make an authority: DIR/ca.pem, which nodes and clients trust, and DIR/ca-key.pem, with which certificates are issued.

    Keep ca-key.pem away from the nodes: with it anyone can pose as any node or client.

    [bold]Example[/bold]

    esp certs create --dir /etc/esp/certs --name 'Orders cluster'
    """
    made = _open(directory).create_blocking(name, days, datetime.now(UTC))
    print_line(f"{directory / 'ca.pem'}: {made.subject.rfc4514_string()}, until {_day(made.not_valid_after_utc)}")


@certs.command("issue")
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the file; and the common name.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="A node's host name or address, as others connect to it; repeat."),
    ] = None,
    common_name: Annotated[
        str | None, typer.Option("--common-name", metavar="CN", help="The common name, if it is not NAME.")
    ] = None,
    directory: Dir = Path(DEFAULT_DIR),
    days: Days = DAYS,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the certificate that is there.")] = False,
) -> None:
    """Issue a certificate: DIR/NAME.pem, the key store of a node (with --host) or of a client.

    [bold]Examples[/bold]

    esp certs issue broker1 --host broker1.example --host 10.0.0.1

    esp certs issue carol
    """
    wanted = _module().Wanted(common_name or name, tuple(hosts or ()), days)
    made = _open(directory).issue_blocking(name, wanted, datetime.now(UTC), replaces=replace)
    print_line(
        f"{directory / name}.pem: principal User:{made.subject.rfc4514_string()}, until {_day(made.not_valid_after_utc)}"
    )


@certs.command("renew")
def renew(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Certificates; ca is the authority's own.")
    ] = None,
    directory: Dir = Path(DEFAULT_DIR),
    days: Annotated[
        int | None, typer.Option("--days", min=1, max=36_500, help="Days for which the new certificates count.")
    ] = None,
    within_days: Annotated[
        int, typer.Option("--within-days", min=0, help="Without names: renew what ends within so many days.")
    ] = SOON_DAYS,
) -> None:
    """Renew certificates for the same names and hosts, with new keys. A running node takes the new file within seconds.

    The authority's own certificate is renewed with the same key: what it has issued stays good. Give its new ca.pem to all nodes and
    clients before the old one ends.

    [bold]Examples[/bold]

    esp certs renew

    esp certs renew broker1 --days 90
    """
    opened, now = _open(directory), datetime.now(UTC)
    chosen = names or [each.name for each in opened.list_blocking() if _ends_within(each, within_days, now)]
    for name in chosen:
        made = opened.renew_blocking(name, days or (AUTHORITY_DAYS if name == "ca" else DAYS), now)
        print_line(f"{directory / name}.pem: until {_day(made.not_valid_after_utc)}")
    if not chosen:
        print_line(f"no certificate ends within {within_days} days")


@certs.command("list")
def list_certificates(directory: Dir = Path(DEFAULT_DIR), json: Json = False) -> None:
    """List the certificates of a directory, and when they end.

    [bold]Example[/bold]

    esp certs list --json | jq -r '.[] | select(.daysLeft < 30).name'
    """
    now = datetime.now(UTC)
    rows = [_row(each, now) for each in _open(directory).list_blocking()]
    if json:
        print_json(rows)
        return
    print_columns(
        [("NAME", 12), ("SUBJECT", 20), ("HOSTS", 20), ("UNTIL", 10), ("DAYS LEFT", 0)],
        [
            (row["name"], row["subject"], ",".join(row["hosts"]) or "-", row["until"][:10], str(row["daysLeft"]))
            for row in rows
        ],
    )


def _row(listed: "Listed", now: datetime) -> dict[str, Any]:
    certificate = listed.certificate
    hosts: Sequence[str] = _module().hosts_of(certificate)
    return {
        "name": listed.name,
        "subject": certificate.subject.rfc4514_string(),
        "hosts": list(hosts),
        "until": certificate.not_valid_after_utc.isoformat(),
        "daysLeft": (certificate.not_valid_after_utc - now) // timedelta(days=1),
    }


def _ends_within(listed: "Listed", days: int, now: datetime) -> bool:
    return listed.certificate.not_valid_after_utc - now <= timedelta(days=days)


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _open(path: Path) -> "CertificateDirectory":
    opened: CertificateDirectory = importlib.import_module("esp.cli.certs.directory").CertificateDirectory(path)
    return opened


def _module() -> Any:
    """The module of certificates. It is loaded when it is needed, as that takes 40 ms."""
    return importlib.import_module("esp.cli.certs.authority")
