"""The parts that the four APIs of delegation tokens share: the check of the client, the way to the controller, and times in messages.

The codes of refusals, and the times beside them, are those of Kafka 4.3's ``KafkaApis`` and ``ControllerApis``.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from kio.static.primitive import TZAware

from esp.broker.controller.services import ControllerServices
from esp.broker.following import until_follows
from esp.broker.forwarding import forward
from esp.broker.request import ClientContext, Request
from esp.broker.services import Services
from esp.controller.decision import Decision
from esp.controller.image import ClusterImage
from esp.model.calendar import LATEST_MS
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.entity_fields import EPOCH
from esp.protocol.registry import ApiKey
from esp.settings.broker import BrokerSettings

NO_TIME_MS: Final = -1
"""The time in an answer that a broker refuses by itself."""

_ANONYMOUS: Final = "User:ANONYMOUS"
_EARLIEST_MS: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def check_allowed(client: ClientContext, settings: BrokerSettings) -> None:
    """Refuse a client without a proved identity, or with one that a token proved: a token makes no tokens (TOKEN-4).

    The controller does not ask again by which listener the client of a broker came.

    Raises:
        ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
    """
    protocol = "" if client.is_passed_on else settings.security_protocols.get(client.listener, "")
    is_unknown = protocol == "PLAINTEXT" or (protocol == "SSL" and client.principal == _ANONYMOUS)
    if client.is_by_token or is_unknown:
        raise ApiError(
            ErrorCode.delegation_token_request_not_allowed,
            "Delegation tokens are for clients that have logged in, and not by a token.",
        )


async def decide_end(
    services: ControllerServices, request: Request, decide: Callable[[ClusterImage], Decision[int]], event: str
) -> tuple[ErrorCode, int]:
    """Change a token's end, and return once that is committed: the code of the answer, and the time that it names.

    Args:
        services: the controller's.
        request: the client's.
        decide: decides on an image.
        event: the change, for messages.
    """
    try:
        check_allowed(request.client, services.settings)
    except ApiError as refusal:
        return refusal.code, NO_TIME_MS
    try:
        return ErrorCode.none, await services.controller.commit(decide, event)
    except ApiError as refusal:
        return refusal.code, 0


async def pass_on(services: Services, request: Request, api_key: ApiKey, message: Any) -> Any:
    """Return the controller's answer about a token, once this node follows; the controller hears of the client.

    Raises:
        ApiError: as :func:`~esp.broker.forwarding.forward`.
    """
    answer = await forward(services, request, api_key, message, names_client=True)
    if answer.error_code is ErrorCode.none:
        await until_follows(services)
    return answer


def time_of(time_ms: int) -> TZAware:
    """Return a time as messages have it; one that dates cannot tell becomes the nearest that they can."""
    return cast("TZAware", EPOCH + timedelta(milliseconds=min(max(time_ms, _EARLIEST_MS), LATEST_MS)))
