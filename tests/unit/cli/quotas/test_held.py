"""The clients that brokers hold, added up."""

import json

import pytest

from esp.cli.kafka.quotas import HeldThere
from esp.cli.quotas import held
from esp.model.client_quotas import client_alone, ip_alone, user_alone
from esp.model.errors import OperatorError

DEFAULT_USER = user_alone(None)
REPORTS = HeldThere("consumer_byte_rate", DEFAULT_USER, "alice", "reports", "192.0.2.1", 2, 1500)
LOADER = HeldThere("producer_byte_rate", client_alone("loader"), "bob", "loader", "192.0.2.2", 1, 9000)
ADDRESS = HeldThere("connection_creation_rate", ip_alone(None), None, None, "192.0.2.9", 0, 300)
SILENT = OperatorError("no broker answers at 192.0.2.3:9092: Connection refused", "Start it.")


def clients(found):
    return [(each.first.client_id, each.connections, each.left_ms, tuple(each.at)) for each in found]


def test_the_same_client_at_several_brokers_is_one() -> None:
    told = {1: [REPORTS], 2: [REPORTS._replace(connections=3, left_ms=700), LOADER], 3: []}
    assert clients(held.add_up(told, ())) == [("loader", 1, 9000, (2,)), ("reports", 5, 1500, (1, 2))]


def test_another_address_or_quota_is_another_row() -> None:
    told = {1: [REPORTS, REPORTS._replace(address="192.0.2.8"), REPORTS._replace(key="request_percentage")]}
    assert len(held.add_up(told, ())) == 3


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (user_alone("alice"), ["reports"]),
        (client_alone("loader"), ["loader"]),
        (user_alone(None), ["reports"]),
        (ip_alone("192.0.2.9"), [None]),
        (ip_alone("192.0.2.2"), ["loader"]),
        (user_alone("nobody"), []),
    ],
)
def test_clients_are_chosen_by_name_and_by_the_default_that_holds_them(wanted, found) -> None:
    told = {1: [REPORTS, LOADER, ADDRESS]}
    assert [each.first.client_id for each in held.add_up(told, wanted)] == found


def test_an_address_is_found_however_it_is_written() -> None:
    told = {1: [ADDRESS._replace(address="2001:db8::1"), LOADER]}
    (found,) = held.add_up(told, ip_alone("2001:DB8:0::1"))
    assert found.first.address == "2001:db8::1"


def test_a_broker_that_does_not_tell_is_named_and_ends_the_command_with_status_1(monkeypatch, capsys) -> None:
    monkeypatch.setattr(held, "find_held", lambda servers: {1: [REPORTS, ADDRESS], 2: SILENT})
    with pytest.raises(held.typer.Exit):
        held.show_held("192.0.2.1:9092", (), json=False)
    told = capsys.readouterr()
    assert "broker 2 is not counted: no broker answers at 192.0.2.3:9092" in told.err.replace("\n", " ")
    assert [line.split() for line in told.out.splitlines()[1:]] == [
        [
            "user",
            "alice,",
            "client",
            "id",
            "reports",
            "192.0.2.1",
            "2",
            "1.5",
            "s",
            "1",
            "consumer_byte_rate",
            "user",
            "(default)",
        ],
        [
            "address",
            "192.0.2.9",
            "192.0.2.9",
            "refused",
            "0.3",
            "s",
            "1",
            "connection_creation_rate",
            "address",
            "(default)",
        ],
    ]


def test_programs_are_told_what_each_broker_holds(monkeypatch, capsys) -> None:
    monkeypatch.setattr(held, "find_held", lambda servers: {1: [REPORTS], 2: [REPORTS._replace(left_ms=10)]})
    held.show_held("192.0.2.1:9092", (), json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["unknown"] == []
    [client] = document["held"]
    assert (client["user"], client["connections"], client["waits_ms"]) == ("alice", 4, 1500)
    assert [(there["broker"], there["waits_ms"]) for there in client["brokers"]] == [(1, 1500), (2, 10)]


def test_where_no_broker_tells_the_first_reason_is_the_error(monkeypatch) -> None:
    monkeypatch.setattr(held, "find_held", lambda servers: {1: SILENT, 2: SILENT})
    with pytest.raises(OperatorError, match="Connection refused"):
        held.show_held("192.0.2.1:9092", (), json=False)


def test_nobody_is_held(monkeypatch, capsys) -> None:
    monkeypatch.setattr(held, "find_held", lambda servers: {1: []})
    held.show_held("192.0.2.1:9092", (), json=False)
    assert capsys.readouterr().out == "No client is held.\n"
