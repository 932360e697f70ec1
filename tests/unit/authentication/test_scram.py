import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import Challenge, Success
from esp.authentication.scram import ScramClient, ScramExchange, is_password
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential
from tests.unit.authentication.logins import SHA_256, SHA_512, Users, exchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(password: str = "pencil", name: str = "user") -> ScramClient:
    return ScramClient(SHA_256, name, password, NONCE)


def test_client_speaks_as_in_rfc_7677() -> None:
    exchange = client()
    assert exchange.first_message() == b"n,,n=user,r=" + NONCE.encode()
    assert exchange.on_server_first(SERVER_FIRST) == CLIENT_FINAL
    exchange.on_server_final(SERVER_FINAL)


def test_name_is_escaped() -> None:
    assert client(name="a=b,c").first_message() == b"n,,n=a=3Db=2Cc,r=" + NONCE.encode()


def test_token_tells_that_it_is_one() -> None:
    exchange = ScramClient(SHA_256, "user", "pencil", NONCE, is_token=True)
    assert exchange.first_message().endswith(b",tokenauth=true")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SERVER_FIRST.replace(NONCE.encode(), b"another"), "does not continue ours"),
        (SERVER_FIRST.replace(SERVER_NONCE.encode(), NONCE.encode()), "does not continue ours"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "the server asks for 4095 iterations"),
        (SERVER_FIRST.replace(b"4096", b"16385"), "the server asks for 16385 iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999999999999999"), "malformed"),
        (b"m=x," + SERVER_FIRST, "malformed"),
        (SERVER_FIRST + b",m=x", "an extension that must be understood"),
        (SERVER_FIRST.replace(b"W22Z", b"W2=Z"), "no base64"),
        (SERVER_FIRST.replace(NONCE.encode(), NONCE.encode() + b"x" * 300), "nonce .* too long"),
        (SERVER_FIRST + b",e=" + b"x" * 9000, "too long"),
        (b"\xff", "malformed"),
        (b"", "malformed"),
    ],
)
def test_client_refuses_what_the_servers_first_message_must_not_be(message: bytes, reason: str) -> None:
    with pytest.raises(AuthenticationError, match=reason):
        client().on_server_first(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"e=invalid-proof", "the server refuses the log-in: 'invalid-proof'"),
        (b"v=AAAA", "does not know the password"),
        (SERVER_FINAL.replace(b"6rri", b"7rri"), "does not know the password"),
        (b"v=", "malformed"),
        (b"", "malformed"),
    ],
)
def test_client_refuses_a_server_that_does_not_know_the_password(message: bytes, reason: str) -> None:
    exchange = client()
    exchange.on_server_first(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match=reason):
        exchange.on_server_final(message)


def test_client_takes_no_last_message_before_the_first() -> None:
    with pytest.raises(AuthenticationError, match="does not know the password"):
        client().on_server_final(b"v=AAAA")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_password_is_known_by_its_credential(mechanism: ScramMechanism) -> None:
    credential = make_credential(mechanism, "pencil", b"salt", 4096)
    assert is_password(mechanism, "pencil", credential)
    assert not is_password(mechanism, "pencils", credential)


# The server


ALICE = Users(("alice", SHA_256, "secret"), ("alice", SHA_512, "secret"))


def test_server_speaks_as_in_rfc_7677() -> None:
    users = Users(("user", SHA_256, "pencil"), salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    server = exchange(users, server_part=SERVER_NONCE.removeprefix(NONCE))
    assert server.respond(client().first_message()) == Challenge(SERVER_FIRST)
    assert server.respond(CLIENT_FINAL) == Success("user", SERVER_FINAL)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_client_and_server_agree_on_the_password_and_on_no_other(mechanism: ScramMechanism) -> None:
    for password, is_right in (("secret", True), ("Secret", False), ("", False)):
        mine, theirs = ScramClient(mechanism, "alice", password, "abc"), exchange(ALICE, mechanism)
        challenge = theirs.respond(mine.first_message())
        final = mine.on_server_first(challenge.data)
        if is_right:
            outcome = theirs.respond(final)
            assert isinstance(outcome, Success)
            assert outcome.user == "alice"
            mine.on_server_final(outcome.data)
        else:
            with pytest.raises(AuthenticationError, match="wrong password, or no such user: 'alice'"):
                theirs.respond(final)


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=50),
    st.text(max_size=50),
)
def test_any_name_and_password_of_unicode_can_log_in(name: str, password: str) -> None:
    password = password.encode(errors="replace").decode()
    mine = ScramClient(SHA_256, name, password, "abc")
    theirs = exchange(Users((name, SHA_256, password)))
    final = mine.on_server_first(theirs.respond(mine.first_message()).data)
    assert theirs.respond(final).user == name


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"n,,n=alice", "malformed"),
        (b"n,,n=alice,r=", "malformed"),
        (b"n,,n=,r=abc", "malformed"),
        (b"n,,n=al=ice,r=abc", "malformed"),
        (b"n,,n=al=xbice,r=abc", "malformed"),
        (b"n,,r=abc,n=alice", "malformed"),
        (b"n,,n=alice,r=a bc", "malformed"),
        (b"n,,n=alice,r=abc,", "malformed"),
        (b"n,,n=alice,r=abc\n", "malformed"),
        (b"y,,n=alice,r=abc", "malformed"),
        (b"p=tls-unique,,n=alice,r=abc", "malformed"),
        (b"n,,m=x,n=alice,r=abc", "malformed"),
        (b"n,,n=alice,r=abc,m=x", "must be understood"),
        (b"n,a=bob,n=alice,r=abc", "'alice' asks to act as 'bob'"),
        (b"n,,n=alice,r=" + b"x" * 257, "nonce .* too long"),
        (b"n,,n=" + b"x" * 9000 + b",r=abc", "too long"),
    ],
)
def test_server_refuses_what_the_first_message_must_not_be(message: bytes, reason: str) -> None:
    with pytest.raises(AuthenticationError, match=reason):
        exchange(ALICE).respond(message)


def test_authorization_id_may_be_the_user_s_own() -> None:
    server = exchange(ALICE)
    assert isinstance(server.respond(b"n,a=alice,n=alice,r=abc"), Challenge)


def final_message(server: ScramExchange, password: str = "secret") -> bytes:
    mine = ScramClient(SHA_256, "alice", password, "abc")
    return mine.on_server_first(server.respond(mine.first_message()).data)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("r=abc", "r=xabc", "another nonce"),
        ("r=abcserver-part", "r=abc", "another nonce"),
        ("r=abcserver-part", "r=server-part", "another nonce"),
        ("r=abcserver-part", "r=abcserver-part2", "another nonce$"),
        ("r=abcserver-part", "r=abcabcserver-part", "another nonce, as librdkafka before 2.6.1"),
        ("c=biws", "c=eSws", "channel binding"),
        ("c=biws", "c=biw=", "channel binding|no base64"),
        ("c=biws", "c=b", "no base64"),
        (",p=", ",x=y,p=", "wrong password"),
        (",p=", ",m=y,p=", "must be understood"),
        (",p=", ",p=AAAA", "no base64|wrong password"),
    ],
)
def test_server_refuses_a_last_message_that_was_altered(before: str, after: str, reason: str) -> None:
    server = exchange(ALICE)
    altered = final_message(server).decode().replace(before, after)
    with pytest.raises(AuthenticationError, match=reason):
        server.respond(altered.encode())


def test_last_message_cannot_be_replayed_to_another_exchange() -> None:
    replayed = final_message(exchange(ALICE))
    server = exchange(ALICE, server_part="another-part")
    server.respond(b"n,,n=alice,r=abc")
    with pytest.raises(AuthenticationError, match="another nonce"):
        server.respond(replayed)


def test_proof_that_is_too_short_is_none() -> None:
    server = exchange(ALICE)
    server.respond(b"n,,n=alice,r=abc")
    with pytest.raises(AuthenticationError, match="wrong password"):
        server.respond(b"c=biws,r=abcserver-part,p=AAAA")


def test_user_that_does_not_exist_fails_with_the_last_message_as_a_wrong_password_does() -> None:
    errors = []
    for user in ("alice", "nobody"):
        server = exchange(ALICE)
        mine = ScramClient(SHA_256, user, "wrong", "abc")
        challenge = server.respond(mine.first_message())
        assert challenge.data.startswith(b"r=abcserver-part,s=")
        assert challenge.data.endswith(b",i=4096")
        with pytest.raises(AuthenticationError) as caught:
            server.respond(mine.on_server_first(challenge.data))
        errors.append((caught.value.message, caught.value.reason.replace(user, "")))
    assert errors[0] == errors[1]


def test_user_that_was_removed_or_got_another_password_since_the_first_message_does_not_log_in() -> None:
    for change in (
        lambda users: users.credentials.clear(),
        lambda users: users.credentials.update(Users(("alice", SHA_256, "another")).credentials),
    ):
        users = Users(("alice", SHA_256, "secret"))
        server = exchange(users)
        last = final_message(server)
        change(users)
        with pytest.raises(AuthenticationError, match="no such user"):
            server.respond(last)


def test_user_whose_metadata_was_read_again_logs_in() -> None:
    users = Users(("alice", SHA_256, "secret"))
    server = exchange(users)
    last = final_message(server)
    users.credentials = Users(("alice", SHA_256, "secret")).credentials
    assert isinstance(server.respond(last), Success)


def test_user_of_the_other_mechanism_does_not_exist_for_this_one() -> None:
    server = exchange(Users(("alice", SHA_512, "secret")))
    with pytest.raises(AuthenticationError, match="no such user"):
        server.respond(final_message(server))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_bytes_that_are_no_messages_are_refused_and_nothing_else_happens(first: bytes, second: bytes) -> None:
    with pytest.raises(AuthenticationError):
        exchange(ALICE).respond(first)
    server = exchange(ALICE)
    server.respond(b"n,,n=alice,r=abc")
    with pytest.raises(AuthenticationError):
        server.respond(second)


@given(st.data())
def test_message_with_changed_bytes_does_not_authenticate(data: st.DataObject) -> None:
    server = exchange(ALICE)
    message = bytearray(final_message(server))
    position = data.draw(st.integers(0, len(message) - 1))
    message[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(AuthenticationError):
        server.respond(bytes(message))
