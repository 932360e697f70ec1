"""The file ``quorum-state``, compared with Kafka's."""

import pytest

from esp.model.errors import CorruptionError
from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.quorum_state import QuorumState
from tests.unit.raft.samples import KAFKA_DIRECTORY

_FROM_KAFKA = (
    b'{"leaderId":5,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)


def test_the_file_has_the_bytes_that_kafka_gives_it():
    state = QuorumState(leader_epoch=LeaderEpoch(1), leader_id=NodeId(5))
    assert state.encode() == _FROM_KAFKA
    assert QuorumState.decode(_FROM_KAFKA) == state


def test_a_vote_is_kept_with_the_directory_that_it_was_given_to():
    state = QuorumState(leader_epoch=LeaderEpoch(7), voted_id=NodeId(5), voted_directory_id=KAFKA_DIRECTORY)
    assert QuorumState.decode(state.encode()) == state


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        _FROM_KAFKA[:-1],
        _FROM_KAFKA.replace(b'"data_version":1', b'"data_version":0'),
        _FROM_KAFKA.replace(b'"leaderEpoch":1', b'"leaderEpoch":"1"'),
        _FROM_KAFKA.replace(b"AAAAAAAAAAAAAAAAAAAAAA", b"x"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(data):
    with pytest.raises(CorruptionError):
        QuorumState.decode(data)


def test_the_file_of_static_voters_has_the_bytes_that_kafka_gives_it():
    data = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    voters = tuple(NodeId(number) for number in (1, 2, 3))
    state = QuorumState(leader_epoch=LeaderEpoch(1), leader_id=NodeId(1), version=0, voters=voters)
    assert state.encode() == data
    assert QuorumState.decode(data) == state
