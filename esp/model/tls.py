"""The terms of encrypted connections of one listener, as plain data: settings make them, the network keeps to them.

The files that they name are read by the network (:mod:`esp.runtime.tls`), which may read them again while the node runs.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"
TLS_VERSIONS: Final = (TLS_1_2, TLS_1_3)


class ClientAuth(Enum):
    """The duty of clients to show a certificate (``ssl.client.auth``)."""

    NONE = "none"
    REQUESTED = "requested"
    """A client without one is served as ``User:ANONYMOUS``."""
    REQUIRED = "required"


class StoreType(Enum):
    """The format of a store of keys or certificates (``ssl.keystore.type``, ``ssl.truststore.type``)."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"
    """Kafka's default. Java reads PKCS12 under this name too, and so does this product; real JKS files are refused."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and the certificates that prove whose it is: a file, or texts in PEM.

    Attributes:
        type: the format.
        location: the file, empty for texts.
        password: of the file, empty for none.
        key: the private key in PEM.
        chain: its certificate in PEM, and those of the authorities up to the trusted one.
        key_password: of the private key, empty for none.
    """

    type: StoreType = StoreType.JKS
    location: str = ""
    password: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    chain: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)

    @property
    def is_given(self) -> bool:
        """True if there is one."""
        return bool(self.location or self.key)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The certificates of the authorities that are trusted, and lists of what they have revoked: a file, or a text in PEM."""

    type: StoreType = StoreType.JKS
    location: str = ""
    password: str = field(default="", repr=False)
    certificates: str = field(default="", repr=False)

    @property
    def is_given(self) -> bool:
        """True if there is one; otherwise the system's authorities are trusted."""
        return bool(self.location or self.certificates)


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """The terms of one listener's encrypted connections, for both of their ends: other nodes that connect to it use their own of that name.

    Attributes:
        listener: the listener's name, for messages; empty of a mere client.
        key_store: proves the identity of this node.
        trust_store: says whose certificates are believed.
        client_auth: whether clients show certificates.
        versions: the TLS versions that are spoken, the oldest first.
        ciphers: OpenSSL's names of the suites of TLS 1.2, by preference; empty: OpenSSL's own choice.
        checks_hosts: whether a node that connects holds the other's certificate against the host name that it connects to.
        handshake_timeout_ms: the time until a connection must be agreed upon.
        allows_other_subject: whether a certificate that replaces the present one may have another distinguished name.
        allows_other_hosts: whether it may lack host names that the present one has.
        is_between_nodes: whether nodes of the cluster connect to this listener; then the key store must satisfy the trust store.
        principal_rules: make a principal's name of the name in a client's certificate (``ssl.principal.mapping.rules``).
    """

    listener: str
    key_store: KeyStore = KeyStore()
    trust_store: TrustStore = TrustStore()
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = TLS_VERSIONS
    ciphers: tuple[str, ...] = ()
    checks_hosts: bool = True
    handshake_timeout_ms: int = 10_000
    allows_other_subject: bool = False
    allows_other_hosts: bool = False
    is_between_nodes: bool = False
    principal_rules: str = "DEFAULT"

    @property
    def owner(self) -> str:
        """The subject of messages: the listener, or the client."""
        return f"The listener {self.listener}" if self.listener else "The client"


class TlsStatus(NamedTuple):
    """The encrypted connections of one listener, counted since the node started."""

    listener: str
    certificate_ends_s: int
    """The time at which the listener's own certificate ends, in seconds of the epoch."""
    failures: int
    """Connections that did not become secure, of either end."""
    ended: int
    """Connections that were ended with their peers' certificates."""
    revocations_end_s: int | None = None
    """The time by which the first of its revocation lists must have been renewed; None without any."""
