"""Log-ins as a client, against the exchanges of the server."""

from dataclasses import replace

import pytest

from esp.authentication.credentials import CredentialLookup
from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import Challenge, Success
from esp.authentication.login import begin_login
from esp.authentication.plain import PlainExchange
from esp.authentication.scram import ScramExchange
from esp.authentication.stand_ins import CredentialSurvey
from esp.model.sasl import SaslMechanism
from esp.model.sasl_login import SaslLogin
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential

LOGIN = SaslLogin(SaslMechanism.SCRAM_SHA_512, "alice, =", "pässword")


class Credentials:
    """One user."""

    def __init__(self, password="pässword"):
        self._made = {each: make_credential(each, password, b"salt", 4096) for each in ScramMechanism}

    def find(self, user, mechanism, /):
        return self._made[mechanism] if user == LOGIN.username else None

    def survey(self):
        return CredentialSurvey()


def scram_server(mechanism, credentials):
    return ScramExchange(mechanism.scram, CredentialLookup(credentials, b"secret"), lambda: "more")


@pytest.mark.parametrize("mechanism", [SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512])
def test_both_sides_of_scram_are_convinced(mechanism):
    server = scram_server(mechanism, Credentials())
    client = begin_login(replace(LOGIN, mechanism=mechanism), lambda: "nonce")
    challenge = server.respond(client.first_message())
    assert isinstance(challenge, Challenge)
    success = server.respond(client.respond(challenge.data))
    assert isinstance(success, Success)
    assert success.user == LOGIN.username
    assert client.respond(success.data) is None


def test_a_server_with_another_credential_is_not_believed():
    client = begin_login(LOGIN, lambda: "nonce")
    honest = scram_server(LOGIN.mechanism, Credentials())
    challenge = honest.respond(client.first_message())
    client.respond(challenge.data)
    with pytest.raises(AuthenticationError, match="does not know the password"):
        client.respond(b"v=" + b"A" * 86 + b"==")


def test_plain_is_one_message():
    login = replace(LOGIN, mechanism=SaslMechanism.PLAIN)
    client = begin_login(login, lambda: "unused")
    success = PlainExchange({login.username: login.password}).respond(client.first_message())
    assert success.user == login.username
    assert client.respond(success.data) is None
    with pytest.raises(AuthenticationError):
        begin_login(login, lambda: "unused").respond(b"more")


def test_a_login_shows_no_password():
    assert "pässword" not in repr(LOGIN)
