"""A node that catches up with the metadata log, for changes that must count at the node that answers them (AUTHZ-2).

The leader of the quorum has all that is committed in its log, so the node waits for the end of that. To wait for what was changed would
not do: a rule that is to be gone is missing, too, in metadata that are older than the rule.
"""

from typing import Final

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.broker.services import Services
from esp.broker.waiting import time_limit
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import METADATA_TOPIC
from esp.protocol.registry import ApiKey

FOLLOW_TIMEOUT_MS: Final = 5_000
"""The time for :func:`until_follows`."""

_THE_METADATA_LOG: Final = DescribeQuorumRequest(
    topics=(TopicData(topic_name=TopicName(METADATA_TOPIC), partitions=(PartitionData(partition_index=i32(0)),)),)
)


async def until_follows(services: Services) -> None:
    """Wait until this node has applied all that was committed before the call.

    Raises:
        ApiError: REQUEST_TIMED_OUT: the change is made, and this node may not follow yet.
    """
    try:
        async with time_limit(services.env.clock, FOLLOW_TIMEOUT_MS):
            quorum = await services.controller.call(
                ApiKey.DESCRIBE_QUORUM, _THE_METADATA_LOG, timeout_ms=FOLLOW_TIMEOUT_MS
            )
            ((described,),) = (topic.partitions for topic in quorum.topics)
            end_offset = max(
                voter.log_end_offset for voter in described.current_voters if voter.replica_id == described.leader_id
            )
            await services.metadata.until(lambda image: image.offset >= end_offset - 1)
    except TimeoutError as error:
        raise ApiError(
            ErrorCode.request_timed_out, "The change is made, but this node does not follow it yet."
        ) from error
