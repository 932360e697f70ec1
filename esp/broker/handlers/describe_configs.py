"""DescribeConfigs (32), versions 1-4: the settings of topics and of this node, read only."""

from collections.abc import Sequence
from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.static.primitive import i8

from esp.broker.handlers.common import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import CLUSTER_DEFAULT
from esp.model.described_settings import DescribedSetting, describe_broker, describe_topic
from esp.model.errors import ApiError, ErrorCode

TOPIC: Final = 2
BROKER: Final = 4


def handle(services: Services, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer each resource for itself."""
    results = []
    for resource in message.resources:
        try:
            settings = _settings_of(services, resource)
        except ApiError as error:
            results.append(_result(resource, error.code, error.message, ()))
            continue
        # An empty list of names means all, as null does (Kafka's ConfigHelper).
        names = frozenset(resource.configuration_keys or ())
        shown = tuple(
            _shown(setting, synonyms=message.include_synonyms, documentation=message.include_documentation)
            for setting in settings
            if not names or setting.name in names
        )
        results.append(_result(resource, ErrorCode.none, None, shown))
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _settings_of(services: Services, resource: DescribeConfigsResource) -> Sequence[DescribedSetting]:
    image = services.metadata.image
    cluster_defaults = image.broker_configs.get(CLUSTER_DEFAULT, {})
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = image.topics_by_name.get(name)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        return describe_topic(topic.configs, services.settings, cluster_defaults)
    if resource.resource_type == BROKER:
        if name == CLUSTER_DEFAULT:
            return [
                setting
                for setting in describe_broker(services.settings, cluster_defaults)
                if setting.name in cluster_defaults
            ]
        if name != str(services.node_id):
            raise ApiError(
                ErrorCode.invalid_request,
                f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}",
            )
        return describe_broker(services.settings, cluster_defaults)
    raise ApiError(ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}")


def _shown(setting: DescribedSetting, *, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if setting.sensitive else setting.value,
        read_only=setting.read_only,
        config_source=i8(setting.source),
        is_sensitive=setting.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=i8(synonym.source))
            for synonym in (setting.synonyms if synonyms else ())
        ),
        config_type=i8(setting.kind),
        documentation=setting.doc if documentation else None,
    )


def _result(
    resource: DescribeConfigsResource,
    error: ErrorCode,
    message: str | None,
    configs: tuple[DescribeConfigsResourceResult, ...],
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
