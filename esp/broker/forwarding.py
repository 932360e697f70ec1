"""Requests of clients that only the active controller can do: a broker passes them on, and the answer back (KIP-590).

With an authorizer the controller decides again, about the client: the request travels in an Envelope (58), with the client's principal and
address. Without one it travels as it is, unless what is asked for is the client's own.
"""

import logging
from collections.abc import Awaitable, Callable, Sized
from datetime import timedelta
from typing import Any, Final

from esp.broker.controller_client.original_client import OriginalClient
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.waiting import time_limit
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

FORWARD_TIMEOUT_MS: Final = 30_000
"""The time for which a controller is looked for on behalf of a client: Kafka's ``request.timeout.ms``."""

WHOLE_MAX: Final = 100
"""Elements of a request that is passed on as a whole: no cluster has as many features or listeners; a few thousand take milliseconds."""

_APPLY_MS_MIN: Final = 1_000


async def forward(
    services: Services,
    request: Request,
    api_key: ApiKey,
    message: Any,
    *,
    timeout_ms: int = FORWARD_TIMEOUT_MS,
    names_client: bool = False,
    in_its_version: bool = False,
) -> Any:
    """The active controller's answer to what a client asks for.

    Args:
        services: the broker's.
        request: the client's.
        api_key: the API.
        message: as much of the request as is passed on, as an instance of the newest version's class; the answer is one too.
        timeout_ms: the time for which to try.
        names_client: True: the controller must know the client also where there is no authorizer.
        in_its_version: True: the controller must know the version of the client's request, of which the message is; for a client that
            it is told of.

    Raises:
        ApiError: REQUEST_TIMED_OUT; CLUSTER_AUTHORIZATION_FAILED: the controller takes no Envelope of this broker.
    """
    is_named = (names_client or not services.access.is_open) and not request.client.is_this_node
    client = OriginalClient.of(request, request.api_version if in_its_version else None) if is_named else None
    return await services.controller.call(api_key, message, timeout_ms=timeout_ms, client=client)


def check_whole(elements: Sized, maximum: int = WHOLE_MAX) -> None:
    """Refuse a request with more elements than any cluster needs, before it is passed on as a whole.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if len(elements) > maximum:
        raise ApiError(ErrorCode.invalid_request, f"{len(elements)} elements are more than {maximum}")


async def until_applied(services: Services, condition: Callable[[ClusterImage], bool], timeout: timedelta) -> None:
    """Wait until this node follows what the controller has done, so that a client finds it so here (decision 8).

    It returns also when that takes longer than the client's ``timeout``: what was asked for is done, and the client is told so.
    """
    await within_timeout(services, services.metadata.until(condition), timeout)


async def within_timeout(services: Services, following: Awaitable[None], timeout: timedelta) -> None:
    """Wait until this node follows, but no longer than :func:`until_applied` does.

    Args:
        services: the broker's.
        following: returns when the node follows; its ApiError ends the wait, too.
        timeout: the client's.
    """
    limit_ms = min(max(_APPLY_MS_MIN, timeout // timedelta(milliseconds=1)), FORWARD_TIMEOUT_MS)
    try:
        async with time_limit(services.env.clock, limit_ms):
            await following
    except (TimeoutError, ApiError):
        if services.metadata.begin_complaint():
            log.warning(
                "clients are answered before this node has applied their change: it was not applied within %d ms; "
                "the metadata is applied up to offset %d",
                limit_ms,
                services.metadata.image.offset,
            )
