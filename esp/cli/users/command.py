"""``esp users``: users that log in by SCRAM are listed, added, given other passwords, and deleted."""

import secrets
import sys
from typing import Annotated, Final

import typer

from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.users import SaltedPassword, UsersAdmin
from esp.cli.options import BootstrapServer, Json, asking
from esp.cli.output import print_columns, print_json, print_line, print_note
from esp.cli.users.passwords import SALT_BYTES, Password, generate_password, read_password
from esp.model.errors import OperatorError
from esp.model.scram import MAX_ITERATIONS, MIN_ITERATIONS, USUAL_ITERATIONS, ScramMechanism
from esp.model.scram_keys import salted_password

_MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user, as it logs in.", show_default=False)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        metavar="|".join(_MECHANISMS),
        help="For this mechanism; may be given several times.",
        show_default=False,
    ),
]
Iterations = Annotated[
    int,
    typer.Option("--iterations", min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="Iterations of the hash."),
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of generating one.")
]


def list_users(bootstrap_server: BootstrapServer = "127.0.0.1:9092", json: Json = False) -> None:
    """List the users with their mechanisms and iterations.

    [bold]Examples[/bold]

    esp users list

    esp users list --json
    """
    with UsersAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin:
        users = admin.users()
    if json:
        print_json(
            [
                {"user": user, "credentials": {each.sasl_name: iterations for each, iterations in told.items()}}
                for user, told in users.items()
            ]
        )
        return
    rows = [
        (user, mechanism.sasl_name, str(iterations))
        for user, told in users.items()
        for mechanism, iterations in told.items()
    ]
    print_columns([("USER", 20), ("MECHANISM", 0), ("ITERATIONS", 0)], rows)


def add_user(
    name: Name,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    mechanism: Mechanisms = None,
    iterations: Iterations = USUAL_ITERATIONS,
    password_stdin: PasswordStdin = False,
) -> None:
    """Add a user; a generated password is the one line of standard output.

    Without --mechanism the user gets a credential for SCRAM-SHA-512.

    [bold]Examples[/bold]

    (umask 077; esp users add alice > alice.password)

    esp users add alice --mechanism SCRAM-SHA-256 --password-stdin < alice.password
    """
    chosen = _read_mechanisms(mechanism) or [ScramMechanism.SCRAM_SHA_512]
    with UsersAdmin(bootstrap_server) as admin:
        present = admin.credentials(name)
        for each in chosen:
            if each in present:
                raise OperatorError(
                    f"user {name} has a {each.sasl_name} credential already",
                    f"To give it another password: esp users rotate {name}",
                )
        password = read_password(sys.stdin) if password_stdin else generate_password()
        _put(admin, name, chosen, password, iterations)
    print_note(f"Added user {name}: {_in_words(chosen)}.")


def rotate_user(
    name: Name,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    mechanism: Mechanisms = None,
    iterations: Iterations = USUAL_ITERATIONS,
    password_stdin: PasswordStdin = False,
) -> None:
    """Give a user another password; a generated one is the one line of standard output.

    Without --mechanism all credentials of the user are replaced, one after the other. Connections that there are go on until they have to
    authenticate again.

    [bold]Examples[/bold]

    (umask 077; esp users rotate alice > alice.password)
    """
    asked = _read_mechanisms(mechanism)
    with UsersAdmin(bootstrap_server) as admin:
        chosen = _present(admin, name, asked)
        password = read_password(sys.stdin) if password_stdin else generate_password()
        _put(admin, name, chosen, password, iterations)
    print_note(f"User {name} has another password: {_in_words(chosen)}.")


def delete_user(
    name: Name,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    mechanism: Mechanisms = None,
) -> None:
    """Delete the credentials of a user, so that it cannot log in any more.

    Without --mechanism all of them are deleted. Rules of access that name the user stay.

    [bold]Examples[/bold]

    esp users delete alice
    """
    asked = _read_mechanisms(mechanism)
    with UsersAdmin(bootstrap_server) as admin:
        chosen = _present(admin, name, asked)
        for each in chosen:
            admin.delete(name, each)
    print_note(f"Deleted user {name}: {_in_words(chosen)}.")


def _read_mechanisms(names: list[str] | None) -> list[ScramMechanism]:
    for name in names or ():
        if name.upper() not in _MECHANISMS:
            raise OperatorError(f"there is no mechanism {name}", f"Give one of {', '.join(_MECHANISMS)}.")
    return list(dict.fromkeys(_MECHANISMS[name.upper()] for name in names or ()))


def _present(admin: UsersAdmin, name: str, asked: list[ScramMechanism]) -> list[ScramMechanism]:
    """The credentials of a user that a command is about: those that were asked for, or all.

    Raises:
        OperatorError: the user does not have them.
    """
    present = admin.credentials(name)
    if not present:
        raise OperatorError(f"there is no user {name}", "See which users there are: esp users list")
    for each in asked:
        if each not in present:
            raise OperatorError(
                f"user {name} has no {each.sasl_name} credential", f"It has {_in_words(list(present))}."
            )
    return asked or list(present)


def _put(admin: UsersAdmin, name: str, mechanisms: list[ScramMechanism], password: Password, iterations: int) -> None:
    for number, mechanism in enumerate(mechanisms):
        salt = secrets.token_bytes(SALT_BYTES)
        key = salted_password(mechanism, password.text, salt, iterations)
        admin.put(name, mechanism, SaltedPassword(iterations, salt, key))
        if password.is_generated and number == 0:  # it counts from now on, also if the next credential is refused
            print_line(password.text)


def _in_words(mechanisms: list[ScramMechanism]) -> str:
    return ", ".join(mechanism.sasl_name for mechanism in mechanisms)


users = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="List, add and delete users that log in by SCRAM, and change their passwords.",
)
users.command("list")(asking(list_users))
users.command("add")(asking(add_user))
users.command("rotate")(asking(rotate_user))
users.command("delete")(asking(delete_user))
