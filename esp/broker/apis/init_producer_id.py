"""InitProducerId (22), versions 0-5: an id for an idempotent producer, or the producer of a transactional id (KIP-98).

An idempotent producer that has an id and asks again (KIP-360) gets a new one too: an id with epoch 0 fences nothing and is always right for
a producer without a transactional id. Transactional producers are the transaction coordinator's; while ``transaction.version`` is 0 they
are refused for good (decision 38).

Permissions are looked at before the request itself. An idempotent producer needs IdempotentWrite on the cluster, or Write on some topic
(KIP-679).
"""

from collections.abc import Coroutine
from typing import Any, Final

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from esp.broker.answer_fields import NO_THROTTLE, milliseconds
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.wire import for_version
from esp.model.acl import CLUSTER_NAME, AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.transactions.requests import InitProducerId, Producer
from esp.transactions.responses import ProducerResult

FENCED_FROM: Final = 4
"""The first version that knows PRODUCER_FENCED (KIP-588)."""


def handle(
    services: Services, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    """Answer from this node's block of ids; once per block that waits for the controller."""
    access, client = services.access, request.client
    is_half_given = (message.producer_id == -1) != (message.producer_epoch == -1)
    if message.transactional_id is not None:
        if access.refuses(
            client, Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id)
        ):
            return _refused(ErrorCode.transactional_id_authorization_failed)
        if is_half_given:
            return _refused(ErrorCode.invalid_request)
        try:
            services.transactions.require_served(message.transactional_id)
        except ApiError as error:
            return _refused(error.code)
        return _transactional(services, request, message, message.transactional_id)
    if not access.allows_any(client, AclOperation.WRITE, ResourceType.TOPIC) and access.refuses(
        client, Permission(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    ):
        return _refused(ErrorCode.cluster_authorization_failed)
    if is_half_given:
        return _refused(ErrorCode.invalid_request)
    producer_id = services.producer_ids.next_now()
    return _given(producer_id) if producer_id is not None else _wait(services)


async def _transactional(
    services: Services, request: Request, message: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    await services.producer_ids.try_to_have_one()
    try:
        coordinator = services.transactions.coordinator_of(transactional_id)
        core = coordinator.core
    except ApiError as error:
        return _refused(error.code)
    asked = InitProducerId(
        transactional_id=transactional_id,
        timeout_ms=milliseconds(message.transaction_timeout),
        expected=None if message.producer_id == -1 else Producer(message.producer_id, message.producer_epoch),
    )
    result: ProducerResult = await coordinator.ask(core.init_producer_id, asked)
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=for_version(result.error, request.api_version, FENCED_FROM),
        producer_id=ProducerId(result.producer.producer_id),
        producer_epoch=i16(result.producer.epoch),
    )


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
