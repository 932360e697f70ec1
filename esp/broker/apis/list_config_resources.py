"""ListConfigResources (74), versions 0-1: the resources with settings; version 0 lists client metrics subscriptions only (KIP-1142)."""

from collections.abc import Iterable
from typing import Final

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse
from kio.static.primitive import i8

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.configs import BROKER_LOGGER
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)

_TYPES: Final = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER, BROKER_RESOURCE, TOPIC_RESOURCE)


def handle(services: Services, request: Request, message: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of the types that are asked for; of all types if none is."""
    wanted = frozenset(message.resource_types) if request.api_version > 0 else frozenset((CLIENT_METRICS_RESOURCE,))
    if not wanted <= frozenset(_TYPES):
        raise ApiError(ErrorCode.unsupported_version)
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=i8(kind))
            for kind in _TYPES
            if not wanted or kind in wanted
            for name in _names(services, kind)
        ),
    )


def _names(services: Services, kind: int) -> Iterable[str]:
    image = services.metadata.image
    if kind == GROUP_RESOURCE:
        return image.group_configs
    if kind == CLIENT_METRICS_RESOURCE:
        return image.client_metrics_configs
    if kind == TOPIC_RESOURCE:
        return image.topics_by_name
    return map(str, sorted(services.metadata.alive))
