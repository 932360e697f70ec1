"""Log-ins over the network are held against what the administrator of users was told."""

import asyncio
from datetime import timedelta
from random import Random
from types import SimpleNamespace

import pytest

from esp.authentication.credentials import CredentialLookup
from esp.authentication.errors import AuthenticationError
from esp.authentication.scram import ScramExchange
from esp.authentication.stand_ins import CredentialSurvey
from esp.model.errors import ErrorCode
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.checkers import probe
from esp.simulation.workload import user_prober
from esp.simulation.workload.user_prober import UserProber
from tests.unit.simulation.workload.scripted import new_history

KEY = ("a", ScramMechanism.SCRAM_SHA_256)
PLACE = Address("10.0.0.1", 9091)
CREDENTIAL = make_credential(KEY[1], "secret", b"salt", 4096)


class Users:
    """The credentials of a broker."""

    def find(self, user, mechanism):
        return CREDENTIAL if (user, mechanism) == KEY else None

    def survey(self):
        return CredentialSurvey()


class Broker:
    """A connection to a broker that logs users in, for 5 s each."""

    def __init__(self):
        self.address = PLACE
        self.is_closed = False
        self.asked = []
        self._exchange = None

    async def call(self, key, _version, message, _timeout_s):
        self.asked.append(key)
        if key is ApiKey.SASL_HANDSHAKE:
            self._exchange = ScramExchange(KEY[1], CredentialLookup(Users(), b"a secret"), lambda: "server")
            return SimpleNamespace(error_code=ErrorCode.none)
        try:
            outcome = self._exchange.respond(message.auth_bytes)
        except AuthenticationError:
            return SimpleNamespace(
                error_code=ErrorCode.sasl_authentication_failed, auth_bytes=b"", session_lifetime=timedelta()
            )
        return SimpleNamespace(
            error_code=ErrorCode.none, auth_bytes=outcome.data, session_lifetime=timedelta(seconds=5)
        )

    def close(self):
        self.is_closed = True


class Checker:
    """Takes down what it is told."""

    passwords = ((KEY, "secret"),)

    def __init__(self):
        self.told = []

    def counts_at(self, _node, _key, text):
        return text == "secret"

    def on_log_in(self, _where, _key, looks, *, is_in):
        self.told.append((looks, is_in))


@pytest.fixture
def broker(monkeypatch):
    made, loader = Broker(), object()

    async def opened(*_):
        return made

    monkeypatch.setattr(user_prober, "ClientConnection", SimpleNamespace(open=opened))
    monkeypatch.setattr(user_prober, "SESSION_S", (0, 0))
    monkeypatch.setattr(user_prober, "SLOW_SHARE", 0)
    monkeypatch.setattr(probe, "metadata_of", lambda _node: loader)
    return made


def try_one(text, seed=1):
    checker, node = Checker(), SimpleNamespace(name="node 1")
    prober = UserProber("prober", None, [PLACE], Random(seed), new_history(), checker, lambda _host: node)
    asyncio.run(prober._try(PLACE, KEY, text))
    return checker.told


def test_the_answer_to_a_password_is_judged(broker):
    assert set(try_one("secret")) == {((True, True, True), True)}
    assert broker.is_closed
    assert try_one("not secret") == [((False, False, False), False)]


def test_a_log_in_is_renewed_on_its_connection(broker):
    told = next(told for told in (try_one("secret", seed) for seed in range(100)) if len(told) > 1)
    assert told == [((True, True, True), True)] * 2
    assert broker.asked[-3:] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE]


def test_another_process_has_answered_nothing(broker, monkeypatch):
    monkeypatch.setattr(probe, "metadata_of", lambda _node: object())
    assert try_one("secret") == []
    assert broker.is_closed
