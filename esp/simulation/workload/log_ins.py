"""The messages of a log-in by SASL, as a simulated client sends them over its connection."""

from typing import Any, Final

from esp.protocol.registry import ApiKey
from esp.simulation.workload.connection import ClientConnection
from esp.simulation.workload.survey_requests import build

_TIMEOUT_S: Final = 3.0
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


async def choose_mechanism(connection: ClientConnection, mechanism: str) -> Any:
    """Begin a log-in by a mechanism, and return the answer. Raises NoAnswerError."""
    message = build(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, {"mechanism": mechanism})
    return await connection.call(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, message, _TIMEOUT_S)


async def authenticate(connection: ClientConnection, data: bytes) -> Any:
    """Send a message of the mechanism, and return the answer. Raises NoAnswerError."""
    message = build(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, {"auth_bytes": data})
    return await connection.call(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, message, _TIMEOUT_S)
