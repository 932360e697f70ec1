"""Passwords of users: generated, or read from standard input. None is ever an argument, which other users of the machine could see."""

import secrets
from typing import Final, NamedTuple, TextIO

from esp.model.errors import OperatorError

GENERATED_BYTES: Final = 24
SALT_BYTES: Final = 32


class Password(NamedTuple):
    """A new password."""

    text: str
    is_generated: bool


def generate_password() -> Password:
    """Return a random password of 32 letters, digits, hyphens and underscores."""
    return Password(secrets.token_urlsafe(GENERATED_BYTES), is_generated=True)


def read_password(standard_input: TextIO) -> Password:
    """Read a password, which is one line.

    Raises:
        OperatorError: there is none, or there is more.
    """
    lines = standard_input.read().splitlines()
    if len(lines) != 1 or not lines[0]:
        raise OperatorError(
            f"standard input must hold one line, the password; it holds {len(lines)}",
            "For example: esp users add alice --password-stdin < file",
        )
    return Password(lines[0], is_generated=False)
