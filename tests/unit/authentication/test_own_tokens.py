"""The tokens by which this process logs in."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import MESSAGE_BYTES_MAX
from esp.authentication.own_tokens import (
    build_token_request,
    find_end_ms,
    read_token_answer,
    read_token_file,
    refresh_ms,
)
from esp.model.oauth import OauthLogin
from esp.model.web_place import parse_web_place

LOGIN = OauthLogin(parse_web_place("https://login.example/token"), "broker 1", "p:ä&=", "kafka read")


def token_with(claims) -> str:
    return "x." + base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode() + ".y"


def test_request_is_that_of_rfc_6749():
    request = build_token_request(LOGIN)
    headers = dict(request.headers)
    kind, _, credentials = headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(credentials).decode()) == ("Basic", "broker 1:p:ä&=")
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.body == b"grant_type=client_credentials&scope=kafka+read"
    assert build_token_request(OauthLogin(LOGIN.source, "a", "b")).body == b"grant_type=client_credentials"


def test_answer_holds_the_token():
    assert read_token_answer(b'{"access_token": "a.b.c", "token_type": "Bearer"}') == "a.b.c"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"access_token": 5}',
        b'{"access_token": ""}',
        b"[" * 100_000,
        b"\xff",
        b'{"error": "secret"}',
    ],
)
def test_answer_without_a_token_is_refused_and_not_quoted(data):
    with pytest.raises(AuthenticationError) as refused:
        read_token_answer(data)
    assert "secret" not in refused.value.reason


def test_file_holds_the_token():
    assert read_token_file(b" a.b.c\n") == "a.b.c"


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff", b"x" * (MESSAGE_BYTES_MAX + 1)])
def test_file_without_a_token_is_refused(data):
    with pytest.raises(AuthenticationError):
        read_token_file(data)


def test_end_of_a_token_is_read():
    assert find_end_ms(token_with({"exp": 17.5})) == 17_500


@given(
    st.text(max_size=20)
    | st.builds(token_with, st.none() | st.just({"exp": None}) | st.just({"exp": 1e400}) | st.just([1]))
)
def test_token_whose_end_cannot_be_read_has_none(token):
    assert find_end_ms(token) is None


@pytest.mark.parametrize(
    ("life_s", "part", "after_s"),
    [
        (3600, 0.0, 2880),
        (3600, 1.0, 3060),
        (1000, 1.0, 700),  # the buffer of 300 s is kept
        (400, 0.0, 100),
        (365, 0.0, 65),
        (361, 0.0, 61),
        (100, 0.0, 80),  # no room for buffer and least period
        (0, 0.0, 0),
        (-10, 1.0, 0),
    ],
)
def test_another_token_is_got_in_time(life_s, part, after_s):
    assert refresh_ms(LOGIN, 5_000, 5_000 + life_s * 1000, part) == 5_000 + after_s * 1000


def test_least_period_is_kept():
    login = OauthLogin(LOGIN.source, refresh_factor=0.5, refresh_min_ms=60_000, refresh_buffer_ms=0)
    assert refresh_ms(login, 0, 70_000, 0.0) == 60_000
