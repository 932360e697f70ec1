import hashlib
from contextlib import suppress
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import SlowCheck, Success
from esp.authentication.plain import PlainExchange, PlainOverScramExchange
from tests.unit.authentication.logins import SHA_256, SHA_512, Users, lookup_of

USERS = {"alice": "alice-secret", "bob": "b"}
INVALID = "Authentication failed: Invalid username or password"


def refused(message: bytes) -> str:
    with pytest.raises(AuthenticationError) as caught:
        PlainExchange(USERS).respond(message)
    return caught.value.message


def test_right_password_is_a_success() -> None:
    assert PlainExchange(USERS).respond(b"\0alice\0alice-secret") == Success("alice")
    assert PlainExchange(USERS).respond(b"alice\0alice\0alice-secret") == Success("alice")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 1000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", INVALID),
        (b"\0alice\0alice-secret ", INVALID),
        (b"\0nobody\0alice-secret", INVALID),
        (b"\0alice\0\xff", INVALID),
        (b"bob\0alice\0wrong", INVALID),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_failures_have_kafka_s_texts(message: bytes, text: str) -> None:
    assert refused(message) == text


def test_unknown_user_and_wrong_password_are_told_alike_and_the_log_holds_no_password() -> None:
    reasons = []
    for user in ("alice", "nobody"):
        with pytest.raises(AuthenticationError) as caught:
            PlainExchange(USERS).respond(f"\0{user}\0hunter2".encode())
        assert "hunter2" not in caught.value.reason
        reasons.append(caught.value.reason.replace(user, ""))
    assert reasons[0] == reasons[1]


def test_user_without_a_password_cannot_log_in() -> None:
    with pytest.raises(AuthenticationError):
        PlainExchange({"eve": ""}).respond(b"\0eve\0x")


@given(st.binary(max_size=100))
def test_bytes_that_are_no_message_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        PlainExchange(USERS).respond(message)


def over_scram(users: Users, message: bytes) -> Success:
    check = PlainOverScramExchange(lookup_of(users)).respond(message)
    assert isinstance(check, SlowCheck)
    return check.conclude(check.is_right())


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_password_may_be_that_of_a_user_of_scram(mechanism: object) -> None:
    users = Users(("alice", mechanism, "alice-secret"))
    assert over_scram(users, b"\0alice\0alice-secret") == Success("alice")
    for message in (b"\0alice\0wrong", b"\0nobody\0alice-secret"):
        with pytest.raises(AuthenticationError) as caught:
            over_scram(users, message)
        assert caught.value.message == INVALID


@pytest.mark.parametrize("iterations", [4096, 16384])
@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_wrong_password_and_unknown_user_cost_the_same_hashes(mechanism: object, iterations: int) -> None:
    users = Users(("alice", mechanism, "alice-secret"), iterations=iterations)

    def work(message: bytes) -> list[tuple[str, int, int]]:
        """The hash, the length of the salt and the iterations of each password that was hashed."""
        with patch("hashlib.pbkdf2_hmac", wraps=hashlib.pbkdf2_hmac) as hashed, suppress(AuthenticationError):
            over_scram(users, message)
        return [(name, len(salt), count) for name, _, salt, count in (call.args for call in hashed.call_args_list)]

    assert len(work(b"\0alice\0alice-secret")) == 1
    assert work(b"\0alice\0wrong") == work(b"\0nobody\0wrong") == work(b"\0alice\0alice-secret")


def test_nobody_logs_in_where_there_are_no_users() -> None:
    with pytest.raises(AuthenticationError):
        over_scram(Users(), b"\0alice\0alice-secret")


def test_user_that_was_removed_while_its_password_was_checked_does_not_log_in() -> None:
    users = Users(("alice", SHA_256, "alice-secret"))
    check = PlainOverScramExchange(lookup_of(users)).respond(b"\0alice\0alice-secret")
    assert isinstance(check, SlowCheck)
    assert check.is_right()
    users.credentials.clear()
    with pytest.raises(AuthenticationError):
        check.conclude(True)
