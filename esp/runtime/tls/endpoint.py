"""The encrypted connections of one policy: those that are accepted by its terms, and those that are made.

The files of the policy's stores are watched. Changed ones are read and tried beside the loop; then new connections go by them, while those
that there are go on, unless their peers are trusted no longer. Files that cannot be used are refused with an error in the log, and the
contents that were read before stay in force.
"""

import asyncio
import importlib
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from esp.model.errors import OperatorError
from esp.model.tls import TlsPolicy, TlsStatus
from esp.ports.network import Address, Connection, ConnectionOwner
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.loop_shares import LoopShares
from esp.runtime.tls.chains import proved_chain
from esp.runtime.tls.contexts import TlsContexts, load_contexts_blocking
from esp.runtime.tls.file_watch import FileWatch
from esp.runtime.tls.peers import Chain, Peers
from esp.runtime.tls.stores import Trust, check_successor
from esp.runtime.tls.tls_connection import TlsConnection, TlsParts

log = logging.getLogger(__name__)


_JUDGEMENT: Final = "esp.runtime.tls.judgement"  # loaded when a trust store has changed

WATCH_S: Final = 2.0
"""The interval between two looks at the files: a change is taken after two of them."""


class TlsEndpoint:
    """Both ends of a policy's connections.

    Args:
        policy: the terms.
        parts: what the network's TLS connections share.

    Raises:
        OperatorError: the policy's stores cannot be used.
    """

    def __init__(self, policy: TlsPolicy, parts: TlsParts) -> None:
        self._policy = policy
        self._parts = parts
        locations = (policy.key_store.location, policy.trust_store.location)
        self._files = FileWatch(location for location in locations if location)
        self.contexts: TlsContexts = load_contexts_blocking(policy)
        """The contexts of new connections."""
        self._peers = Peers(policy.listener)
        self._failures = 0
        self._reading = asyncio.Lock()

    @property
    def status(self) -> TlsStatus | None:
        """The connections so far; None of a mere client."""
        if self.contexts.identity is None:
            return None
        certificate = self.contexts.identity.certificate
        ends_s = int(certificate.not_valid_after_utc.timestamp())
        lists_end = self.contexts.trust.revocations_end if self.contexts.trust is not None else None
        lists_end_s = None if lists_end is None else int(lists_end.timestamp())
        return TlsStatus(self._policy.listener, ends_s, self._failures, self._peers.ended, lists_end_s)

    def watch(self) -> None:
        """Look at the files again and again until the running loop ends; what goes wrong goes wrong in a callback of the loop."""
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name=f"TLS of {self._policy.listener}")
        self._watching.add_done_callback(lambda watching: None if watching.cancelled() else watching.result())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_S)
            self._peers.end_expired(datetime.now(UTC))
            async with self._reading:
                contexts = await loop.run_in_executor(None, self.read_changes_blocking)
                if contexts is not None:
                    self._use(contexts)
            trust = self.contexts.trust
            chains = [] if trust is None else self._peers.not_held_against(trust)
            if trust is not None and chains:
                untrusted = await loop.run_in_executor(None, _find_untrusted_blocking, trust, chains)
                self._peers.end({chain: f"it is trusted no longer: {reason}" for chain, reason in untrusted.items()})
                self._peers.set_held_against(trust, chains)

    async def reload(self, *, validate_only: bool) -> None:
        """Read the files now, whether they have changed or not, and use them unless they are only to be tried.

        Raises:
            OperatorError: they cannot be used.
        """
        async with self._reading:
            contexts = await asyncio.get_running_loop().run_in_executor(None, self._read_blocking)
            if not validate_only:
                self._use(contexts)

    def read_changes_blocking(self) -> TlsContexts | None:
        """Return what the files hold if they have changed and can be used; otherwise None."""
        if not self._files.is_changed_blocking():
            return None
        try:
            return self._read_blocking()
        except OperatorError as error:
            log.error(
                "the changed files are refused, and those read before stay in force. %s. %s",
                error.problem,
                error.remedy,
            )
            return None

    def _read_blocking(self) -> TlsContexts:
        """Return what the files hold.

        Raises:
            OperatorError: it cannot be used in place of what was read before.
        """
        contexts = load_contexts_blocking(self._policy)
        if self.contexts.identity is not None and contexts.identity is not None:
            check_successor(self._policy, self.contexts.identity, contexts.identity)
        if contexts.trust == self.contexts.trust:  # so that what was held against it need not be looked at again
            contexts = contexts._replace(trust=self.contexts.trust)
        return contexts

    def _use(self, contexts: TlsContexts) -> None:
        self.contexts = contexts
        if contexts.identity is None:
            log.info("connections to identity providers use the changed trust store")
            return
        log.info(
            "the listener %s uses the changed files: its certificate is %s, until %s",
            self._policy.listener,
            contexts.identity.subject,
            contexts.identity.certificate.not_valid_after_utc,
        )

    def accept(
        self, below: AsyncioConnection, make_owner: Callable[[Connection], ConnectionOwner], shares: LoopShares
    ) -> TlsConnection:
        """Return the owner of a connection that a peer has made."""
        contexts, peer, listener = self.contexts, below.peer, self._policy.listener
        server = contexts.server
        assert server is not None, "a mere client accepts no connections"

        def engine(arrived: ssl.MemoryBIO, leaving: ssl.MemoryBIO) -> ssl.SSLObject:
            return server.wrap_bio(arrived, leaving, server_side=True)

        def fail(reason: str) -> None:
            self._failures += 1
            log.warning("refused a connection of %s to the listener %s: %s", peer, listener, reason)

        timeout_s = self._policy.handshake_timeout_ms / 1000
        trust = contexts.trust
        return TlsConnection(
            below,
            engine,
            self._parts,
            shares,
            make_owner,
            fail,
            partial(self._watch_peer, trust),
            timeout_s,
            is_server=True,
            judge_resumed_blocking=None if trust is None else partial(_judge_resumed_blocking, trust),
        )

    def _watch_peer(self, trust: Trust | None, connection: TlsConnection, engine: ssl.SSLObject) -> Callable[[], None]:
        """End a connection, which is secure now, when its peer's certificates do not count any more; return what forgets it."""
        chain = proved_chain(engine)
        if chain:
            self._peers.add(connection, chain, trust)
        return partial(self._peers.discard, connection)

    def connect(
        self,
        below: AsyncioConnection,
        open_: Callable[[Connection], ConnectionOwner],
        shares: LoopShares,
        address: Address,
        secured: "asyncio.Future[Connection]",
    ) -> TlsConnection:
        """Return the owner of a connection that this node has made; ``secured`` gets the secure connection, or an OSError."""
        contexts = self.contexts

        def engine(arrived: ssl.MemoryBIO, leaving: ssl.MemoryBIO) -> ssl.SSLObject:
            return contexts.client.wrap_bio(arrived, leaving, server_hostname=address.host)

        def open_secured(connection: Connection) -> ConnectionOwner:
            if secured.done():
                raise ConnectionAbortedError("it is no longer waited for")
            owner = open_(connection)
            secured.set_result(connection)
            return owner

        def fail(reason: str) -> None:
            if not secured.done():
                self._failures += 1
                log.warning("no TLS connection to %s: %s", address, reason)
                secured.set_exception(ConnectionAbortedError(f"no TLS connection to {address}: {reason}"))

        timeout_s = self._policy.handshake_timeout_ms / 1000
        try:
            watch = partial(self._watch_peer, contexts.trust)
            return TlsConnection(
                below, engine, self._parts, shares, open_secured, fail, watch, timeout_s, is_server=False
            )
        except ValueError as error:  # the metadata of a cluster may name any host
            fail(f"{address.host!r} is no name that a certificate could be for: {error}")
            raise ConnectionAbortedError("the peer's host has no name") from error


def _find_untrusted_blocking(trust: Trust, chains: Sequence[Chain]) -> dict[Chain, str]:
    judgement = importlib.import_module(_JUDGEMENT)
    untrusted: dict[Chain, str] = judgement.find_untrusted_blocking(trust, chains)
    return untrusted


def _judge_resumed_blocking(trust: Trust, engine: ssl.SSLObject) -> None:
    """Hold the certificates of a session that was resumed against a trust store, as OpenSSL does with those of a new one.

    Clients of TLS 1.2 may resume sessions by an id, which Python cannot switch off; OpenSSL takes their certificates as proved.

    Raises:
        ssl.SSLCertVerificationError: they do not satisfy the store, or one cannot be read.
    """
    chain = proved_chain(engine)
    if not chain:
        return
    try:
        reason = _find_untrusted_blocking(trust, [chain]).get(chain)
    except ValueError:
        reason = "a certificate of its chain cannot be read"
    if reason is not None:
        error = ssl.SSLCertVerificationError(reason)
        error.verify_message = reason
        raise error
