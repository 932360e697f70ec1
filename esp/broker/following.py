"""A node that catches up with the metadata log, for changes that must count at the node that answers them (AUTHZ-2).

The leader of the quorum has all that is committed in its log, so the node waits for the end of that. To wait for what was changed would
not do: a rule that is to be gone is missing, too, in metadata that are older than the rule, and a partition whose reassignment is to end
may have begun none there.
"""

from datetime import timedelta
from typing import Final

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.broker.forwarding import within_timeout
from esp.broker.services import Services
from esp.broker.waiting import time_limit
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import METADATA_TOPIC
from esp.protocol.registry import ApiKey

FOLLOW_TIMEOUT_MS: Final = 5_000
"""The time for :func:`until_follows`."""

_LOOK_AGAIN_US: Final = 50_000
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
            await _follow(services)
    except TimeoutError as error:
        raise ApiError(
            ErrorCode.request_timed_out, "The change is made, but this node does not follow it yet."
        ) from error


async def until_follows_or_late(services: Services, timeout: timedelta) -> None:
    """Wait as :func:`until_follows` does; return also when the client's ``timeout`` is over, or the quorum has no leader (decision 8)."""
    await within_timeout(services, _follow(services), timeout)


async def _follow(services: Services) -> None:
    while (end_offset := await _leaders_end(services)) is None:
        await services.env.clock.sleep_us(_LOOK_AGAIN_US)
    await services.metadata.until(lambda image: image.offset >= end_offset - 1)


async def _leaders_end(services: Services) -> int | None:
    """The end of the log of the quorum's leader; None if the answer is of a node that does not lead any more.

    A leader that has removed itself from the voters stands among the observers.
    """
    quorum = await services.controller.call(ApiKey.DESCRIBE_QUORUM, _THE_METADATA_LOG, timeout_ms=FOLLOW_TIMEOUT_MS)
    ((described,),) = (topic.partitions for topic in quorum.topics)
    members = (*described.current_voters, *described.observers)
    ends = [member.log_end_offset for member in members if member.replica_id == described.leader_id]
    return max(ends, default=None)
