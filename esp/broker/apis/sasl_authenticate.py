"""SaslAuthenticate (36), versions 0-2: bytes of the mechanism that a SaslHandshake request has chosen (KIP-152).

What comes here is a re-authentication, or comes by a listener without SASL; see :mod:`esp.broker.apis.sasl_handshake`.
"""

from typing import Any

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse

from esp.broker.request import Request
from esp.model.errors import ErrorCode


def handle(_services: Any, request: Request, message: SaslAuthenticateRequest) -> Any:
    """Let the client's log-in answer it, if there is one."""
    log_in = request.client.sasl
    if log_in is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.illegal_sasl_state,
            error_message="SaslAuthenticate request received after successful authentication",
            auth_bytes=b"",
        )
    return log_in.authenticate(request, message)


def handle_at_controller(services: Any, request: Request, message: SaslAuthenticateRequest) -> Any:
    """Answer as a broker does."""
    return handle(services, request, message)
