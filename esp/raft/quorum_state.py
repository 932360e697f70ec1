"""``quorum-state``: the facts that a voter must not forget (RAFT-1): its epoch, and the node that it follows or voted for in it.

The file is Kafka's JSON (``QuorumStateData``): version 1 (KIP-853), or version 0 of quorums with static voters, which knows no directory
ids and lists the voters.
"""

from typing import Final

import msgspec

from esp.model.errors import CorruptionError
from esp.model.ids import NO_NODE, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId, uuid_from_base64, uuid_to_base64

FILE_NAME: Final = "quorum-state"
STATIC_VERSION: Final = 0
VERSION: Final = 1


class QuorumState(msgspec.Struct, frozen=True):
    """The fields of the file.

    ``leader_id`` given means that the election of ``leader_epoch`` is over; a vote that was cast in it is kept.
    """

    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_id: NodeId = NO_NODE
    voted_id: NodeId = NO_NODE
    voted_directory_id: DirectoryId = DirectoryId(ZERO_UUID)
    version: int = VERSION
    """The ``kraft.version`` of the log: 0 for static voters."""
    voters: tuple[NodeId, ...] = ()
    """The static voters, for version 0 only."""

    def encode(self) -> bytes:
        """The file's bytes."""
        if self.version == STATIC_VERSION:
            voters = [_StaticVoter(voter) for voter in self.voters]
            return msgspec.json.encode(
                _StaticFile("", self.leader_id, self.leader_epoch, self.voted_id, 0, voters, STATIC_VERSION)
            )
        return msgspec.json.encode(
            _File(self.leader_id, self.leader_epoch, self.voted_id, uuid_to_base64(self.voted_directory_id), VERSION)
        )

    @classmethod
    def decode(cls, data: bytes) -> "QuorumState":
        """Read the file's bytes.

        Raises:
            CorruptionError: they cannot be understood, or are of another version.
        """
        try:
            version = msgspec.json.decode(data, type=_Version).data_version
            if version == VERSION:
                return _from_file(msgspec.json.decode(data, type=_File))
            if version == STATIC_VERSION:
                return _from_static_file(msgspec.json.decode(data, type=_StaticFile))
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptionError(str(error)) from error
        raise CorruptionError(f"version {version} is not known, only {STATIC_VERSION} and {VERSION}")


class _Version(msgspec.Struct):
    """The field that distinguishes the forms of the file."""

    data_version: int


class _File(msgspec.Struct):
    """The file's own names, in the order in which Kafka writes them."""

    leader_id: int = msgspec.field(name="leaderId")
    leader_epoch: int = msgspec.field(name="leaderEpoch")
    voted_id: int = msgspec.field(name="votedId")
    voted_directory_id: str = msgspec.field(name="votedDirectoryId")
    data_version: int


class _StaticVoter(msgspec.Struct):
    """One of the voters in a file of version 0."""

    voter_id: int = msgspec.field(name="voterId")


class _StaticFile(msgspec.Struct):
    """The file of version 0. Kafka gives the cluster id and the applied offset no meaning any more."""

    cluster_id: str = msgspec.field(name="clusterId")
    leader_id: int = msgspec.field(name="leaderId")
    leader_epoch: int = msgspec.field(name="leaderEpoch")
    voted_id: int = msgspec.field(name="votedId")
    applied_offset: int = msgspec.field(name="appliedOffset")
    current_voters: list[_StaticVoter] = msgspec.field(name="currentVoters")
    data_version: int


def _from_file(file: _File) -> QuorumState:
    return QuorumState(
        LeaderEpoch(file.leader_epoch),
        NodeId(file.leader_id),
        NodeId(file.voted_id),
        DirectoryId(uuid_from_base64(file.voted_directory_id)),
    )


def _from_static_file(file: _StaticFile) -> QuorumState:
    return QuorumState(
        LeaderEpoch(file.leader_epoch),
        NodeId(file.leader_id),
        NodeId(file.voted_id),
        version=STATIC_VERSION,
        voters=tuple(NodeId(voter.voter_id) for voter in file.current_voters),
    )
