"""The quorum as DescribeQuorum describes it (KIP-595, KIP-836, KIP-853)."""

from collections.abc import Sequence
from typing import Any

from kio.schema.describe_quorum.v2 import response as describe
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64, u16

from esp.broker.raft.wire.metadata_partition import PARTITION, TOPIC
from esp.model.errors import ErrorCode
from esp.model.ids import METADATA_TOPIC
from esp.model.now import Now
from esp.raft.leading import QuorumDescription, ReplicaDescription


def only_metadata(topics: Sequence[Any]) -> bool:
    """True if a DescribeQuorum request is about the metadata log alone."""
    return [topic.topic_name for topic in topics] == [METADATA_TOPIC] and [
        partition.partition_index for partition in topics[0].partitions
    ] == [PARTITION]


def describe_answer(
    description: QuorumDescription, now: Now, error: ErrorCode = ErrorCode.none, message: str = ""
) -> describe.DescribeQuorumResponse:
    """The answer to a DescribeQuorum request.

    Args:
        description: the quorum.
        now: the clocks of the node that described it.
        error: the reason for which a node other than the leader described it.
        message: the same in words.
    """

    def wall_ms(moment_us: int | None) -> i64:
        return i64(-1 if moment_us is None else now.wall_ms - (now.monotonic_us - moment_us) // 1000)

    def states(replicas: Sequence[ReplicaDescription]) -> tuple[describe.ReplicaState, ...]:
        return tuple(
            describe.ReplicaState(
                replica_id=BrokerId(replica.key.node_id),
                replica_directory_id=replica.key.directory_id,
                log_end_offset=i64(replica.log_end_offset),
                last_fetch_timestamp=wall_ms(replica.last_fetch_us),
                last_caught_up_timestamp=wall_ms(replica.last_caught_up_us),
            )
            for replica in replicas
        )

    high_watermark = description.high_watermark
    partition = describe.PartitionData(
        partition_index=PARTITION,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=BrokerId(description.leader_id),
        leader_epoch=i32(description.leader_epoch),
        high_watermark=i64(-1 if high_watermark is None else high_watermark),
        current_voters=states(description.voters),
        observers=states(description.observers),
    )
    nodes = tuple(
        describe.Node(
            node_id=BrokerId(voter.key.node_id),
            listeners=tuple(
                describe.Listener(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port))
                for endpoint in voter.endpoints
            ),
        )
        for voter in description.voter_set.voters
    )
    return describe.DescribeQuorumResponse(
        error_code=error,
        error_message=message,
        topics=(describe.TopicData(topic_name=TOPIC, partitions=(partition,)),),
        nodes=nodes,
    )


def describe_refusal(topics: Sequence[Any], error: ErrorCode, message: str) -> describe.DescribeQuorumResponse:
    """The refusal of a DescribeQuorum request, for each of its partitions: the node does not lead, or a partition is not the log's."""
    return describe.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(
            describe.TopicData(
                topic_name=topic.topic_name,
                partitions=tuple(
                    describe.PartitionData(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=message,
                        leader_id=BrokerId(0),
                        leader_epoch=i32(0),
                        high_watermark=i64(0),
                        current_voters=(),
                        observers=(),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ),
        nodes=(),
    )
