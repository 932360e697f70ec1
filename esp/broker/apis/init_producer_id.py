"""InitProducerId (22), versions 0-5: an id for an idempotent producer (KIP-98).

A producer that has an id and asks again (KIP-360) gets a new one too: an id with epoch 0 fences nothing and is always right for a producer
without a transactional id. Transactional producers are refused for good: there are no transactions yet (decision 38).
"""

from collections.abc import Coroutine
from typing import Any

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from esp.broker.answer_fields import NO_THROTTLE, NO_TRANSACTIONS
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode


def handle(
    services: Services, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    """Answer from this node's block of ids; once per block that waits for the controller."""
    if message.transactional_id is not None:
        # Kafka refuses the empty id as invalid before it looks for a coordinator.
        error = ErrorCode.invalid_request if not message.transactional_id else NO_TRANSACTIONS
        return _refused(error)
    if (message.producer_id == -1) != (message.producer_epoch == -1) or message.producer_id < -1:
        return _refused(ErrorCode.invalid_request)
    producer_id = services.producer_ids.next_now()
    return _given(producer_id) if producer_id is not None else _wait(services)


async def _wait(services: Services) -> InitProducerIdResponse:
    try:
        return _given(await services.producer_ids.next())
    except ApiError as error:
        return _refused(error.code)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(0),
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=error, producer_id=ProducerId(-1), producer_epoch=i16(-1)
    )
