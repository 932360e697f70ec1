"""The voters of the metadata quorum (RAFT-40): their identity, their record in log and snapshots, and the arithmetic of majorities."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as wire
from kio.static.primitive import i16, u16

from esp.model.ids import ZERO_UUID, DirectoryId, NodeId
from esp.ports.network import Address


def is_majority(granted: int, voters: int) -> bool:
    """True if ``granted`` of that many voters are more than half of them."""
    return 2 * granted > voters


def majority_offset(offsets: Iterable[int]) -> int:
    """The greatest offset that a majority has reached, given the offset of each voter, at least one."""
    descending = sorted(offsets, reverse=True)
    return descending[len(descending) // 2]


KRAFT_VERSION = 1
"""Voters stand in the log, with their directory ids (KIP-853)."""


class VoterKey(NamedTuple):
    """A voter's identity: a node with the disk it voted with. The same node with another disk is another voter (RAFT-3, RAFT-45).

    A directory id of zero is an unknown one: static voters have none, and old clients name none.
    """

    node_id: NodeId
    directory_id: DirectoryId

    def is_same(self, other: "VoterKey") -> bool:
        """True if both may be one voter: same node, and no two different directories are known."""
        return self == other or (self.node_id == other.node_id and ZERO_UUID in (self.directory_id, other.directory_id))


class VoterEndpoint(NamedTuple):
    """The address at which a voter listens for the other controllers."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter, and its addresses."""

    key: VoterKey
    endpoints: tuple[VoterEndpoint, ...]

    def find_address(self, listener: str) -> Address | None:
        """The address of the voter's listener of that name; None if it has none."""
        return find_address(self.endpoints, listener)


def find_address(endpoints: tuple[VoterEndpoint, ...], listener: str) -> Address | None:
    """The address of the endpoint of that name; None if there is none."""
    for endpoint in endpoints:
        if endpoint.listener == listener:
            return Address(endpoint.host, endpoint.port)
    return None


@dataclass(frozen=True, slots=True)
class VoterSet:
    """All voters, by id. Empty at an observer that has not fetched yet."""

    voters: tuple[Voter, ...]
    _by_id: dict[NodeId, Voter] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {voter.key.node_id: voter for voter in reversed(self.voters)})

    def keys(self) -> frozenset[VoterKey]:
        """The keys of all voters."""
        return frozenset(voter.key for voter in self.voters)

    def find(self, key: VoterKey) -> Voter | None:
        """The voter that ``key`` stands for; the key of a static voter has no directory, so the node's id decides there."""
        voter = self._by_id.get(key.node_id)
        if voter is None or voter.key == key or voter.key.directory_id == ZERO_UUID:
            return voter
        return None

    def find_node(self, node_id: NodeId) -> Voter | None:
        """The voter of that id, whatever its directory."""
        return self._by_id.get(node_id)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """The set with this voter, in place of one with its id."""
        others = [other for other in self.voters if other.key.node_id != voter.key.node_id]
        return VoterSet(tuple(sorted([*others, voter], key=lambda voter: voter.key)))

    def without(self, key: VoterKey) -> "VoterSet":
        """The set without this voter."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def to_record(self) -> wire.VotersRecord:
        """The set as a control record."""
        return wire.VotersRecord(
            version=i16(0),
            voters=tuple(
                wire.Voter(
                    voter_id=BrokerId(voter.key.node_id),
                    voter_directory_id=voter.key.directory_id,
                    endpoints=tuple(
                        wire.Endpoint(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port))
                        for endpoint in voter.endpoints
                    ),
                    k_raft_version_feature=wire.KRaftVersionFeature(
                        min_supported_version=i16(0), max_supported_version=i16(KRAFT_VERSION)
                    ),
                )
                for voter in self.voters
            ),
        )

    @classmethod
    def from_record(cls, record: wire.VotersRecord) -> "VoterSet":
        """The set that a control record names."""
        return cls(
            tuple(
                Voter(
                    VoterKey(NodeId(voter.voter_id), DirectoryId(voter.voter_directory_id or ZERO_UUID)),
                    tuple(VoterEndpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
                )
                for voter in sorted(record.voters, key=lambda voter: voter.voter_id)
            )
        )
