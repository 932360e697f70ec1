"""``esp acls`` with a cluster that the test plays."""

import json
from typing import ClassVar

import pytest

from esp.cli.acls import command
from esp.cli.app import run_tools
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

RULE = AclBinding(
    *(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
)
OTHER = RULE._replace(resource_name="ord", pattern_type=PatternType.PREFIXED, permission=AclPermission.DENY)


class FakeAdmin:
    """Keeps rules."""

    in_force: ClassVar[list[AclBinding]] = []
    changes: ClassVar[int] = 0

    def __init__(self, servers, within_s=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def rules(self, filters):
        return [rule for rule in self.in_force if any(each.matches(rule) for each in filters)]

    def add(self, rules):
        FakeAdmin.changes += 1
        FakeAdmin.in_force = [*self.in_force, *rules]

    def remove(self, filters):
        FakeAdmin.changes += 1
        gone = self.rules(filters)
        FakeAdmin.in_force = [rule for rule in self.in_force if rule not in gone]
        return gone


@pytest.fixture(autouse=True)
def _cluster(monkeypatch):
    monkeypatch.setattr(command, "AclsAdmin", FakeAdmin)
    FakeAdmin.in_force, FakeAdmin.changes = [RULE, OTHER], 0


def run(capsys, *arguments):
    status = run_tools(("acls", *arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_rules_are_listed_in_columns_and_as_json(capsys):
    _, out, _ = run(capsys, "--list")
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["User:alice", "allow", "Read", "topic:t", "*"],
        ["User:alice", "deny", "Read", "topic:ord...", "*"],
    ]
    _, out, _ = run(capsys, "--list", "--topic", "t", "--json")
    (row,) = json.loads(out)
    assert (row["resourceName"], row["operation"], row["patternType"]) == ("t", "READ", "LITERAL")
    assert run(capsys, "--list", "--principal", "User:bob")[1] == "no rules\n"


def test_rules_are_about_tokens_and_about_users_whose_tokens_others_make(capsys):
    options = ("--allow-principal", "User:bob", "--user-principal", "User:alice", "--operation", "CreateTokens")
    _, out, _ = run(capsys, "--add", *options)
    assert out.splitlines()[1].split() == ["User:bob", "allow", "CreateTokens", "user:User:alice", "*"]
    _, out, _ = run(
        capsys, "--add", "--allow-principal", "User:bob", "--delegation-token", "x", "--operation", "Describe"
    )
    assert out.splitlines()[1].split() == ["User:bob", "allow", "Describe", "delegation_token:x", "*"]
    assert [rule.resource_type for rule in FakeAdmin.in_force[2:]] == [ResourceType.USER, ResourceType.DELEGATION_TOKEN]
    _, out, _ = run(capsys, "--list", "--user-principal", "User:alice", "--json")
    (row,) = json.loads(out)
    assert (row["resourceType"], row["operation"]) == ("USER", "CREATE_TOKENS")


def test_a_dry_run_changes_nothing(capsys):
    options = ("--allow-principal", "User:bob", "--topic", "t", "--operation", "Read")
    _, out, err = run(capsys, "--add", *options, "--dry-run")
    assert "User:bob" in out
    assert "1 rule would be added; nothing was changed." in err
    assert FakeAdmin.changes == 0
    _, _, err = run(capsys, "--add", *options)
    assert "1 rule added." in err
    assert len(FakeAdmin.in_force) == 3
    _, out, err = run(capsys, "--remove", "--topic", "t", "--dry-run")
    assert "2 rules would be removed" in err
    assert len(FakeAdmin.in_force) == 3


def test_rules_are_removed_when_that_is_confirmed(capsys, monkeypatch):
    status, _, err = run(capsys, "--remove", "--topic", "t")
    assert (status, "Give --force" in err) == (1, True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(command.typer, "confirm", lambda _: False)
    status, out, err = run(capsys, "--remove", "--topic", "t")
    assert (status, "User:alice" in out, "Nothing was removed" in err) == (1, True, True)
    assert FakeAdmin.changes == 0
    assert run(capsys, "--remove", "--topic", "t", "--force")[0] == 0
    assert FakeAdmin.in_force == [OTHER]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--list", "--add"),
        ("--add", "--topic", "t"),
        ("--add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"),
        ("--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Fly"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, arguments):
    status, _, err = run(capsys, *arguments)
    assert (status, bool(err)) == (1, True)
    assert FakeAdmin.changes == 0
