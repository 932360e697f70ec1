import socket

import pytest

from esp.cli.kafka import client as kafka_client
from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.library import KafkaConnectionError, NodeNotReadyError, NotCoordinatorError
from esp.model.errors import ErrorCode, OperatorError


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_port_where_nobody_listens_is_told_at_once():
    with pytest.raises(OperatorError) as caught:
        kafka_client.check_bootstrap(f"127.0.0.1:{closed_port()}")
    assert "no broker answers at 127.0.0.1:" in caught.value.problem
    assert "refused" in caught.value.problem
    assert "--bootstrap-server" in caught.value.remedy


def test_one_broker_that_answers_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        kafka_client.check_bootstrap(f"127.0.0.1:{closed_port()},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("servers", ["localhost", "127.0.0.1:x", ":9092", "", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(servers):
    with pytest.raises(OperatorError):
        kafka_client.check_bootstrap(servers)


@pytest.mark.parametrize("error", [KafkaConnectionError, NodeNotReadyError, NotCoordinatorError])
def test_what_passes_is_waited_out(error, monkeypatch):
    monkeypatch.setattr(kafka_client, "RETRY_BACKOFF_S", 0)
    failures = [error("gone"), error("gone")]

    def question():
        if failures:
            raise failures.pop()
        return "answer"

    assert kafka_client.ask_again(question) == "answer"


def test_a_broker_that_stays_away_is_not_asked_for_ever(monkeypatch):
    monkeypatch.setattr(kafka_client, "RETRY_BACKOFF_S", 0)
    asked = []

    def question():
        asked.append(1)
        raise KafkaConnectionError("gone")

    with pytest.raises(KafkaConnectionError):
        kafka_client.ask_again(question)
    assert len(asked) == kafka_client.ATTEMPTS_MAX


def test_codes_of_answers_are_refusals_or_something_to_wait_for():
    kafka_client.check_code(0)
    with pytest.raises(RefusedError) as caught:
        kafka_client.check_code(69, "Group g not found.")
    assert (caught.value.code, caught.value.message) == (ErrorCode.group_id_not_found, "Group g not found.")
    assert isinstance(caught.value, OperatorError)
    with pytest.raises(NotCoordinatorError):
        kafka_client.check_code(ErrorCode.not_coordinator)


class DyingBroker:
    """A client whose first broker dies when it is asked for the ``dies_at``-th time; then there is another one."""

    def __init__(self, dies_at: int) -> None:
        self.asked: list[str] = []
        self._dies_at = dies_at
        self.forgot = 0

    def reach(self) -> None:
        self.order("reach")

    def order(self, what: str = "order") -> str:
        self.asked.append(what)
        if len(self.asked) == self._dies_at:
            raise KafkaConnectionError("gone")
        return "done"

    def forget(self) -> None:
        self.forgot += 1


def connection_to(broker: DyingBroker) -> kafka_client.AdminConnection:
    connection = kafka_client.AdminConnection("127.0.0.1:9092")
    connection._client = broker
    return connection


@pytest.mark.parametrize(
    ("dies_at", "asked"), [(1, ["reach", "reach", "order"]), (2, ["reach", "order", "order"]), (3, ["reach", "order"])]
)
def test_order_goes_to_another_broker_when_one_has_died(dies_at, asked, monkeypatch):
    monkeypatch.setattr(kafka_client, "RETRY_BACKOFF_S", 0)
    broker = DyingBroker(dies_at)
    assert connection_to(broker)._change(lambda client: client.order()) == "done"
    assert broker.asked == asked
    assert broker.forgot == (dies_at < 3)


def test_order_that_must_not_be_given_twice_is_given_once(monkeypatch):
    monkeypatch.setattr(kafka_client, "RETRY_BACKOFF_S", 0)
    broker = DyingBroker(1)
    assert connection_to(broker)._change_once(lambda client: client.order()) == "done"
    broker = DyingBroker(2)
    with pytest.raises(OperatorError):
        connection_to(broker)._change_once(lambda client: client.order())
    assert broker.asked == ["reach", "order"]
