import io
import json

import pytest

from esp.cli.app import run_tools
from esp.cli.kafka.answers import RefusedError
from esp.cli.users import command
from esp.cli.users.passwords import SALT_BYTES
from esp.model.errors import ErrorCode
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import salted_password

SHA_256, SHA_512 = ScramMechanism


class FakeUsers:
    """A cluster with users."""

    def __init__(self):
        self.told = {"bob": {SHA_256: 4096}, "carol": {SHA_256: 4096, SHA_512: 8192}}
        self.put_in = []
        self.refused = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def users(self):
        return self.told

    def credentials(self, user):
        return self.told.get(user, {})

    def put(self, user, mechanism, password):
        if mechanism in self.refused:
            raise RefusedError(ErrorCode.unacceptable_credential, "no")
        self.put_in.append((user, mechanism, password))
        self.told.setdefault(user, {})[mechanism] = password.iterations

    def delete(self, user, mechanism):
        del self.told[user][mechanism]

    def has(self, user, mechanism, password):
        """True if this password was the last that was put in."""
        _, _, put_in = next(each for each in reversed(self.put_in) if each[:2] == (user, mechanism))
        return put_in.key == salted_password(mechanism, password, put_in.salt, put_in.iterations)


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeUsers()
    monkeypatch.setattr(command, "UsersAdmin", lambda *_: cluster)
    return cluster


def test_users_are_listed(cluster, capsys):
    assert run_tools(["users", "list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["bob", "SCRAM-SHA-256", "4096"],
        ["carol", "SCRAM-SHA-256", "4096"],
        ["carol", "SCRAM-SHA-512", "8192"],
    ]
    assert run_tools(["users", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "user": "carol",
        "credentials": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192},
    }


def test_a_generated_password_is_all_of_standard_output(cluster, capsys):
    assert run_tools(["users", "add", "alice"]) == 0
    told = capsys.readouterr()
    (password,) = told.out.splitlines()
    assert len(password) == 32
    assert password not in told.err
    assert cluster.has("alice", SHA_512, password)
    assert cluster.told["alice"] == {SHA_512: 16384}
    assert run_tools(["users", "add", "dave"]) == 0
    assert capsys.readouterr().out.strip() != password
    assert len({put_in.salt for _, _, put_in in cluster.put_in}) == 2
    assert {len(put_in.salt) for _, _, put_in in cluster.put_in} == {SALT_BYTES}


def test_a_password_from_standard_input_is_hashed_like_a_generated_one_and_not_shown(cluster, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("a guessable one\n"))
    mechanisms = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "scram-sha-512")
    assert run_tools(["users", "add", "alice", *mechanisms, "--password-stdin"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "guessable" not in told.err
    assert cluster.told["alice"] == {SHA_256: 16384, SHA_512: 16384}
    assert cluster.has("alice", SHA_256, "a guessable one")
    assert cluster.has("alice", SHA_512, "a guessable one")


def test_iterations_may_be_given(cluster):
    assert run_tools(["users", "add", "alice", "--iterations", "5000"]) == 0
    assert cluster.told["alice"] == {SHA_512: 5000}
    assert run_tools(["users", "add", "dave", "--iterations", "4095"]) == 2


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n"])
def test_standard_input_must_hold_one_line(cluster, capsys, monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run_tools(["users", "add", "alice", "--password-stdin"]) == 1
    assert "one line" in capsys.readouterr().err
    assert not cluster.put_in


def test_a_user_that_is_there_is_not_added_again(cluster, capsys):
    assert run_tools(["users", "add", "bob", "--mechanism", "SCRAM-SHA-256"]) == 1
    assert "esp users rotate bob" in capsys.readouterr().err
    assert not cluster.put_in
    assert run_tools(["users", "add", "bob"]) == 0
    assert cluster.told["bob"] == {SHA_256: 4096, SHA_512: 16384}


def test_all_credentials_get_the_new_password(cluster, capsys):
    assert run_tools(["users", "rotate", "carol"]) == 0
    (password,) = capsys.readouterr().out.splitlines()
    assert cluster.has("carol", SHA_256, password)
    assert cluster.has("carol", SHA_512, password)
    assert run_tools(["users", "rotate", "carol", "--mechanism", "SCRAM-SHA-256"]) == 0
    (other,) = capsys.readouterr().out.splitlines()
    assert cluster.has("carol", SHA_256, other)
    assert cluster.has("carol", SHA_512, password)


def test_a_password_that_counts_is_told_although_the_second_credential_is_refused(cluster, capsys):
    cluster.refused = (SHA_512,)
    assert run_tools(["users", "rotate", "carol"]) == 1
    (password,) = capsys.readouterr().out.splitlines()
    assert cluster.has("carol", SHA_256, password)


def test_credentials_are_deleted(cluster, capsys):
    assert run_tools(["users", "delete", "carol", "--mechanism", "SCRAM-SHA-256"]) == 0
    assert cluster.told["carol"] == {SHA_512: 8192}
    assert run_tools(["users", "delete", "carol"]) == 0
    assert cluster.told["carol"] == {}
    assert "Deleted user carol: SCRAM-SHA-512." in capsys.readouterr().err


@pytest.mark.parametrize("what", ["rotate", "delete"])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nobody",), "there is no user nobody"),
        (("bob", "--mechanism", "SCRAM-SHA-512"), "user bob has no SCRAM-SHA-512 credential"),
        (("bob", "--mechanism", "PLAIN"), "there is no mechanism PLAIN"),
    ],
)
def test_what_is_not_there_is_not_changed(cluster, capsys, what, arguments, problem):
    assert run_tools(["users", what, *arguments]) == 1
    assert problem in capsys.readouterr().err
    assert cluster.told["bob"] == {SHA_256: 4096}
    assert not cluster.put_in
