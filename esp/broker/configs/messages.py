"""The messages of AlterConfigs and IncrementalAlterConfigs as changes of settings, and outcomes as their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsResourceResponse,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from esp.broker.answer_fields import NO_THROTTLE
from esp.controller.configs import ConfigChange, ConfigOperation, ConfigResource, Operation
from esp.model.errors import ApiError, ErrorCode

Outcome = ApiError | None
"""The result of a change; None is success."""

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest
AlterResponse = AlterConfigsResponse | IncrementalAlterConfigsResponse


def resources_of(message: AlterRequest) -> list[ConfigResource]:
    """The resources of a request, in its order."""
    return [ConfigResource(resource.resource_type, resource.resource_name) for resource in message.resources]


def changes_of(message: AlterRequest) -> list[ConfigChange | ApiError]:
    """The changes that a request asks for, in its order; an error for one that cannot be understood."""
    changes: list[ConfigChange | ApiError] = []
    if isinstance(message, AlterConfigsRequest):
        for whole in message.resources:
            settings = tuple(ConfigOperation(config.name, Operation.SET, config.value) for config in whole.configs)
            resource = ConfigResource(whole.resource_type, whole.resource_name)
            changes.append(ConfigChange(resource, settings, replaces_all=True))
        return changes
    for asked in message.resources:
        resource = ConfigResource(asked.resource_type, asked.resource_name)
        try:
            operations = tuple(
                ConfigOperation(config.name, Operation(config.config_operation), config.value)
                for config in asked.configs
            )
        except ValueError as error:
            changes.append(ApiError(ErrorCode.invalid_request, f"Unknown operation on a setting: {error}"))
        else:
            changes.append(ConfigChange(resource, operations))
    return changes


def only(resource: Any, change: ConfigChange) -> Any:
    """A resource of a request with those of its settings that a change has."""
    names = {operation.name for operation in change.operations}
    return replace(resource, configs=tuple(config for config in resource.configs if config.name in names))


def answer_to(message: AlterRequest, outcomes: Sequence[Outcome]) -> AlterResponse:
    """The answer that gives each resource of a request its outcome."""
    resources = resources_of(message)
    if isinstance(message, AlterConfigsRequest):
        return AlterConfigsResponse(
            throttle_time=NO_THROTTLE,
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=ErrorCode.none if outcome is None else outcome.code,
                    error_message=None if outcome is None else outcome.message,
                    resource_type=i8(resource.type),
                    resource_name=resource.name,
                )
                for resource, outcome in zip(resources, outcomes, strict=True)
            ),
        )
    return IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            IncrementalAlterConfigsResourceResponse(
                error_code=ErrorCode.none if outcome is None else outcome.code,
                error_message=None if outcome is None else outcome.message,
                resource_type=i8(resource.type),
                resource_name=resource.name,
            )
            for resource, outcome in zip(resources, outcomes, strict=True)
        ),
    )


def outcomes_in(answer: AlterResponse) -> Mapping[ConfigResource, Outcome]:
    """The outcomes in an answer, by resource."""
    return {
        ConfigResource(response.resource_type, response.resource_name): (
            None if response.error_code is ErrorCode.none else ApiError(response.error_code, response.error_message)
        )
        for response in answer.responses
    }
