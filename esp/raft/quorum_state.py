"""``quorum-state``: what a voter must not forget (RAFT-1): its epoch, and whom it follows or voted for in it.

The file is Kafka's, JSON of version 1 (KIP-853; ``QuorumStateData``). Version 0 belongs to quorums with static voters.
"""

from typing import Final

import msgspec

from esp.model.errors import CorruptionError
from esp.model.ids import NO_NODE, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId, uuid_from_base64, uuid_to_base64

FILE_NAME: Final = "quorum-state"
VERSION: Final = 1


class QuorumState(msgspec.Struct, frozen=True):
    """The fields of the file.

    ``leader_id`` given means that the election of ``leader_epoch`` is over; a vote, if there was one, is then forgotten.
    """

    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_id: NodeId = NO_NODE
    voted_id: NodeId = NO_NODE
    voted_directory_id: DirectoryId = DirectoryId(ZERO_UUID)

    def encode(self) -> bytes:
        """The file's bytes."""
        return msgspec.json.encode(
            _File(self.leader_id, self.leader_epoch, self.voted_id, uuid_to_base64(self.voted_directory_id), VERSION)
        )

    @classmethod
    def decode(cls, data: bytes) -> "QuorumState":
        """What the file says.

        Raises:
            CorruptionError: it says nothing that can be understood, or is of another version.
        """
        try:
            file = msgspec.json.decode(data, type=_File)
            directory_id = uuid_from_base64(file.voted_directory_id)
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptionError(str(error)) from error
        if file.data_version != VERSION:
            raise CorruptionError(f"version {file.data_version} is not known, only {VERSION}")
        return cls(
            LeaderEpoch(file.leader_epoch), NodeId(file.leader_id), NodeId(file.voted_id), DirectoryId(directory_id)
        )


class _File(msgspec.Struct):
    """The file's own names, in the order in which Kafka writes them."""

    leader_id: int = msgspec.field(name="leaderId")
    leader_epoch: int = msgspec.field(name="leaderEpoch")
    voted_id: int = msgspec.field(name="votedId")
    voted_directory_id: str = msgspec.field(name="votedDirectoryId")
    data_version: int
