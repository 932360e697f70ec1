"""A node's listeners of one kind: accepts connections within their limits and ends idle ones."""

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from esp.broker.connections.connection_limits import ConnectionCounts, ConnectionLimits
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.connections.session import Session
from esp.broker.quotas.switch import NO_QUOTAS, QuotaSwitch
from esp.broker.request import ClientContext
from esp.broker.turns.request_memory import RequestMemory
from esp.controller.image import ClusterImage
from esp.model.delegation_terms import DelegationTerms
from esp.model.errors import OperatorError
from esp.model.sasl import SaslPolicy
from esp.model.tls import TlsPolicy
from esp.ports.clock import Timer
from esp.ports.env import Env
from esp.ports.network import Address, Connection, ConnectionOwner, Listener

if TYPE_CHECKING:
    from esp.broker.connections.certificate_principals import CertificatePrincipals

log = logging.getLogger(__name__)

_LOGIN_PARTS: Final = "esp.broker.authentication.login_parts"  # these two loaded only where a listener has SASL
_SASL_CONNECTION: Final = "esp.broker.authentication.sasl_connection"
_PRINCIPALS: Final = "esp.broker.connections.certificate_principals"  # loaded only where a listener has certificates

_NO_TOKENS: Final = DelegationTerms()

IDLE_CHECKS_PER_LIMIT: Final = 2
"""A connection is ended between one and one and a half times its idle limit."""


class Served(ConnectionOwner, Protocol):
    """The owner of a client's connection: its session, or, before the client is authenticated, the owner that sees to that."""

    client: ClientContext
    idle_checks: int
    """The number of checks for idle connections since the last read."""

    def close(self, reason: str) -> None:
        """End the connection for a reason of the node's own."""


class UnknownClient(Served, Protocol):
    """The owner of a connection until its client is authenticated."""

    def begin(self) -> None:
        """Serve from now on: the time limit begins."""


class Logins(Protocol):
    """The parts that listeners with SASL share (:class:`esp.broker.authentication.login_parts.LoginParts`)."""

    @property
    def counts(self) -> Mapping[tuple[str, str, bool], int]:
        """The log-ins that have ended, by listener, mechanism, and whether they succeeded."""

    def prepare_blocking(self, policy: SaslPolicy) -> None:
        """Make ready for the clients of a listener."""

    def follow(self, image: Callable[[], ClusterImage], tokens: DelegationTerms) -> None:
        """Use the credentials and the delegation tokens that stand in the metadata."""

    async def close(self) -> None:
        """End what is at work for log-ins."""


class Server:
    """Serves the dispatcher's APIs on any number of listeners.

    Args:
        env: the outside.
        dispatcher: handles requests.
        limits: of connections and frames.
        quotas: those of clients of these listeners.
    """

    def __init__(
        self,
        env: Env,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        quotas: QuotaSwitch = NO_QUOTAS,
    ) -> None:
        self._env = env
        self._dispatcher = dispatcher
        self._idle_max_ms = limits.idle_max_ms
        self._memory = RequestMemory(limits.queued_max_bytes)
        self._listeners: dict[str, Listener] = {}
        self._sessions: dict[Served, None] = {}
        self.counts = ConnectionCounts(limits)
        """The connections that there are, and those that there may be."""
        self._quotas = quotas
        self._waiting: list[Callable[[], None]] | None = []
        self._logins: Logins | None = None
        self._idle_timer: Timer | None = None
        if limits.idle_max_ms > 0:
            self._schedule_idle_check()

    @property
    def log_ins(self) -> Mapping[tuple[str, str, bool], int]:
        """The log-ins that have ended, by listener, mechanism, and whether they succeeded."""
        return {} if self._logins is None else self._logins.counts

    @property
    def limits(self) -> ConnectionLimits:
        """The limits for new connections."""
        return self.counts.limits

    @limits.setter
    def limits(self, limits: ConnectionLimits) -> None:
        self.counts.limits = limits

    async def listen(
        self, name: str, address: Address, tls: TlsPolicy | None = None, sasl: SaslPolicy | None = None
    ) -> Address:
        """Bind a listener and return the address with its real port; connections wait until :meth:`open`.

        Args:
            name: the listener's.
            address: where.
            tls: the terms of its encryption; None for plaintext.
            sasl: the terms on which its clients are authenticated; None if they are not, or by their certificates.

        Raises:
            OperatorError: the address cannot be bound, or a file of keys cannot be used.
        """
        accept: Callable[[Connection], ConnectionOwner] = partial(self._accept, name)
        if sasl is not None:
            accept = self._acceptor_with_sasl(name, sasl)
        elif tls is not None:
            principals = importlib.import_module(_PRINCIPALS).CertificatePrincipals(tls.principal_rules)
            accept = partial(self._accept_secured, name, principals)
        try:
            listener = await self._env.network.listen(address, accept, tls)
        except OSError as error:
            raise OperatorError(
                f"Cannot listen on {name}://{address}: {error.strerror or error}",
                "Stop the process that uses that port, or set another address in `listeners`.",
            ) from error
        self._listeners[name] = listener
        return listener.address

    def _acceptor_with_sasl(self, listener: str, policy: SaslPolicy) -> Callable[[Connection], ConnectionOwner]:
        if self._logins is None:
            self._logins = importlib.import_module(_LOGIN_PARTS).LoginParts(self._env, self._dispatcher)
        make: Callable[..., UnknownClient] = importlib.import_module(_SASL_CONNECTION).SaslConnection
        parts = self._logins
        parts.prepare_blocking(policy)

        def accept(connection: Connection) -> ConnectionOwner:
            client = self._admit(listener, connection)
            owner = make(connection, client, policy, parts, self._take_over, self._on_end)
            self._serve(owner, connection, owner.begin)
            return owner

        return accept

    def _take_over(self, before: Served, connection: Connection) -> Session:
        """Return the session that owns a connection whose client has been authenticated."""
        session = self._session(connection, before.client)
        del self._sessions[before]
        self._sessions[session] = None
        return session

    def _accept_secured(
        self, listener: str, principals: "CertificatePrincipals", connection: Connection
    ) -> ConnectionOwner:
        session = self._accept(listener, connection)
        connection.on_secured = partial(principals.authenticate, session.client)
        return session

    def _accept(self, listener: str, connection: Connection) -> Session:
        session = self._session(connection, self._admit(listener, connection))
        self._serve(session, connection)
        return session

    def _admit(self, listener: str, connection: Connection) -> ClientContext:
        """Return what is known of a new client.

        Raises:
            ConnectionAbortedError: there are too many.
        """
        ip = connection.peer.host
        enforcer = self._quotas.enforcer
        excess = self.counts.find_excess(listener, ip)
        if excess is None and enforcer is not None and not enforcer.admits_connection(ip):
            excess = "the quota of its address (connection_creation_rate)"
        elif pause_ms := self.counts.pause_ms(listener, self._env.clock.monotonic_us() // 1000):
            self._listeners[listener].pause(pause_ms * 1000)
        if excess is not None:
            log.warning("refused a connection of %s: too many connections for %s", connection.peer, excess)
            raise ConnectionAbortedError("too many connections")
        if self.counts.takes_a_place(listener):
            self._end_idlest(listener)
        return ClientContext(listener, connection.peer)

    def _end_idlest(self, listener: str) -> None:
        """End the connection, of those to other listeners, that has been idle for longest; of several the oldest."""
        others = [session for session in self._sessions if session.client.listener != listener]
        if others:
            idlest = max(others, key=lambda session: session.idle_checks)
            log.warning("ending a connection of %s, as other brokers need it: max.connections", idlest.client.address)
            idlest.close("other brokers need its place")

    def _session(self, connection: Connection, client: ClientContext) -> Session:
        return Session(
            connection,
            client,
            self._dispatcher,
            self._env.clock,
            self.limits.frame_max_bytes,
            self._memory,
            self._on_end,
            self._quotas,
        )

    def _serve(self, owner: Served, connection: Connection, begin: Callable[[], None] | None = None) -> None:
        """Count a new connection; until :meth:`open` it waits.

        Args:
            owner: of the connection.
            connection: it.
            begin: called when the connection is served.
        """
        self._sessions[owner] = None
        self.counts.add(owner.client.listener, owner.client.address.host)
        if self._waiting is not None:
            connection.pause_reading()
            self._waiting.append(connection.resume_reading)
            if begin is not None:
                self._waiting.append(begin)
        elif begin is not None:
            begin()

    @property
    def connection_count(self) -> int:
        """The number of clients that are connected."""
        return len(self._sessions)

    def clients(self) -> Iterator[ClientContext]:
        """The clients that are connected."""
        for session in self._sessions:
            yield session.client

    def open(self, image: Callable[[], ClusterImage] | None = None, tokens: DelegationTerms = _NO_TOKENS) -> None:
        """Serve requests from now on.

        Args:
            image: returns the newest metadata, for the credentials of users; None if there is none.
            tokens: the node's terms of delegation tokens.
        """
        if self._logins is not None and image is not None:
            self._logins.follow(image, tokens)
        waiting, self._waiting = self._waiting or (), None
        for go_on in waiting:
            go_on()

    def _on_end(self, session: Served) -> None:
        del self._sessions[session]
        self.counts.remove(session.client.listener, session.client.address.host)

    def _schedule_idle_check(self) -> None:
        self._idle_timer = self._env.clock.call_later_us(
            self._idle_max_ms * 1000 // IDLE_CHECKS_PER_LIMIT, self._close_idle
        )

    def _close_idle(self) -> None:
        for session in tuple(self._sessions):
            session.idle_checks += 1
            if session.idle_checks > IDLE_CHECKS_PER_LIMIT:
                session.close("idle for too long")
        self._schedule_idle_check()

    async def close(self) -> None:
        """Accept nothing more and end all connections."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for listener in self._listeners.values():
            await listener.close()
        for session in tuple(self._sessions):
            session.close("the node is shutting down")
        if self._logins is not None:
            await self._logins.close()
