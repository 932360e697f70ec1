"""Voters and time for tests of the quorum."""

import uuid

from esp.model.ids import DirectoryId, NodeId
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet

KAFKA_DIRECTORY = DirectoryId(uuid.UUID("0d0c7833-c1b3-4e00-8f95-e014ad562d02"))
LOCAL = VoterKey(NodeId(5), KAFKA_DIRECTORY)
VOTERS = VoterSet((Voter(LOCAL, (VoterEndpoint("CONTROLLER", "127.0.0.1", 21292),)),))
NOW_MS = 1_795_000_000_000
