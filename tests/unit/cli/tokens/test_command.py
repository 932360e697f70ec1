import base64
import json
from types import SimpleNamespace

import pytest

from esp.cli.app import run_tools
from esp.cli.kafka import tokens as kafka_tokens
from esp.cli.kafka.tokens import KnownToken
from esp.cli.tokens import command
from esp.model.delegation_token import DelegationToken
from esp.model.errors import ErrorCode

HMAC = bytes(range(64))
PASSWORD = base64.b64encode(HMAC).decode()
TOKEN = DelegationToken("id1", "User:alice", "User:root", ("User:bob",), 0, 86_400_000, 3_600_000)


class Cluster:
    """A cluster with one token; what it is asked for is noted."""

    def __init__(self):
        self.asked = []

    def tokens(self, _servers, owners=()):
        self.asked.append(("list", list(owners)))
        return [KnownToken(TOKEN, HMAC)]

    def create_token(self, _servers, *what):
        self.asked.append(("create", *what))
        return KnownToken(TOKEN, HMAC)

    def renew_token(self, _servers, *what):
        self.asked.append(("renew", *what))
        return 7_200_000

    def expire_token(self, _servers, *what):
        self.asked.append(("expire", *what))
        return 0


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    for name in ("tokens", "create_token", "renew_token", "expire_token"):
        monkeypatch.setattr(command, name, getattr(made, name))
    return made


def test_a_new_token_is_printed_as_the_setting_that_logs_in_by_it(cluster, capsys):
    assert run_tools(["tokens", "create", "--owner", "User:alice", "--renewer", "bob", "--hours", "0.5"]) == 0
    told = capsys.readouterr()
    assert told.out == (
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="id1" password="{PASSWORD}" tokenauth="true";\n'
    )
    assert "ends at 1970-01-01T01:00:00Z, and can be renewed until 1970-01-02T00:00:00Z" in told.err
    assert PASSWORD not in told.err
    assert run_tools(["tokens", "create", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hmac"] == PASSWORD
    assert cluster.asked == [("create", "alice", ["bob"], 1_800_000), ("create", None, [], -1)]


def test_hmacs_are_listed_only_if_they_are_asked_for(cluster, capsys):
    assert run_tools(["tokens", "list"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[1].split() == [
        *("id1", "User:alice", "User:root", "User:bob", "1970-01-01T01:00:00Z", "1970-01-02T00:00:00Z")
    ]
    assert run_tools(["tokens", "list", "--json", "--owner", "alice"]) == 0
    assert PASSWORD not in told + capsys.readouterr().out
    assert run_tools(["tokens", "list", "--hmacs"]) == 0
    assert PASSWORD in capsys.readouterr().out
    assert run_tools(["tokens", "list", "--hmacs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["hmac"] == PASSWORD
    assert cluster.asked[1] == ("list", ["alice"])


def test_tokens_are_changed_by_their_ids(cluster, capsys):
    assert run_tools(["tokens", "renew", "id1", "--hours", "2"]) == 0
    assert run_tools(["tokens", "expire", "id1"]) == 0
    assert [each for each in cluster.asked if each[0] != "list"] == [("renew", HMAC, 7_200_000), ("expire", HMAC, -1)]
    told = capsys.readouterr()
    assert "ends at 1970-01-01T02:00:00Z" in told.err
    assert "is gone" in told.err
    assert run_tools(["tokens", "expire", "other"]) == 1
    assert "no token other" in capsys.readouterr().err


@pytest.mark.parametrize("code", kafka_tokens._REMEDIES)
def test_refusals_have_a_remedy(monkeypatch, capsys, code):
    monkeypatch.setattr(kafka_tokens, "call", lambda *_: SimpleNamespace(error_code=code))
    assert run_tools(["tokens", "list"]) == 1
    problem, remedy = kafka_tokens._REMEDIES[code]
    told = " ".join(capsys.readouterr().err.split())
    assert problem in told
    assert remedy in told


def test_other_refusals_are_told(monkeypatch, capsys):
    code = ErrorCode.delegation_token_expired
    monkeypatch.setattr(kafka_tokens, "call", lambda *_: SimpleNamespace(error_code=code))
    assert run_tools(["tokens", "list"]) == 1
    assert "expired" in capsys.readouterr().err.lower()
