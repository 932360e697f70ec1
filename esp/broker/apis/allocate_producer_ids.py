"""AllocateProducerIds (67): a broker needs more producer ids (PROD-10)."""

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.controller.producer_ids import decide_producer_id_block
from esp.model.errors import ErrorCode
from esp.model.ids import BrokerEpoch, NodeId


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Answer with a block that no other broker has."""
    node_id, broker_epoch = NodeId(message.broker_id), BrokerEpoch(message.broker_epoch)
    block = await services.controller.commit(
        lambda image: decide_producer_id_block(image, node_id, broker_epoch), "Producer id block"
    )
    return AllocateProducerIdsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id_start=ProducerId(block.start),
        producer_id_len=i32(len(block)),
    )
