"""The protection of a cluster as the doctor sees it: listeners, certificates, and rules of access; as plain data of one moment."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.acl import AclBinding
from esp.model.ids import NodeId

PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"


class OwnProtection(NamedTuple):
    """The settings of one broker."""

    protocols: Mapping[str, str]
    """The security protocol of each of its listeners, by the listener's name."""
    mechanisms: frozenset[str] = frozenset()
    """The SASL mechanisms that it serves."""
    super_users: tuple[str, ...] = ()
    """None are known of a Kafka broker, which does not tell them."""
    has_authorizer: bool = False
    is_open_without_rule: bool = False
    """``allow.everyone.if.no.acl.found``."""
    secrets: tuple[str, ...] = ()
    """Names of passwords that stand in the metadata log, for this broker or for all."""

    @property
    def is_protected(self) -> bool:
        """True if one of its listeners encrypts, or has clients log in."""
        return any(protocol != PLAINTEXT for protocol in self.protocols.values())


class ShownCertificate(NamedTuple):
    """The certificate that a broker shows."""

    broker: NodeId
    address: str
    ends_in_s: int


class LivingToken(NamedTuple):
    """A delegation token, by the time after which it cannot be renewed."""

    token_id: str
    owner: str
    life_s: int
    """The time from its creation to its end."""
    ends_in_s: int


class HashedPassword(NamedTuple):
    """A user's SCRAM credential, as it is described."""

    user: str
    mechanism: str
    iterations: int


class RevocationList(NamedTuple):
    """A list of revoked certificates in a trust store, by the time by which its authority makes the next one."""

    path: str
    authority: str
    ends_in_s: int


class NodeFiles(NamedTuple):
    """The files of one node, as they are found on its host."""

    node: NodeId
    revocations: tuple[RevocationList, ...] = ()
    readable: tuple[str, ...] = ()
    """Files with secrets that users other than the owner and its group may read."""
    readable_metadata: tuple[str, ...] = ()
    """The directory of the metadata log, and the file that begins it, as far as such users may read them."""


class Protection(NamedTuple):
    """The protection of a cluster."""

    brokers: Mapping[NodeId, OwnProtection] = MappingProxyType({})
    """The protection of each broker that answers."""
    certificates: tuple[ShownCertificate, ...] = ()
    """The certificates of the brokers to which the doctor connects over TLS."""
    rules: tuple[AclBinding, ...] = ()
    matches_networks: bool = True
    """True if a network is a rule's host, as with ESP; False if it is a text that no client has, as with Kafka."""
    has_groups: bool = True
    """False if no broker takes groups of clients from their tokens, so that no client has a principal of the type Group."""
    tokens: tuple[LivingToken, ...] = ()
    """The tokens that the doctor's user may see; none without log-in."""
    passwords: tuple[HashedPassword, ...] = ()
    """None are known without the right to see them."""
    files: NodeFiles | None = None
    """The files of the node on whose host the doctor looks; None if the operator does not name its settings."""


UNKNOWN: Final = Protection()
"""The protection of a cluster of which nothing is known."""
