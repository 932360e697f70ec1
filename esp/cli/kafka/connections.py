"""The connections of the tools to brokers: kafka-python's connection manager, for clusters of which parts are down.

The library tries the bootstrap servers one after the other, waits for one that hangs until the time for all of them is over, and then asks
any broker of the cluster whatever any broker can answer. Here all bootstrap servers are tried at the same time, and the connection to the
first one that answers serves for all such questions.
"""

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any, Final

from esp.cli.kafka.library import (
    Future,
    KafkaConnectionError,
    KafkaConnectionManager,
    KafkaError,
    KafkaNetClient,
    KafkaNetSocket,
    KafkaTimeoutError,
    NetworkSelector,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

LATE_CONNECT_S: Final = 0.5
"""The time for a connection that is begun when the time of all of them is nearly over."""

_REFUSAL_READ_S: Final = 0.05
_NO_BROKERS_RETRY_S: Final = 0.1

_ERROR_NUMBER: Final = re.compile(r"(\d+) E[A-Z]+")


class NoBrokerError(KafkaError):  # type: ignore[misc]  # the library has no types
    """Raised if no bootstrap server answers; ``reasons`` are in words, without repetition."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons


class SilentBrokerError(KafkaError):  # type: ignore[misc]  # the library has no types
    """A broker did not answer an earlier attempt to connect in time, and is not tried again."""


NO_ANSWER: Final = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    SilentBrokerError,
)
"""The errors that stand for an answer that did not come."""


REFUSED_LOGIN: Final = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
"""The errors of a log-in; the next broker would refuse it, too."""


class _ClosedSockets(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    """The library's sockets, closed when they do not get a connection, which it leaves to the garbage collector.

    The library takes the class from the scheme of its setting ``proxy_url``.
    """

    SCHEMES = ("direct",)

    async def sock_connect(self, net: Any, sock: socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Connections to the brokers of a cluster.

    Args:
        net: the library's loop.
        until_s: the monotonic time at which a broker that has not taken a connection counts as silent, for as long as this object lives;
            None if each attempt has the library's own time-out, after which there may be another one.
        settings: of the library.
    """

    def __init__(self, net: Any, until_s: float | None = None, **settings: Any) -> None:
        super().__init__(net, **{**settings, "proxy_url": "direct://"})
        self._until_s = until_s
        self._entrance: str | None = None
        """The bootstrap server that answered, by the library's id."""
        self._silent: set[int | str] = set()
        self._refusals: dict[int | str, KafkaError] = {}
        """The last refused log-in at each node."""

    async def _do_bootstrap(self, deadline: float) -> bool:
        """Find the cluster through the first bootstrap server that answers.

        Raises:
            NoBrokerError: none does before the deadline.
            KafkaError: one refuses the log-in (:data:`REFUSED_LOGIN`).
        """
        attempts = {}
        for broker in self.cluster.bootstrap_brokers():
            timeout_ms = (deadline - time.monotonic()) * 1000
            attempt = super().get_connection(broker.node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False)
            attempt.init_future.add_both(lambda _: self._bootstrap_wakeup.notify())
            attempts[broker.node_id] = attempt
        reasons: list[str] = []
        while attempts and not self.closed:
            for node_id in [node_id for node_id, attempt in attempts.items() if attempt.init_future.is_done]:
                attempt = attempts.pop(node_id)
                try:
                    await attempt
                    await self._learn_brokers(node_id, deadline)
                except KafkaError as error:
                    attempt.close()
                    refusal = await self._find_refusal(node_id, error)
                    if refusal is not None:
                        for other in attempts.values():
                            other.close()
                        raise refusal from error
                    reasons.append(_reason(error))
                    continue
                for other in attempts.values():
                    other.close()
                self._entrance = node_id
                self.cluster.start_refresh_loop()
                return True
            if attempts:
                await self._bootstrap_wakeup()
        raise NoBrokerError(list(dict.fromkeys(reasons)))

    async def _find_refusal(self, node_id: str, error: KafkaError) -> KafkaError | None:
        """The refusal of the log-in by which a connection has failed, if it has.

        A server ends the connection right after its refusal, and the library tells of the end before it has looked at the refusal.
        """
        if isinstance(error, REFUSED_LOGIN):
            return error
        if self.config["sasl_mechanism"] is not None:
            await self._net.sleep(_REFUSAL_READ_S)
        return self._refusals.get(node_id)

    async def _learn_brokers(self, node_id: str, deadline: float) -> None:
        """Ask a bootstrap server for the brokers, again while it knows none: a broker that has just started.

        Raises:
            KafkaError: it does not answer in time, or still knows none then.
        """
        while True:
            left_s = deadline - time.monotonic()
            await self.wait_for(self.call_soon(self.cluster.refresh_metadata, node_id), left_s * 1000)
            if self.cluster.brokers():
                return
            if left_s <= 0:
                raise KafkaConnectionError("it knows of no broker that is ready")
            await self._net.sleep(_NO_BROKERS_RETRY_S)

    def connect_to_all(self) -> None:
        """Begin to connect to all brokers at the same time, so that the times of the silent ones do not stand in series."""
        for broker in self.cluster.brokers():
            try:
                self.get_connection(broker.node_id)
            except NodeNotReadyError:
                continue

    def get_connection(self, node_id: Any, *arguments: Any, **options: Any) -> Any:
        """Return the connection to a node, which may be about to be made.

        Raises:
            KafkaError: it cannot be made now.
        """
        if node_id in self._silent:
            raise SilentBrokerError(f"broker {node_id} does not answer")
        return super().get_connection(node_id, *arguments, **options)

    async def _connect(self, node: Any, conn: Any, *arguments: Any, timeout_at: float, **options: Any) -> None:
        close = conn.close

        def close_and_remember(error: Exception | None = None) -> Any:
            if isinstance(error, REFUSED_LOGIN):
                self._refusals[node.node_id] = error
            return close(error)

        conn.close = close_and_remember
        await super()._connect(node, conn, *arguments, timeout_at=timeout_at, **options)
        if self._until_s is not None and conn.closed and time.monotonic() >= timeout_at:
            self._silent.add(node.node_id)

    def socket_connection_setup_timeout_ms(self, node_id: Any) -> float:
        """The time for a broker to take a connection and say which requests it serves, in milliseconds."""
        if self._until_s is not None:
            return max(LATE_CONNECT_S, self._until_s - time.monotonic()) * 1000
        return float(super().socket_connection_setup_timeout_ms(node_id))

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None) -> Any:
        """Return the future of an answer."""
        try:
            return super().send(request, node_id, request_timeout_ms)
        except SilentBrokerError as error:
            return Future().failure(error)

    def least_loaded_node(self) -> Any:
        """The broker for a question that any broker can answer: the one that answered first, unless its connection failed since."""
        connection = self._conns.get(self._entrance)
        if self._entrance is None or self._entrance in self._backoff or (connection is not None and connection.paused):
            return super().least_loaded_node()
        return self._entrance


@contextmanager
def network_client(until_s: float | None) -> Iterator[Callable[..., Any]]:
    """A maker of the library's network client with these connections; ``until_s`` as for :class:`Connections`.

    A client of the library whose constructor finds no broker does not close what it made; an error in the block closes it.
    """
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        net = NetworkSelector(**settings)
        made.append(KafkaNetClient(net, Connections(net, until_s, **settings)))
        return made[-1]

    try:
        yield make
    except BaseException:
        for client in made:
            client.close()
        raise


def _reason(error: KafkaError) -> str:
    """The reason for which a server could not be reached, in words: the library gives the name of the system's error."""
    if isinstance(error, KafkaTimeoutError | RequestTimedOutError):
        return os.strerror(errno.ETIMEDOUT)
    text = str(error.args[0]) if error.args else type(error).__name__
    found = _ERROR_NUMBER.fullmatch(text)
    return os.strerror(int(found[1])) if found else text
