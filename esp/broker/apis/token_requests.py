"""The parts that the four APIs of delegation tokens share: the check of the client, and times as messages have them.

The codes of refusals, and the times beside them, are those of Kafka 4.3's ``KafkaApis`` and ``ControllerApis``.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, cast

from kio.static.primitive import TZAware

from esp.broker.request import ClientContext
from esp.model.delegation_token import LATEST_MS
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.entity_fields import EPOCH
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


def time_of(time_ms: int) -> TZAware:
    """Return a time as messages have it; one that dates cannot tell becomes the nearest that they can."""
    return cast("TZAware", EPOCH + timedelta(milliseconds=min(max(time_ms, _EARLIEST_MS), LATEST_MS)))
