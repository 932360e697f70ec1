"""The family of settings for the node's roles and the voters of the metadata quorum: read, and held against each other as Kafka does."""

from collections.abc import Sequence
from typing import Final

from esp.model.ids import NodeId
from esp.settings.addresses import QuorumServer, QuorumVoter
from esp.settings.broker import BROKER, CONTROLLER
from esp.settings.listeners import parse_address
from esp.settings.setting import FamilyError, SettingError

ROLES_NAME: Final = "process.roles"
VOTERS_NAME: Final = "controller.quorum.voters"
SERVERS_NAME: Final = "controller.quorum.bootstrap.servers"


class QuorumError(FamilyError):
    """The settings of the quorum do not go together."""


def parse_voters(entries: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """Read the entries of ``controller.quorum.voters``; return them by id.

    Raises:
        SettingError: an entry is no ``id@host:port``, or an id stands twice.
    """
    voters: dict[int, QuorumVoter] = {}
    for entry in entries:
        node_id, separator, address = entry.partition("@")
        if not separator or not (node_id.isascii() and node_id.isdigit()):
            raise SettingError("A voter is written id@host:port", entry)
        host, port = parse_address(address)
        voter = QuorumVoter(NodeId(int(node_id)), host, port)
        if voters.setdefault(voter.node_id, voter) != voter:
            raise SettingError(f"Node {node_id} is listed with two addresses", entry)
    return tuple(voters[node_id] for node_id in sorted(voters))


def parse_servers(entries: Sequence[str]) -> tuple[QuorumServer, ...]:
    """Read the entries of ``controller.quorum.bootstrap.servers``.

    Raises:
        SettingError: an entry is no ``host:port``.
    """
    return tuple(dict.fromkeys(QuorumServer(*parse_address(entry)) for entry in entries))


def check_quorum(
    *, node_id: NodeId, roles: Sequence[str], voters: Sequence[QuorumVoter], servers: Sequence[QuorumServer]
) -> None:
    """Check that a node with these roles has its place in the quorum.

    Raises:
        QuorumError: it has not.
    """
    if not roles or len(set(roles)) != len(roles):
        raise QuorumError(ROLES_NAME, "It names broker, controller, or both, each once")
    ids = {voter.node_id for voter in voters}
    shown = ", ".join(map(str, sorted(ids)))
    if voters and CONTROLLER in roles and node_id not in ids:
        raise QuorumError(
            VOTERS_NAME,
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of voters ({shown})",
        )
    if CONTROLLER not in roles and node_id in ids:
        raise QuorumError(
            VOTERS_NAME,
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set of voters ({shown})",
        )
    if roles == (BROKER,) and not voters and not servers:
        raise QuorumError(ROLES_NAME, f"A node with just the 'broker' role must name its controllers in {SERVERS_NAME}")
