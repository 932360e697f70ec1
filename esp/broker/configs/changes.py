"""The way of a request to change settings: the broker's checks and own changes, the controller's decision, and the answer."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from esp.broker.configs.checks import ConfigChecks, check_form, duplicates
from esp.broker.configs.messages import AlterRequest, AlterResponse, Outcome, answer_to, changes_of, only, outcomes_in
from esp.broker.configs.store_reloads import StoreReloads
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward, until_applied
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.configs import BROKER_LOGGER, ConfigChange, apply_operations, configs_of
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey

_DUPLICATE_AT_BROKER: Final = "Each resource must appear at most once."
_DUPLICATE_AT_CONTROLLER: Final = "Duplicate resource."
_NO_TIME: Final = timedelta()


async def alter_at_broker(services: Services, request: Request, message: AlterRequest) -> AlterResponse:
    """Check each resource's change, and let the controller decide on those that pass; each is answered for itself.

    The answer waits until the changes have taken effect at this broker.

    Raises:
        ApiError: REQUEST_TIMED_OUT, there is no active controller.
    """
    checks = ConfigChecks(services.node_id, services.settings, services.metadata.image.broker_configs)
    reloads = StoreReloads(services.node_id, services.settings.tls)
    validate_only = message.validate_only
    outcomes, checked = _sift(
        message, _DUPLICATE_AT_BROKER, lambda change: checks.take(reloads.without(change), validate_only=validate_only)
    )
    passed: dict[int, ConfigChange] = {}
    for index, change in checked.items():
        try:
            await reloads.make(change, services.env.network, validate_only=validate_only)
        except ApiError as error:
            outcomes[index] = error
            continue
        rest = reloads.without(change)
        if rest is change or rest.operations:
            passed[index] = rest
    if passed:
        whole: Any = message
        resources = tuple(only(message.resources[index], change) for index, change in passed.items())
        asked = replace(whole, resources=resources)
        decided = outcomes_in(await forward(services, request, ApiKey(request.api_key), asked))
        for index, change in passed.items():
            outcomes[index] = decided[change.resource]
        if not validate_only:
            made = [change for index, change in passed.items() if outcomes[index] is None]
            await until_applied(services, lambda image: all(_is_made(image, change) for change in made), _NO_TIME)
    return answer_to(message, outcomes)


async def alter_at_controller(services: ControllerServices, message: AlterRequest) -> AlterResponse:
    """Decide on each resource's change; each is answered for itself.

    Raises:
        ApiError: NOT_CONTROLLER.
    """
    checks = ConfigChecks(services.node_id, services.settings, services.metadata.image.broker_configs)
    validate_only = message.validate_only

    def take(change: ConfigChange) -> bool:
        check_form(change)
        if change.resource.type != BROKER_LOGGER or change.replaces_all:
            return True
        checks.change_loggers(change, validate_only=validate_only)
        return False

    outcomes, passed = _sift(message, _DUPLICATE_AT_CONTROLLER, take)
    if passed:
        decided = await services.controller.alter_configs(list(passed.values()), validate_only=validate_only)
        for index, outcome in zip(passed, decided, strict=True):
            outcomes[index] = outcome
    return answer_to(message, outcomes)


def _sift(
    message: AlterRequest, duplicate: str, take: Callable[[ConfigChange], bool]
) -> tuple[list[Outcome], dict[int, ConfigChange]]:
    """The outcomes so far, and the changes that are to be decided on, by their place in the request.

    Args:
        message: the request.
        duplicate: what is said of a resource that is named twice.
        take: checks, or makes, one change; says whether it is to be decided on.
    """
    changes = changes_of(message)
    twice = duplicates([change for change in changes if isinstance(change, ConfigChange)])
    outcomes: list[Outcome] = [None] * len(changes)
    passed: dict[int, ConfigChange] = {}
    for index, change in enumerate(changes):
        try:
            if isinstance(change, ApiError):
                raise change
            if change.resource in twice:
                raise ApiError(ErrorCode.invalid_request, duplicate)
            if take(change):
                passed[index] = change
        except ApiError as error:
            outcomes[index] = error
    return outcomes, passed


def _is_made(image: ClusterImage, change: ConfigChange) -> bool:
    """True if an image shows a change: then to make it once more would change nothing."""
    current = configs_of(image, change.resource)
    touched = apply_operations(current, change, lambda _name: "")
    return all(current.get(name) == value for name, value in touched.items())
