"""The settings of every kind of resource as DescribeConfigs returns them, at brokers and controllers alike."""

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

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.configs.logger_levels import logger_levels
from esp.controller.configs import BROKER_LOGGER
from esp.controller.image import CLUSTER_DEFAULT, ClusterImage
from esp.controller.topics import find_name_problem
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from esp.settings.broker import BrokerSettings
from esp.settings.described import (
    DescribedSetting,
    NodeLayers,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_loggers,
    describe_topic,
)
from esp.settings.setting import find_integer

_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible "
    "broker. See the broker logs for more details."
)


class DescribedResources:
    """Knows the settings of all resources at one moment.

    Args:
        node_id: of this node.
        given: what its file gave it.
        image: the metadata.
    """

    def __init__(self, node_id: NodeId, given: BrokerSettings, image: ClusterImage) -> None:
        self._node_id = node_id
        self._image = image
        configs = image.broker_configs
        self._node = NodeLayers(given, configs.get(CLUSTER_DEFAULT, {}), configs.get(str(node_id), {}))

    def settings(self, kind: int, name: str) -> Sequence[DescribedSetting]:
        """All settings of a resource, sorted by name.

        Raises:
            ApiError: there is no such resource, or this node cannot speak for it; code and text are Kafka's.
        """
        if kind == TOPIC_RESOURCE:
            return self._topic(name)
        if kind == BROKER_RESOURCE:
            return self._broker(name)
        if kind == BROKER_LOGGER:
            if not name:
                raise _refusal("Broker id must not be empty")
            if _broker_id(name) != self._node_id:
                raise _refusal(f"Unexpected broker id, expected {self._node_id} but received {name}")
            return describe_loggers(logger_levels())
        if kind == GROUP_RESOURCE:
            if not name:
                raise _refusal("Group name must not be empty")
            return describe_group(self._image.group_configs.get(name, {}), self._node)
        if kind == CLIENT_METRICS_RESOURCE:
            if not name:
                raise _refusal("Client metrics subscription name must not be empty")
            return describe_client_metrics(self._image.client_metrics_configs.get(name, {}))
        raise _refusal(_MALFORMED)

    def _topic(self, name: str) -> Sequence[DescribedSetting]:
        problem = find_name_problem(name)
        if problem is not None:
            raise ApiError(ErrorCode.invalid_topic_exception, problem)
        topic = self._image.topics_by_name.get(name)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        return describe_topic(topic.configs, self._node)

    def _broker(self, name: str) -> Sequence[DescribedSetting]:
        if name == CLUSTER_DEFAULT:
            return describe_all_brokers(self._node.cluster)
        if _broker_id(name) != self._node_id:
            raise _refusal(f"Unexpected broker id, expected {self._node_id} or empty string, but received {name}")
        return describe_broker(self._node)


def describe_configs(resources: DescribedResources, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """The answer to a request, each of its resources answered for itself."""
    results = []
    for resource in message.resources:
        try:
            settings = resources.settings(resource.resource_type, resource.resource_name)
        except ApiError as error:
            results.append(_result(resource, error.code, error.message or "", ()))
            continue
        # An empty list of names means all, as null does (Kafka's ConfigHelper).
        names = frozenset(resource.configuration_keys or ())
        shown = tuple(
            _shown(setting, synonyms=message.include_synonyms, documentation=message.include_documentation)
            for setting in settings
            if not names or setting.name in names
        )
        results.append(_result(resource, ErrorCode.none, "", shown))
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _broker_id(name: str) -> int:
    number = find_integer(name)
    if number is None:
        raise _refusal(f"Broker id must be an integer, but it is: {name}")
    return number


def _refusal(problem: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, problem)


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
    message: str,
    configs: tuple[DescribeConfigsResourceResult, ...],
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
