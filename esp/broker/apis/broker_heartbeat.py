"""BrokerHeartbeat (63), versions 0-2: a broker lives, and reports the state that it wants (BRK-4, BRK-5, BRK-7)."""

from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.controller.heartbeats import Heartbeat
from esp.controller.offset_floors import FinalEnd
from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID, BrokerEpoch, DirectoryId, NodeId, TopicId
from esp.protocol.broker_heartbeat import BrokerHeartbeatRequest


async def handle_at_controller(
    services: ControllerServices, request: Request, message: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Answer with what the broker may do; the end of the connection will be taken for a sign that it is gone (FAST-1)."""
    heartbeat = Heartbeat(
        node_id=NodeId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        offline_log_dirs=tuple(DirectoryId(directory or ZERO_UUID) for directory in message.offline_log_dirs),
        final_ends=tuple(
            FinalEnd(end.topic, TopicId(end.topic_id or ZERO_UUID), end.partition, end.end_offset)
            for end in message.final_ends
        ),
    )
    reply = await services.controller.heartbeat(heartbeat, request.client)
    return BrokerHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        is_caught_up=reply.caught_up,
        is_fenced=reply.fenced,
        should_shut_down=reply.should_shut_down,
    )
