"""AlterClientQuotas (49), versions 0-1: quotas are set and removed, all of a request at once (KIP-546).

A broker passes the request on to the active controller, and answers when it follows: the quotas count for the client's next request here
(QUOTA-1).
"""

from typing import Final

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntryData as AskedEntry
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.following import until_follows
from esp.broker.forwarding import check_whole, forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.client_quotas import QuotaAlteration, QuotaChange, decide_alter_client_quotas
from esp.model.client_quotas import quota_entity
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey

ENTRIES_MAX: Final = 1_000
"""The largest number of entities of one request, which are changed together."""


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Change what can be changed, once it is committed; each entity is answered for itself."""
    _check_size(message)
    asked = [_alteration(entry) for entry in message.entries]
    results = await services.controller.commit(
        lambda image: decide_alter_client_quotas(image, asked, validate_only=message.validate_only),
        "Alter client quotas",
    )
    return AlterClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        entries=tuple(_result(entry, error) for entry, error in zip(message.entries, results, strict=True)),
    )


async def handle(services: Services, request: Request, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Pass the controller's answer on once this node follows."""
    _check_size(message)
    answer: AlterClientQuotasResponse = await forward(services, request, ApiKey.ALTER_CLIENT_QUOTAS, message)
    if not message.validate_only:
        await until_follows(services)
    return answer


def _check_size(message: AlterClientQuotasRequest) -> None:
    """Refuse a request with more entities, or an entity with more parts or quotas, than there can be.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    check_whole(message.entries, ENTRIES_MAX)
    for entry in message.entries:
        check_whole(entry.entity)
        check_whole(entry.ops)


def _alteration(entry: AskedEntry) -> QuotaAlteration:
    return QuotaAlteration(
        quota_entity((part.entity_type, part.entity_name) for part in entry.entity),
        tuple(QuotaChange(change.key, None if change.remove else change.value) for change in entry.ops),
    )


def _result(asked: AskedEntry, error: ApiError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in asked.entity),
    )
