"""The users that ``esp format --add-scram`` gives a new cluster, in the words of Kafka's tool (KIP-900).

A value that stands in quotation marks may hold commas, which Kafka's cannot. Two credentials of one user and mechanism are refused; Kafka
takes the last. No message repeats a password, a salt or a key.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TextIO

from esp.controller.snapshot_records import scram_credential_record
from esp.model.errors import OperatorError
from esp.model.scram import MAX_ITERATIONS, MIN_ITERATIONS, USUAL_ITERATIONS, ScramCredential, ScramMechanism
from esp.model.scram_keys import credential_of, make_credential
from esp.ports.random import Random, random_bytes
from esp.schemas.metadata_records import UserScramCredentialRecord

FROM_STANDARD_INPUT: Final = "-"
SALT_BYTES: Final = 32

_MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
_COMPONENT: Final = re.compile(r'(?P<name>[^=,]*)=(?:"(?P<quoted>[^"]*)"(?=,|$)|(?P<plain>[^,]*))(?:,|$)')
_NAMES: Final = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})
_REMEDY: Final = "The form is SCRAM-SHA-256=[name=alice,password=secret], with iterations=8192 if wanted."


def read_added_users(
    arguments: Sequence[str], standard_input: TextIO, random: Random
) -> tuple[UserScramCredentialRecord, ...]:
    """Read the values of ``--add-scram``.

    Args:
        arguments: the values; each ``-`` stands for the lines of standard input.
        standard_input: that.
        random: makes salts.

    Raises:
        OperatorError: a value is not of the form, or names a user's credential again.
    """
    records: dict[tuple[str, int], UserScramCredentialRecord] = {}
    for text in _texts(arguments, standard_input):
        record = parse_added_user(text, random)
        key = record.name, record.mechanism
        if key in records:
            mechanism = ScramMechanism(record.mechanism).sasl_name
            raise OperatorError(
                f"--add-scram: user {record.name} has two {mechanism} credentials.", "Give one of each mechanism."
            )
        records[key] = record
    return tuple(records.values())


def parse_added_user(text: str, random: Random) -> UserScramCredentialRecord:
    """Read one value of ``--add-scram``.

    Args:
        text: the value.
        random: makes a salt if the value has none.

    Raises:
        OperatorError: it is not of the form.
    """
    name, equals, rest = text.strip().partition("=")
    if not equals:
        raise _refusal("there is no equals sign")
    mechanism = _MECHANISMS.get(name)
    if mechanism is None:
        raise OperatorError(
            f"--add-scram: the mechanism {name} is not supported.", f"Name one of {', '.join(_MECHANISMS)}."
        )
    if not (rest.startswith("[") and rest.endswith("]")):
        raise _refusal("the part behind the mechanism does not stand in [ and ]")
    components = _components(rest[1:-1])
    user = components.get("name")
    if not user:
        raise _refusal("there is no name")
    return scram_credential_record(user, mechanism, _credential(mechanism, components, random))


def _texts(arguments: Sequence[str], standard_input: TextIO) -> Iterator[str]:
    for argument in arguments:
        if argument == FROM_STANDARD_INPUT:
            yield from (line for line in standard_input.read().splitlines() if line.strip())
        else:
            yield argument


def _components(text: str) -> Mapping[str, str]:
    components: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _COMPONENT.match(text, position)
        if match is None:
            raise _refusal(f"component {len(components) + 1} has no equals sign")
        name = match["name"].strip()
        if name not in _NAMES:
            # The name itself is not shown: it may be part of a password that lacks its quotation marks.
            known = ", ".join(sorted(_NAMES))
            raise _refusal(f"the name of component {len(components) + 1} is none of {known}")
        components[name] = match["plain"] if match["quoted"] is None else match["quoted"]
        position = match.end()
    return components


def _credential(mechanism: ScramMechanism, components: Mapping[str, str], random: Random) -> ScramCredential:
    iterations = _iterations(components.get("iterations"))
    salt = _decoded(components, "salt")
    password = components.get("password")
    if password is not None:
        if not password:
            raise _refusal("the password is empty")
        return make_credential(mechanism, password, salt or random_bytes(random, SALT_BYTES), iterations)
    salted = _decoded(components, "saltedpassword")
    if not salted:
        raise _refusal("there is no password, and no saltedpassword")
    if not salt:
        raise _refusal("there is a saltedpassword, and no salt")
    return credential_of(mechanism, salted, salt, iterations)


def _iterations(text: str | None) -> int:
    if text is None:
        return USUAL_ITERATIONS
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise _refusal(f"iterations are not a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return int(text)


def _decoded(components: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(components.get(name, ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refusal(f"{name} is no base64") from error


def _refusal(problem: str) -> OperatorError:
    return OperatorError(f"--add-scram: {problem}.", _REMEDY)
