"""SaslHandshake (17), versions 0-1: a client chooses the mechanism by which it authenticates (KIP-43).

Before a client is known its connection has another owner (:mod:`esp.broker.authentication.sasl_connection`). What comes here begins a
re-authentication (KIP-368); or it comes by a listener without SASL, where Kafka answers as here, and the connection goes on.
"""

from typing import Any

from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from esp.broker.request import Request
from esp.model.errors import ErrorCode


def handle(_services: Any, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Let the client's log-in answer it, if there is one."""
    log_in = request.client.sasl
    if log_in is None:
        return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    answer: SaslHandshakeResponse = log_in.handshake(request, message)
    return answer


def handle_at_controller(services: Any, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answer as a broker does."""
    return handle(services, request, message)
