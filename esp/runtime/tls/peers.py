"""The peers of an endpoint that have proved certificates, with their connections: no connection outlives its peer's certificate.

A connection ends when a certificate of its peer's chain ends, by the wall clock, and when the chain no longer satisfies the trust store
in force: its authority is gone from the store, or has revoked it. Chains are held against a store beside the loop, once for each
chain and store, however many connections rest on the chain. A connection that became secure by an older store is looked at again too.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol, TypeAlias

from cryptography import x509

from esp.model.shown_names import in_line
from esp.runtime.tls.stores import Trust

log = logging.getLogger(__name__)

Chain: TypeAlias = tuple[bytes, ...]
"""Certificates in DER, the peer's own first, each followed by that of its issuer."""


def read_certificate(der: bytes) -> x509.Certificate:
    """Return a certificate.

    Raises:
        ValueError: it is malformed, or of a version of X.509 that there is not, which OpenSSL takes.
    """
    try:
        return x509.load_der_x509_certificate(der)
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error


class Ended(Protocol):
    """A connection that can be ended."""

    def abort(self) -> None:
        """End it now."""


class _Peer:
    """The connections that rest on one chain."""

    __slots__ = ("connections", "ends", "subject", "trust")

    def __init__(self, subject: str, ends: datetime, trust: Trust | None) -> None:
        self.connections: set[Ended] = set()
        self.subject = subject
        self.ends = ends
        self.trust = trust
        """The store that all of the connections have been held against; another one than that in force asks for a look."""


class Peers:
    """The peers of one endpoint.

    Args:
        endpoint: its name, for the log.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._by_chain: dict[Chain, _Peer] = {}
        self._chains: dict[Ended, Chain] = {}
        self.ended = 0
        """The number of connections that were ended with their peers' certificates."""

    def add(self, connection: Ended, chain: Chain, trust: Trust | None) -> None:
        """Note a connection that has become secure.

        Args:
            connection: the connection.
            chain: the chain of its peer.
            trust: the store that the chain has satisfied.

        Raises:
            ConnectionAbortedError: OpenSSL takes a certificate of the chain that is malformed, so that its end cannot be read.
        """
        peer = self._by_chain.get(chain)
        if peer is None:
            try:
                certificates = [read_certificate(each) for each in chain]
            except ValueError as error:
                log.warning("the listener %s refuses a certificate that cannot be read: %s", self._endpoint, error)
                raise ConnectionAbortedError("a certificate of its chain cannot be read") from error
            subject = certificates[0].subject.rfc4514_string()
            ends = min(certificate.not_valid_after_utc for certificate in certificates)
            peer = self._by_chain[chain] = _Peer(subject, ends, trust)
        elif peer.trust is not trust:
            peer.trust = None
        peer.connections.add(connection)
        self._chains[connection] = chain

    def discard(self, connection: Ended) -> None:
        """Forget a connection that has ended, if it is known."""
        chain = self._chains.pop(connection, None)
        if chain is not None:
            connections = self._by_chain[chain].connections
            connections.discard(connection)
            if not connections:
                del self._by_chain[chain]

    def end_expired(self, now: datetime) -> None:
        """End the connections whose peers' certificates have ended."""
        expired = [chain for chain, peer in self._by_chain.items() if peer.ends <= now]
        self.end(dict.fromkeys(expired, "a certificate of its chain has ended"))

    def not_held_against(self, trust: Trust) -> list[Chain]:
        """The chains that have to be held against a store."""
        return [chain for chain, peer in self._by_chain.items() if peer.trust is not trust]

    def set_held_against(self, trust: Trust, chains: Iterable[Chain]) -> None:
        """Note chains that satisfy a store."""
        for chain in chains:
            peer = self._by_chain.get(chain)
            if peer is not None:
                peer.trust = trust

    def end(self, reasons: Mapping[Chain, str]) -> None:
        """End the connections that rest on some chains, for reasons in words."""
        for chain, reason in reasons.items():
            peer = self._by_chain.get(chain)
            if peer is None:
                continue
            log.warning(
                "the listener %s ends %d connections of %s: %s",
                self._endpoint,
                len(peer.connections),
                in_line(peer.subject),
                reason,
            )
            self.ended += len(peer.connections)
            for connection in tuple(peer.connections):
                self.discard(connection)
                connection.abort()
