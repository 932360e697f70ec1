"""DescribeQuorum's answer says what the leader knows, in wall time."""

import uuid
from types import SimpleNamespace

import pytest

from esp.broker.raft.description import describe_answer, describe_refusal, only_metadata
from esp.model.errors import ErrorCode
from esp.model.ids import DirectoryId, LeaderEpoch, NodeId
from esp.model.now import Now
from esp.protocol.messages import decode_response, encode_response, load_class
from esp.protocol.registry import SERVED, ApiKey
from esp.raft.leading import QuorumDescription, ReplicaDescription
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet


def _through_wire(message):
    frame = encode_response(ApiKey.DESCRIBE_QUORUM, 2, 1, message)
    return decode_response(ApiKey.DESCRIBE_QUORUM, 2, memoryview(frame)[9:])


def test_the_quorum_is_described_in_wall_time():
    keys = [VoterKey(NodeId(number), DirectoryId(uuid.UUID(int=number))) for number in (1, 2, 3)]
    description = QuorumDescription(
        leader_id=NodeId(1),
        leader_epoch=LeaderEpoch(4),
        high_watermark=None,
        voter_set=VoterSet(tuple(Voter(key, (VoterEndpoint("C", "h", 9),)) for key in keys[:2])),
        voters=(ReplicaDescription(keys[0], 9, 2_000_000, 2_000_000), ReplicaDescription(keys[1], 5, 1_500_000, None)),
        observers=(ReplicaDescription(keys[2], 1, 1, 1),),
    )
    answer = _through_wire(describe_answer(description, Now(2_000_000, 50_000)))
    partition = answer.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 4, -1)
    assert [(voter.replica_id, voter.log_end_offset) for voter in partition.current_voters] == [(1, 9), (2, 5)]
    assert [voter.last_fetch_timestamp for voter in partition.current_voters] == [50_000, 49_500]
    assert [voter.last_caught_up_timestamp for voter in partition.current_voters] == [50_000, -1]
    assert partition.observers[0].replica_directory_id == uuid.UUID(int=3)
    assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [(1, 9), (2, 9)]


def test_who_does_not_lead_describes_nothing():
    asked = (SimpleNamespace(topic_name="t", partitions=(SimpleNamespace(partition_index=4),)),)
    [topic] = describe_refusal(asked, ErrorCode.not_leader_or_follower, "no").topics
    [partition] = topic.partitions
    assert (topic.topic_name, partition.partition_index) == ("t", 4), "the client finds what it asked about"
    assert (partition.error_code, partition.leader_id) == (ErrorCode.not_leader_or_follower, 0)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([("__cluster_metadata", [0])], True),
        ([], False),
        ([("__cluster_metadata", [0, 1])], False),
        ([("t", [0])], False),
        ([("__cluster_metadata", [0]), ("t", [0])], False),
    ],
)
def test_only_the_metadata_log_has_a_quorum(topics, expected):
    module = __import__(load_class(SERVED[ApiKey.DESCRIBE_QUORUM], 2, "request").__module__, fromlist=["TopicData"])
    wanted = [
        module.TopicData(
            topic_name=name, partitions=tuple(module.PartitionData(partition_index=number) for number in numbers)
        )
        for name, numbers in topics
    ]
    assert only_metadata(wanted) is expected
