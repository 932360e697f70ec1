import socket

import pytest

from esp.cli.kafka import client as kafka_client
from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.library import KafkaConnectionError, NotCoordinatorError
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


@pytest.mark.parametrize("error", [KafkaConnectionError, NotCoordinatorError])
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
