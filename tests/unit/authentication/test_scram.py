import pytest

from esp.authentication.errors import AuthenticationError
from esp.authentication.scram import ScramClient, is_password
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential

SHA_256 = ScramMechanism.SCRAM_SHA_256
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
