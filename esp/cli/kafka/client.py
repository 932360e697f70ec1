"""The connection of the tools to brokers, and the translation of its errors.

Errors of the client library leave the modules of this package as :class:`~esp.model.errors.OperatorError`, which the tools print together
with the remedy. A refusal whose code matters to a tool is a :class:`~esp.cli.kafka.answers.RefusedError`, a subclass.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from esp.cli.kafka.answers import QuorumInfo, RefusedError, quorum_info
from esp.cli.kafka.command_config import settings_for
from esp.cli.kafka.connections import NO_ANSWER, REFUSED_LOGIN, NoBrokerError, network_client
from esp.cli.kafka.library import (
    BrokerResponseError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    DescribeQuorumRequest,
    IncompatibleBrokerVersion,
    KafkaAdminClient,
    KafkaConnectionError,
    KafkaError,
    MetadataRequest,
    NodeNotReadyError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    RequestTimedOutError,
    error_for_code,
)
from esp.cli.kafka.login import refused_login
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import METADATA_TOPIC

CONNECT_TIMEOUT_S: Final = 5.0
CONTROLLER_TIMEOUT_S: Final = 2.0
"""The time for a broker to forward a request to the active controller: a broker itself would look for a controller for half a minute."""
BOOTSTRAP_TIMEOUT_MS: Final = 10_000
LOOK_TIMEOUT_S: Final = 3.0
"""The time that a command that only looks waits for servers that do not answer, all together: its output is there within 5 s."""
PORT_MAX: Final = 65_535
ATTEMPTS_MAX: Final = 10
RETRY_BACKOFF_S: Final = 0.1
MOVE_TIMEOUT_S: Final = 15.0
"""The wait for a coordinator or leader that is being found, or is loading its state: a little more than an election takes."""

_REMEDY: Final = "Start one with `esp broker`, or name another with --bootstrap-server HOST:PORT."
_MOVES: Final = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
)


def parse_servers(servers: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of bootstrap servers.

    Raises:
        OperatorError: one is not an address.
    """
    found: list[tuple[str, int]] = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal() or int(port) > PORT_MAX:
            raise OperatorError(
                f"{server!r} is not a broker address",
                "Write HOST:PORT, for example 127.0.0.1:9092; several separated by commas.",
            )
        found.append((host.strip("[]"), int(port)))
    return found


def no_broker(servers: str, reasons: Iterable[str]) -> OperatorError:
    """The error of a command that finds no broker."""
    return OperatorError(f"no broker answers at {servers}: {', '.join(dict.fromkeys(reasons))}", _REMEDY)


def connect(kind: Callable[..., Any], servers: str, *, until_s: float | None = None, **settings: Any) -> Any:
    """Return a client of the library that has found the cluster, with the settings of the command that goes on.

    Args:
        kind: the class of the client; its ``DEFAULT_CONFIG`` has the settings that it knows.
        servers: bootstrap servers, ``HOST:PORT`` separated by commas.
        until_s: as for :class:`~esp.cli.kafka.connections.Connections`.
        settings: over the command's.

    Raises:
        OperatorError: no broker answers, or an address is none.
    """
    parse_servers(servers)
    known = kind.DEFAULT_CONFIG  # type: ignore[attr-defined]  # the library has no types
    timeout_ms = BOOTSTRAP_TIMEOUT_MS if until_s is None else (until_s - time.monotonic()) * 1000
    with told_to_the_operator(servers), network_client(until_s) as make_client:
        return kind(
            bootstrap_servers=servers.split(","),
            kafka_client=make_client,
            **{"bootstrap_timeout_ms": timeout_ms, **settings_for(known), **settings},
        )


@contextmanager
def told_to_the_operator(servers: str) -> Iterator[None]:
    """Turn kafka-python's errors into what the operator is told."""
    try:
        yield
    except IncompatibleBrokerVersion as error:
        raise OperatorError(
            f"the broker at {servers} does not support a request that this command needs: {error}",
            "Use a release of the broker that supports it.",
        ) from error
    except REFUSED_LOGIN as error:
        raise refused_login(servers, str(error.args[0] if error.args else error)) from error
    except NoBrokerError as error:
        raise no_broker(servers, error.reasons) from error
    except NO_ANSWER as error:
        raise OperatorError(
            f"a broker of the cluster at {servers} does not answer: {error}",
            "See which brokers answer: esp brokers list. Then start those that do not.",
        ) from error
    except BrokerResponseError as error:
        raise OperatorError(
            f"the broker refused: {error}", f"See the log of the broker at {servers} for more."
        ) from error
    except KafkaError as error:
        raise OperatorError(f"the broker at {servers} sent an unexpected response: {error}", _REMEDY) from error


def ask_again(
    question: Callable[[], Any], forget: Callable[[], None] = lambda: None, until_s: float | None = None
) -> Any:
    """The answer to something that may be asked twice.

    The client may have picked a broker that has died a moment ago; what the broker was asked about may be on its way to another.

    Args:
        question: asks.
        forget: called before another broker is looked for.
        until_s: the monotonic time at which a coordinator or leader is no longer waited for, if that is sooner than usual.
    """
    attempts = 0
    deadline_s = time.monotonic() + MOVE_TIMEOUT_S
    if until_s is not None:
        deadline_s = min(deadline_s, until_s)
    while True:
        try:
            return question()
        except (KafkaConnectionError, NodeNotReadyError):
            attempts += 1
            if attempts >= ATTEMPTS_MAX:
                raise
            forget()
        except _MOVES:
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(RETRY_BACKOFF_S)


def check_code(code: int, message: str | None = None) -> None:
    """Look at the error code of an answer, or of a part of it.

    Raises:
        RefusedError: it is an error.
        KafkaError: it is one that :func:`ask_again` waits out.
    """
    if code != ErrorCode.none:
        kind = error_for_code(code)
        if kind in _MOVES:
            raise kind(message or "")
        raise RefusedError(ErrorCode(code), message)


class AdminClient(KafkaAdminClient):  # type: ignore[misc]  # the library has no types
    """kafka-python's admin client, which can also be given a request as it is: its own methods drop error codes of some answers."""

    def send(self, request: Any, node_id: int | None, timeout_s: float | None = None) -> Any:
        """Return a broker's answer; of any broker, if none is named; within the client's own time-out, if no other is given."""
        timeout_ms = None if timeout_s is None else timeout_s * 1000
        return self._manager.run(lambda: self._manager.send(request, node_id=node_id, request_timeout_ms=timeout_ms))

    def send_to_each(self, request: Callable[[], Any], nodes: Iterable[int]) -> dict[int, Any]:
        """Send a request to brokers at the same time; return each answer as a mapping, or the :class:`KafkaError` in its place."""

        async def run() -> dict[int, Any]:
            futures: dict[int, Any] = {}
            found: dict[int, Any] = {}
            for node in nodes:
                try:
                    futures[node] = self._manager.send(request(), node_id=node)
                except KafkaError as error:
                    found[node] = error
            for node, future in futures.items():
                try:
                    found[node] = (await future).to_dict()
                except KafkaError as error:
                    found[node] = error
            return found

        return dict(self._manager.run(run))

    def connect_to_all(self) -> None:
        """Begin to connect to all brokers; a command that asks several of them waits for the silent ones at the same time."""
        self._manager.call_soon(self._manager.connect_to_all)

    def reach(self) -> None:
        """Look for a broker that takes changes, and see that it answers.

        Raises:
            KafkaError: the one that was tried does not.
        """
        self._controller_id = self._manager.run(self._refresh_controller_id)
        self.send(MetadataRequest(topics=[]), self._controller_id)

    def forget(self) -> None:
        """Forget the broker that takes changes, and the coordinators of groups."""
        self._controller_id = None
        self._manager.cluster._coordinators.clear()  # noqa: SLF001 - the library never forgets one that has died


class NoControllerError(OperatorError):
    """Raised if no active controller answers: the quorum has no majority, or it elects a leader just now.

    Args:
        waited_s: the time for which an answer was waited for.
        known: the quorum as the broker knows it that was asked, if it tells.
    """

    def __init__(self, waited_s: float, known: QuorumInfo | None = None) -> None:
        super().__init__(
            f"no active controller answered within {max(1, round(waited_s))} s",
            "Start controllers until a majority of the voters runs, or wait until an election ends, and try again.",
        )
        self.known = known


def ask_controller(request: Any, client: AdminClient) -> Any:
    """The active controller's answer to a question, which any broker passes on.

    Raises:
        NoControllerError: it did not come in time.
        RefusedError: it is an error.
    """
    begun_s = time.monotonic()
    try:
        told = client.send(request, None, CONTROLLER_TIMEOUT_S).to_dict()
    except RequestTimedOutError as error:
        raise NoControllerError(CONTROLLER_TIMEOUT_S) from error
    if told["error_code"] == ErrorCode.request_timed_out:
        raise NoControllerError(
            time.monotonic() - begun_s, quorum_info(told) if isinstance(request, DescribeQuorumRequest) else None
        )
    check_code(told["error_code"], told["error_message"])
    return told


def ask_for_quorum(client: AdminClient) -> QuorumInfo:
    """The metadata quorum as its leader sees it.

    Raises:
        NoControllerError: it did not answer in time.
        RefusedError: it refused.
    """
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=0)]
    request = DescribeQuorumRequest(topics=[topic(topic_name=METADATA_TOPIC, partitions=partitions)])
    return quorum_info(ask_controller(request, client))


class AdminConnection:
    """A connection for questions and changes. A context manager.

    Args:
        servers: bootstrap servers, ``HOST:PORT`` separated by commas.
        within_s: the time after which a command that only looks waits no longer for servers that do not answer, all together; None for
            a command that makes changes, which tries longer.

    Raises:
        OperatorError: on entry and in every method: no broker answers, or it refuses.
    """

    asks_all: ClassVar = False
    """True if a command that only looks asks all brokers, so that the connections to them are begun together."""

    def __init__(self, servers: str, within_s: float | None = None) -> None:
        self._servers = servers
        self._until_s = None if within_s is None else time.monotonic() + within_s
        self._client: Any = None

    def __enter__(self) -> Self:
        self._client = connect(AdminClient, self._servers, until_s=self._until_s)
        if self.asks_all and self._until_s is not None:
            self._client.connect_to_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def broker_ids(self) -> list[int]:
        """Return the ids of the brokers that are there, sorted."""
        told = self._ask(lambda client: client.describe_cluster())
        return sorted(broker["broker_id"] for broker in told["brokers"] if not broker.get("is_fenced"))

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        """Put a question to the client, more than once if need be."""
        with told_to_the_operator(self._servers):
            return ask_again(lambda: question(self._client), self._client.forget, self._until_s)

    def _change(self, order: Callable[[Any], Any]) -> Any:
        """Give the client an order, which comes to the same if it is given twice: if a broker dies over it, another one gets it."""
        with told_to_the_operator(self._servers):
            ask_again(self._client.reach, self._client.forget)
            return ask_again(lambda: order(self._client), self._client.forget)

    def _change_once(self, order: Callable[[Any], Any]) -> Any:
        """Give the client an order, which is not given twice; before that a broker is found that is alive."""
        with told_to_the_operator(self._servers):
            ask_again(self._client.reach, self._client.forget)
            return order(self._client)
