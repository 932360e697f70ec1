"""What stands in for the credentials of unknown users looks like those in force, however these were made."""

import re
import secrets
from collections import Counter

import pytest

from esp.authentication.stand_ins import (
    FORMS_MAX,
    CredentialForm,
    first_stand_in,
    stand_in,
    survey,
)
from esp.model.scram import ScramCredential, ScramMechanism

SHA_256, SHA_512 = ScramMechanism
NAMES = [f"unknown-{number}" for number in range(1_000)]
SECRET = b"of the process"
KAFKA_S_SALT = b"1kl39zmf0pq2rs8t7uv6w5xyab"


def credential(salt: bytes = b"\xff" * 32, iterations: int = 16_384, key: bytes = b"k" * 32) -> ScramCredential:
    return ScramCredential(salt=salt, stored_key=key, server_key=key, iterations=iterations)


def mixed(ours: int, kafkas: int) -> dict[tuple[str, ScramMechanism], ScramCredential]:
    """Users of our tools, and of Kafka's."""
    made = {(f"a{number}", SHA_256): credential() for number in range(ours)}
    return made | {(f"b{number}", SHA_256): credential(KAFKA_S_SALT, 4_096) for number in range(kafkas)}


def made_for(names: list[str], users: dict[tuple[str, ScramMechanism], ScramCredential]) -> list[ScramCredential]:
    surveyed = survey(users)
    return [stand_in(name, SHA_256, surveyed, SECRET) for name in names]


def test_every_form_in_force_is_seen_with_unknown_names_as_often_as_it_occurs() -> None:
    forms = Counter((made.iterations, len(made.salt) == 32) for made in made_for(NAMES, mixed(1, 3)))
    assert forms.keys() == {(16_384, True), (4_096, False)}, "neither iterations nor salt tell that a name exists"
    assert 180 < forms[16_384, True] < 320


def test_a_user_more_changes_the_form_of_few_unknown_names() -> None:
    before, after = made_for(NAMES, mixed(5, 10)), made_for(NAMES, mixed(5, 11))
    changed = sum(one.iterations != other.iterations for one, other in zip(before, after, strict=True))
    assert changed < 60


@pytest.mark.parametrize("salt", [b"x" * 16, bytes(range(200)), b"0z" * 20, b""])
def test_salt_of_an_unknown_name_has_length_and_kind_of_those_in_force(salt: bytes) -> None:
    is_text = re.fullmatch(rb"[0-9a-z]+", salt) is not None
    for made in made_for(NAMES[:20], {("alice", SHA_256): credential(salt, 8_192)}):
        assert (len(made.salt), made.iterations) == (len(salt), 8_192)
        assert (re.fullmatch(rb"[0-9a-z]+", made.salt) is not None) is is_text


def test_salt_like_those_of_kafkas_tools_is_such_a_number() -> None:
    """They write 130 random bits in base 36: 26 digits, of which the first is a 1, or fewer without a zero in front."""
    salts = [made.salt for made in made_for(NAMES, mixed(0, 1))]
    longest = [salt for salt in salts if len(salt) == 26]
    assert {salt[:1] for salt in longest} == {b"1"}
    assert 300 < len(longest) < 520
    assert {len(salt) for salt in salts} <= set(range(20, 27))
    assert not any(salt.startswith(b"0") for salt in salts)
    assert max(int(salt, 36) for salt in salts) < 1 << 130


def test_form_of_kafkas_salts_is_one_whatever_their_length() -> None:
    users = {("a", SHA_256): credential(KAFKA_S_SALT), ("b", SHA_256): credential(KAFKA_S_SALT[1:])}
    assert survey(users).forms == {CredentialForm(SHA_256, 16_384, 26, is_text=True): 2}


def test_survey_is_the_same_whatever_the_order_of_the_records() -> None:
    users = {(f"user-{number}", SHA_256): credential(bytes(number), key=bytes([number])) for number in range(90)}
    backwards = {key: users[key] for key in reversed(users)}
    assert survey(users) == survey(backwards)
    assert list(survey(users).forms.items()) == list(survey(backwards).forms.items())
    assert len(survey(users).forms) == FORMS_MAX, "a log-in takes no longer for that many forms"


def test_mechanism_of_an_unknown_user_of_plain_is_drawn_from_the_first_ones_of_users() -> None:
    """By PLAIN a password is hashed with the first credential of its user, and the time would tell which that is."""
    users = {
        ("a", SHA_256): credential(iterations=4_096),
        ("a", SHA_512): credential(iterations=5_000),
        ("b", SHA_512): credential(iterations=16_384),
    }
    surveyed = survey(users)
    found = Counter()
    for name in NAMES:
        mechanism, made = first_stand_in(name, surveyed, SECRET)
        found[mechanism, made.iterations] += 1
    assert found.keys() == {(SHA_256, 4_096), (SHA_512, 16_384)}
    assert 400 < found[SHA_256, 4_096] < 600


def test_names_are_drawn_by_the_secret() -> None:
    one, other = (survey({**mixed(2, 2), ("a", SHA_256): credential(key=secrets.token_bytes(32))}) for _ in range(2))
    assert [stand_in(name, SHA_256, one, SECRET).iterations for name in NAMES] != [
        stand_in(name, SHA_256, other, SECRET).iterations for name in NAMES
    ]


def test_without_credentials_the_form_is_that_of_kafkas_tools() -> None:
    made = stand_in("alice", SHA_512, survey({}), SECRET)
    assert (made.iterations, len(made.stored_key)) == (4_096, 64)
    assert re.fullmatch(rb"[1-9a-z][0-9a-z]{19,25}", made.salt)
    assert first_stand_in("alice", survey({}), SECRET)[0] is SHA_256
