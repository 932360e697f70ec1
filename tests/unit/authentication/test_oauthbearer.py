"""The client's first message against a parser by hand, and transcripts of the exchange against a table."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import Challenge, KeyWait, Success
from esp.authentication.oauthbearer import (
    EXTENSIONS_MAX,
    GIVEN_UP,
    INVALID_TOKEN,
    MESSAGE_BYTES_MAX,
    KnownToken,
    OauthBearerExchange,
    Unresolved,
    build_first_message,
    parse_first_message,
)

NAMES = st.text("abcXYZ", min_size=1, max_size=5)
VALUES = st.text([chr(code) for code in range(0x21, 0x7F)] + [" ", "\t", "\r", "\n"], min_size=1, max_size=20)
TOKENS = st.from_regex(r"[A-Za-z0-9._~+/-]{1,30}={0,2}", fullmatch=True)
USERS = st.text([chr(code) for code in range(2, 0x80)], min_size=1, max_size=10)


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


@given(
    token=TOKENS,
    user=st.none() | USERS,
    extensions=st.dictionaries(NAMES, VALUES, max_size=4),
    scheme=st.sampled_from(["Bearer", "bearer", "BEARER"]),
    first=st.booleans(),
)
def test_message_is_read_as_it_was_made(token, user, extensions, scheme, first):
    name = "" if user is None else f"a={escaped(user)}"
    others = [f"{key}={value}\x01" for key, value in extensions.items()]
    pairs = [f"auth={scheme} {token}\x01", *others] if first else [*others, f"auth={scheme} {token}\x01"]
    read = parse_first_message(f"n,{name},\x01{''.join(pairs)}\x01".encode())
    assert read == (user or "", token, extensions)


@given(token=TOKENS, extensions=st.dictionaries(NAMES, VALUES, max_size=4))
def test_message_of_this_process_is_read_by_a_server(token, extensions):
    assert parse_first_message(build_first_message(token, extensions)) == ("", token, extensions)


def by_hand(message: bytes) -> bool:
    """Whether the bytes are a first message, read from left to right as RFC 7628 has it."""
    header, separator, rest = message.partition(b"\x01")
    if not separator or not message.isascii() or len(message) > MESSAGE_BYTES_MAX:
        return False
    parts = header.split(b",")
    if len(parts) != 3 or parts[0] != b"n" or parts[2] or not rest.endswith(b"\x01"):
        return False
    if parts[1]:
        name = parts[1][2:]
        plain = name.replace(b"=2C", b"x").replace(b"=3D", b"x")
        if parts[1][:2] != b"a=" or not name or b"=" in plain or b"\0" in plain:
            return False
    seen: dict[bytes, bytes] = {}
    *pairs, last = rest[:-1].split(b"\x01")
    if last:
        return False
    for pair in pairs:
        key, equals, value = pair.partition(b"=")
        if not equals or not key.isalpha() or not value or key in seen:
            return False
        if any(byte not in b" \t\r\n" and not 0x21 <= byte <= 0x7E for byte in value):
            return False
        seen[key] = value
    scheme, blank, token = seen.get(b"auth", b"").partition(b" ")
    token = token.lstrip(b" ")
    bare = token.rstrip(b"=")
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/-"
    return bool(blank and scheme.lower() == b"bearer" and bare) and all(byte in letters for byte in bare)


PIECES = st.lists(
    st.sampled_from(
        [b"n,", b"y,", b"p=x,", b"a=", b"alice", b"=2C", b"=", b",", b"\x01", b"auth=", b"Bearer ", b"x.y.z", b"host=h"]
    )
    | st.binary(max_size=3),
    max_size=12,
).map(b"".join)


@given(message=PIECES)
@example(b"n,,\x01auth=Bearer t\x01\x01")
@example(b"n,a=u,\x01auth=Bearer t\x01\x01")
@example(b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01")
@example(b"n,,\x01\x01")
def test_anything_else_is_refused(message):
    if by_hand(message):
        parse_first_message(message)
        return
    with pytest.raises(AuthenticationError) as refused:
        parse_first_message(message)
    assert not refused.value.message


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n,alice,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a=al\x01ice,\x01auth=Bearer t\x01\x01",
        b"n,a=al=2cice,\x01auth=Bearer t\x01\x01",
        b"n,a=a,b,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer t\x01\x01x",
        b"n,,\x01auth=Bearer t u\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Basic dTpw\x01\x01",
        b"n,,\x01auth=t\x01\x01",
        b"n,,\x01auth=Bearer =\x01\x01",
        b"n,,\x01auth=Bearer t=t\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01AUTH=Bearer t\x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01host=h\x01auth=Bearer t\x01host=i\x01\x01",
        b"n,,\x01ho-st=h\x01auth=Bearer t\x01\x01",
        b"n,,\x01host=\x01auth=Bearer t\x01\x01",
        b"n,,\x01host=\0\x01auth=Bearer t\x01\x01",
        b"n,,\x01host=\xc3\xa9\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t" + b"t" * MESSAGE_BYTES_MAX + b"\x01\x01",
        b"n,,\x01"
        + b"".join(b"%s=v\x01" % name for name in (b"e" * n for n in range(1, EXTENSIONS_MAX + 3)))
        + b"auth=Bearer t\x01\x01",
    ],
)
def test_message_of_another_form_is_refused(message):
    with pytest.raises(AuthenticationError, match="first message of OAUTHBEARER") as refused:
        parse_first_message(message)
    assert not refused.value.message


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}),
        ("a b", {}),
        ("t\x01", {}),
        ("t", {"auth": "x"}),
        ("t", {"a-b": "x"}),
        ("t", {"a": ""}),
        ("t", {"a": "\x01"}),
    ],
)
def test_this_process_sends_no_message_of_another_form(token, extensions):
    with pytest.raises(ValueError, match=r"message can hold|bearer token"):
        build_first_message(token, extensions)


# The exchange


NOW_MS = 1_000_000
GOOD = KnownToken("alice, =", ("staff",), NOW_MS + 60_000)


def challenge_of(fault: str) -> Challenge:
    return Challenge(INVALID_TOKEN.encode(), fault)


class Judge:
    """Says of each token what the test wants: one answer after the other."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def judge(self, token: str, /):
        self.asked.append(token)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def exchange(*answers) -> OauthBearerExchange:
    return OauthBearerExchange(Judge(*answers), lambda: NOW_MS)


def message(name: str = "") -> bytes:
    return f"n,{name},\x01auth=Bearer t\x01\x01".encode()


@pytest.mark.parametrize("name", ["", "a=alice=2C =3D"])
def test_believed_token_authenticates_its_user_for_the_rest_of_its_life(name):
    assert exchange(GOOD).respond(message(name)) == Success("alice, =", lifetime_ms=60_000, groups=("staff",))


@pytest.mark.parametrize("name", ["a=bob", "a=alice", "a=ALICE=2C =3D", "a=alice=2C =3D "])
def test_another_authorization_id_is_refused(name):
    with pytest.raises(AuthenticationError, match="asks to act as") as refused:
        exchange(GOOD).respond(message(name))
    assert "different from the token's principal name (alice, =)" in refused.value.message


@pytest.mark.parametrize("answer", [GIVEN_UP, b"", message(), b"x" * 1000])
def test_refused_token_is_answered_with_a_status_and_the_next_message_with_the_failure(answer):
    made = exchange(AuthenticationError("its issuer is 'x'"), GOOD)
    assert made.respond(message()) == challenge_of("its issuer is 'x'")
    with pytest.raises(AuthenticationError, match="its issuer is 'x'") as refused:
        made.respond(answer)
    assert refused.value.message == INVALID_TOKEN
    assert "issuer" not in refused.value.message


@pytest.mark.parametrize("left_ms", [0, -1])
def test_token_that_expires_while_it_is_looked_at_is_refused(left_ms):
    assert exchange(GOOD._replace(expires_ms=NOW_MS + left_ms)).respond(message()) == challenge_of(
        "the token has expired"
    )


def test_unknown_key_is_waited_for_once():
    made = exchange(Unresolved("no such key"), GOOD)
    wait = made.respond(message())
    assert isinstance(wait, KeyWait)
    assert wait.conclude(True) == Success("alice, =", lifetime_ms=60_000, groups=("staff",))
    made = exchange(Unresolved("no such key"), Unresolved("no such key"))
    wait = made.respond(message())
    assert wait.conclude(False) == challenge_of("no such key")
    with pytest.raises(AuthenticationError, match="no such key"):
        made.respond(GIVEN_UP)


def test_malformed_message_is_a_failure_at_once():
    made = exchange()
    with pytest.raises(AuthenticationError, match="malformed"):
        made.respond(GIVEN_UP)
