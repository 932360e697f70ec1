"""DescribeClientQuotas (48), versions 0-1: the quotas that a filter selects, as this node knows them (KIP-546)."""

from collections.abc import Generator, Mapping

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.static.primitive import f64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.client_quota_filter import ClientQuotaFilter, FilterComponent
from esp.model.client_quotas import QuotaEntity
from esp.model.errors import ErrorCode
from esp.protocol.progress import Progress


def handle(
    services: Services, _request: Request, message: DescribeClientQuotasRequest
) -> Generator[None, None, DescribeClientQuotasResponse]:
    """Answer in slices from the metadata that clients see here."""
    wanted = ClientQuotaFilter(
        [FilterComponent(each.entity_type, each.match_type, each.match) for each in message.components],
        strict=message.strict,
    )
    return _describe(services.metadata.image.client_quotas, wanted)


def _describe(
    quotas: Mapping[QuotaEntity, Mapping[str, float]], wanted: ClientQuotaFilter
) -> Generator[None, None, DescribeClientQuotasResponse]:
    found: list[EntryData] = []
    progress = Progress()
    for entity, values in quotas.items():
        if progress.count_one():
            yield
        if wanted.matches(entity):
            found.append(
                EntryData(
                    entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                    values=tuple(ValueData(key=key, value=f64(value)) for key, value in values.items()),
                )
            )
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="", entries=tuple(found)
    )
