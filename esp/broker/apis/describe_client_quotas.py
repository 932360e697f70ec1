"""DescribeClientQuotas (48), versions 0-1: the quotas that a filter selects, of those to which this node holds clients (KIP-546).

A tagged field of ours in the request asks also for the clients that this node holds at the moment (decision 58).
"""

from collections.abc import Generator, Mapping
from datetime import timedelta

from kio.schema.describe_client_quotas.v1.response import EntityData, EntryData, ValueData
from kio.static.primitive import f64, i32

from esp.broker.answer_fields import NO_THROTTLE, told_duration
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.client_quota_filter import ClientQuotaFilter, FilterComponent
from esp.model.client_quotas import QuotaEntity
from esp.model.errors import ErrorCode
from esp.protocol.own_fields import DescribeClientQuotasRequest, DescribeClientQuotasResponse, HeldData
from esp.protocol.progress import Progress


def handle(
    services: Services, _request: Request, message: DescribeClientQuotasRequest
) -> Generator[None, None, DescribeClientQuotasResponse]:
    """Answer in slices from the metadata by which quotas go here."""
    wanted = ClientQuotaFilter(
        [FilterComponent(each.entity_type, each.match_type, each.match) for each in message.components],
        strict=message.strict,
    )
    found = yield from _find_quotas(services.in_force().client_quotas, wanted)
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message="",
        entries=found,
        held=(yield from _find_held(services)) if message.with_held else None,
    )


def _find_quotas(
    quotas: Mapping[QuotaEntity, Mapping[str, float]], wanted: ClientQuotaFilter
) -> Generator[None, None, tuple[EntryData, ...]]:
    found: list[EntryData] = []
    progress = Progress()
    for entity, values in quotas.items():
        if progress.count_one():
            yield
        if wanted.matches(entity):
            found.append(
                EntryData(
                    entity=_entity(entity),
                    values=tuple(ValueData(key=key, value=f64(value)) for key, value in values.items()),
                )
            )
    return tuple(found)


def _find_held(services: Services) -> Generator[None, None, tuple[HeldData, ...]]:
    held = yield from services.quotas.find_held()
    return tuple(
        HeldData(
            key=each.key,
            entity=_entity(each.entity),
            user=each.user,
            client_id=each.client_id,
            address=each.address,
            connections=i32(each.connections),
            left=told_duration(timedelta(microseconds=each.left_us)),
        )
        for each in held
    )


def _entity(entity: QuotaEntity) -> tuple[EntityData, ...]:
    return tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
