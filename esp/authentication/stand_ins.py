"""The credentials that stand in for those of users that do not exist.

A server of SCRAM tells salt and iterations of a user's credential to any client that asks with the user's name. So a name without a
credential is given one, always the same. Its salt is made of the name and a secret; its form, iterations and kind of salt, is drawn from
the forms of the credentials in force by the same secret, each as likely as it is common among them. So no form tells that a name exists
where users were added by several tools, and with PLAIN against these credentials no time either. The secret is made of the keys of the
user whose name comes first, which all nodes know and no client does: a client learns nothing from asking several nodes, or from asking
before and after a restart.

The draw gives each form a number by the name, and the largest one wins (weighted rendezvous hashing): when users are added and removed,
few of the names that do not exist get another form.
"""

import hashlib
import hmac
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from esp.model.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism

FORMS_MAX: Final = 64
"""The most forms that are drawn from, the most common ones: a draw takes some microseconds for each."""

_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_KAFKA_SALT_BITS: Final = 130
_KAFKA_SALT_BYTES: Final = 26
"""Kafka's tools make salts that are numbers of 130 bits in base 36, as text: few have less than 25 digits, none has a zero in front."""

_SHORTEST_KAFKA_SALT_BYTES: Final = 20
_DRAW_BYTES: Final = 7
_DRAWS: Final = 1 << 8 * _DRAW_BYTES


class CredentialForm(NamedTuple):
    """What a client sees of a credential without its user's password, but for the bytes of the salt."""

    mechanism: ScramMechanism
    iterations: int
    salt_bytes: int
    is_text: bool
    """The salt consists of digits in base 36."""


@dataclass(frozen=True, slots=True)
class CredentialSurvey:
    """The facts about the credentials in force of which stand-ins are made; the same on all nodes that have the same credentials.

    Attributes:
        secrets: what no client knows, by mechanism; none for one without credentials.
        forms: how many credentials have each form.
        first_forms: the same of the first credential of each user.
    """

    secrets: Mapping[ScramMechanism, bytes] = field(default_factory=dict, repr=False)
    forms: Mapping[CredentialForm, int] = field(default_factory=dict)
    first_forms: Mapping[CredentialForm, int] = field(default_factory=dict)


def survey(credentials: Mapping[tuple[str, ScramMechanism], ScramCredential]) -> CredentialSurvey:
    """Look through all credentials, which are given by user and mechanism."""
    secrets: dict[ScramMechanism, bytes] = {}
    forms: Counter[CredentialForm] = Counter()
    first_forms: Counter[CredentialForm] = Counter()
    first_users: dict[ScramMechanism, str] = {}
    for (user, mechanism), credential in credentials.items():
        form = _form(mechanism, credential)
        forms[form] += 1
        if all((user, other) not in credentials for other in ScramMechanism if other < mechanism):
            first_forms[form] += 1
        if mechanism not in first_users or user < first_users[mechanism]:
            first_users[mechanism] = user
            secrets[mechanism] = hashlib.sha256(credential.stored_key + credential.server_key).digest()
    return CredentialSurvey(secrets, _most_common(forms), _most_common(first_forms))


def stand_in(user: str, mechanism: ScramMechanism, surveyed: CredentialSurvey, secret: bytes) -> ScramCredential:
    """Return the credential of a user that has none for this mechanism.

    Args:
        user: its name.
        mechanism: the one that a client has chosen.
        surveyed: the credentials in force.
        secret: the one of this process, which counts while there is no credential of the mechanism at all.
    """
    drawn_from = {form: count for form, count in surveyed.forms.items() if form.mechanism is mechanism}
    key = surveyed.secrets.get(mechanism, secret)
    return _made(user, _draw(user, drawn_from, key, mechanism), key)


def first_stand_in(user: str, surveyed: CredentialSurvey, secret: bytes) -> tuple[ScramMechanism, ScramCredential]:
    """Return the first credential of a user that has none, and its mechanism; see :func:`stand_in`."""
    key = b"".join(surveyed.secrets[each] for each in sorted(surveyed.secrets)) or secret
    form = _draw(user, surveyed.first_forms, key, ScramMechanism.SCRAM_SHA_256)
    return form.mechanism, _made(user, form, surveyed.secrets.get(form.mechanism, secret))


def _form(mechanism: ScramMechanism, credential: ScramCredential) -> CredentialForm:
    salt = credential.salt
    is_text = all(byte in _DIGITS for byte in salt)
    is_kafka_s = is_text and _SHORTEST_KAFKA_SALT_BYTES <= len(salt) <= _KAFKA_SALT_BYTES
    return CredentialForm(mechanism, credential.iterations, _KAFKA_SALT_BYTES if is_kafka_s else len(salt), is_text)


def _most_common(forms: Mapping[CredentialForm, int]) -> Mapping[CredentialForm, int]:
    by_number = sorted(forms.items(), key=lambda item: (-item[1], item[0]))
    return dict(by_number[:FORMS_MAX])


def _draw(user: str, forms: Mapping[CredentialForm, int], key: bytes, mechanism: ScramMechanism) -> CredentialForm:
    """Return the form for a name; without any, that of Kafka's tools."""
    of_user = hmac.digest(key, f"form {user}".encode(), "sha512")

    def number(form: CredentialForm) -> float:
        made = hashlib.blake2b(repr(tuple(map(int, form))).encode(), key=of_user, digest_size=_DRAW_BYTES).digest()
        return math.log((int.from_bytes(made) + 1) / (_DRAWS + 1)) / forms[form]

    usual = CredentialForm(mechanism, MIN_ITERATIONS, _KAFKA_SALT_BYTES, is_text=True)
    return max(forms, key=number, default=usual)


def _made(user: str, form: CredentialForm, key: bytes) -> ScramCredential:
    made = hmac.digest(key, f"{form.mechanism.name} {user}".encode(), "sha512")
    keys = hashlib.new(form.mechanism.hash_name, b"key" + made).digest()
    return ScramCredential(salt=_salt(form, made), stored_key=keys, server_key=keys, iterations=form.iterations)


def _salt(form: CredentialForm, made: bytes) -> bytes:
    if form.is_text and form.salt_bytes == _KAFKA_SALT_BYTES:
        return _in_base_36(int.from_bytes(made) % (1 << _KAFKA_SALT_BITS))
    salt = (made * (form.salt_bytes // len(made) + 1))[: form.salt_bytes]
    return bytes(_DIGITS[byte % len(_DIGITS)] for byte in salt) if form.is_text else salt


def _in_base_36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits)) or b"0"
