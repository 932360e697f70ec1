import gc
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from esp.cli.kafka import client as kafka_client
from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.library import (
    KafkaConnectionError,
    KafkaError,
    MetadataRequest,
    NodeNotReadyError,
    NotCoordinatorError,
)
from esp.model.errors import ErrorCode, OperatorError
from tests.unit.cli.kafka.played_broker import PlayedBroker

# kafka-python leaves a socket open for every server that refuses a connection.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _no_sockets_left():
    """Let those sockets go while they may be warned of."""
    yield
    gc.collect()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def servers() -> Iterator[Callable[..., PlayedBroker]]:
    """Makes servers that end with the test."""
    with ExitStack() as stack:
        yield lambda *, answers: stack.enter_context(closing(PlayedBroker(answers=answers)))


def test_a_port_where_nobody_listens_is_told_at_once():
    with pytest.raises(OperatorError) as caught:
        kafka_client.connect(kafka_client.AdminClient, f"127.0.0.1:{closed_port()}")
    assert "no broker answers at 127.0.0.1:" in caught.value.problem
    assert caught.value.problem.endswith("Connection refused")
    assert "--bootstrap-server" in caught.value.remedy


def test_one_server_that_answers_is_enough_and_gets_one_connection(servers):
    silent, answering = servers(answers=False), servers(answers=True)
    addresses = f"127.0.0.1:{closed_port()},{silent.address},{answering.address}"
    with closing(kafka_client.connect(kafka_client.AdminClient, addresses)) as client:
        assert client.describe_topics() == []
        assert client.describe_topics() == []
    assert answering.connections == 1


def test_servers_that_are_silent_are_waited_for_together_and_no_longer(servers):
    silent = [servers(answers=False) for _ in range(3)]
    begun_s = time.monotonic()
    with pytest.raises(OperatorError) as caught:
        kafka_client.connect(
            kafka_client.AdminClient, ",".join(each.address for each in silent), until_s=time.monotonic() + 0.3
        )
    assert caught.value.problem.endswith("Connection timed out")
    assert time.monotonic() - begun_s < kafka_client.BOOTSTRAP_TIMEOUT_MS / 1000
    assert [each.connections for each in silent] == [1, 1, 1]


def test_silent_brokers_are_waited_for_together_and_once(servers):
    answering, silent = servers(answers=True), [servers(answers=False) for _ in range(3)]
    answering.brokers = [answering, *silent]
    until_s = time.monotonic() + 0.5
    with closing(kafka_client.connect(kafka_client.AdminClient, answering.address, until_s=until_s)) as client:
        client.connect_to_all()
        for _ in range(2):
            told = client.send_to_each(lambda: MetadataRequest(topics=[]), range(4))
            assert [node for node, answer in told.items() if isinstance(answer, KafkaError)] == [1, 2, 3]
    assert [each.connections for each in silent] == [1, 1, 1], "a silent broker is not tried again"


@pytest.mark.parametrize("addresses", ["localhost", "127.0.0.1:x", ":9092", "", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(addresses):
    with pytest.raises(OperatorError, match="is not a broker address"):
        kafka_client.connect(kafka_client.AdminClient, addresses)


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
