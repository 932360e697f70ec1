"""The voters of the metadata quorum (REPLICATION RAFT-40): who they are, and their record in log and snapshots."""

from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as wire
from kio.static.primitive import i16, u16

from esp.model.ids import ZERO_UUID, DirectoryId, NodeId

KRAFT_VERSION = 1
"""Voters stand in the log, with their directory ids (KIP-853)."""


class VoterKey(NamedTuple):
    """Who votes: a node with the disk it voted with. The same node with another disk is not the voter it was (RAFT-3)."""

    node_id: NodeId
    directory_id: DirectoryId


class VoterEndpoint(NamedTuple):
    """Where a voter listens for the other controllers."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter, and where it is found."""

    key: VoterKey
    endpoints: tuple[VoterEndpoint, ...]


@dataclass(frozen=True, slots=True)
class VoterSet:
    """All voters, by id."""

    voters: tuple[Voter, ...]

    def keys(self) -> frozenset[VoterKey]:
        """Who may vote."""
        return frozenset(voter.key for voter in self.voters)

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
