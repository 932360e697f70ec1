"""The answers to SaslHandshake and SaslAuthenticate requests, made of the replies of a conversation."""

from datetime import timedelta

from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.primitive import i64Timedelta

from esp.authentication.conversation import Reply
from esp.model.errors import ErrorCode


def handshake_response(reply: Reply, mechanisms: tuple[str, ...]) -> SaslHandshakeResponse:
    """Return the answer to a SaslHandshake request; ``mechanisms`` are the names of those that a client may choose, told unless the
    request comes at the wrong time."""
    told = () if reply.code is ErrorCode.illegal_sasl_state else mechanisms
    return SaslHandshakeResponse(error_code=reply.code, mechanisms=told)


def authenticate_response(reply: Reply) -> SaslAuthenticateResponse:
    """Return the answer to a SaslAuthenticate request."""
    return SaslAuthenticateResponse(
        error_code=reply.code,
        error_message=reply.message or "",  # as Kafka, not null
        auth_bytes=reply.data,
        session_lifetime=i64Timedelta.parse(timedelta(milliseconds=reply.lifetime_ms)),
    )
