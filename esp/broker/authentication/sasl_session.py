"""The log-in of a client whose session is served: it counts for a limited time, and may be renewed on the connection (KIP-368).

When its time is over, the connection ends with the next request that does not renew it. A request that waits then, such as a fetch, is
given :data:`GRACE_US`, since clients that renew their log-ins do so with the request after it (AUTHN-5).
"""

import logging
from collections.abc import Coroutine
from typing import Any, Final

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from esp.authentication.conversation import Conversation, Ending, Reply
from esp.authentication.errors import UnexpectedMessageError
from esp.authentication.exchange import Check
from esp.broker.authentication.answers import authenticate_response, handshake_response
from esp.broker.authentication.login_parts import LoginParts
from esp.broker.connections.session import Session
from esp.broker.request import Answer, ClientContext, Request
from esp.model.acl import group_principals
from esp.model.errors import ErrorCode
from esp.model.sasl import SaslPolicy
from esp.model.shown_names import in_line
from esp.ports.clock import Timer
from esp.protocol.errors import DecodeError
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

GRACE_US: Final = 1_000_000
"""Longer than consumers let a fetch wait unless they are told otherwise (``fetch.max.wait.ms``: 500)."""

_ANSWERED_CHECK_US: Final = 1_000
"""The interval at which a connection that is to end is looked at."""

_LATER: Final = (Ending.AFTER_DELAY, Ending.SOON)
_RENEWING: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class SaslSession:
    """The log-in of one connection (:class:`esp.broker.request.LogIn`).

    Args:
        client: the authenticated client.
        session: serves it.
        conversation: the state of its connection.
        policy: the terms of its listener.
        parts: the parts that the server's listeners share.
        lifetime_ms: the time for which the log-in counts; 0: no limit.
    """

    def __init__(
        self,
        client: ClientContext,
        session: Session,
        conversation: Conversation,
        policy: SaslPolicy,
        parts: LoginParts,
        lifetime_ms: int,
    ) -> None:
        self._client = client
        self._session: Session | None = session
        self._conversation = conversation
        self._policy = policy
        self._parts = parts
        self._timer: Timer | None = None
        client.at_end.append(self._on_end)
        self._begin_lifetime(lifetime_ms)

    def handshake(self, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Answer a SaslHandshake request of the client."""
        try:
            reply = self._conversation.on_handshake(request.api_version, message.mechanism)
        except UnexpectedMessageError as error:
            self._client.hold.end(str(error))
            reply = Reply(ErrorCode.illegal_sasl_state)  # goes nowhere
        if reply.ending is not Ending.NONE:
            self._end_soon(reply.reason)
        return handshake_response(reply, self._conversation.mechanisms)

    def authenticate(
        self, _request: Request, message: SaslAuthenticateRequest
    ) -> SaslAuthenticateResponse | Coroutine[Any, Any, SaslAuthenticateResponse]:
        """Answer a SaslAuthenticate request of the client."""
        try:
            outcome = self._conversation.on_message(message.auth_bytes)
        except UnexpectedMessageError as error:
            self._client.hold.end(str(error))
            outcome = Reply(ErrorCode.illegal_sasl_state)  # goes nowhere
        if not isinstance(outcome, Reply):
            return self._checked(outcome)
        if outcome.ending in _LATER:
            return self._failed(outcome)
        return self._answered(outcome)

    def refuse_unreadable(self) -> Coroutine[Any, Any, SaslAuthenticateResponse] | None:
        """Return the answer to a SaslAuthenticate request that cannot be read; None if the client is not renewing its log-in."""
        try:
            return self._failed(self._conversation.on_malformed())
        except UnexpectedMessageError:
            return None

    async def _checked(self, check: Check) -> SaslAuthenticateResponse:
        host = self._client.address.host
        reply: Reply | Check = check
        while not isinstance(reply, Reply):
            result = await self._parts.check(reply, self._policy, host, lambda: self._session is not None)
            reply = self._conversation.on_checked(reply, result)
        return await self._failed(reply) if reply.ending in _LATER else self._answered(reply)

    async def _failed(self, reply: Reply) -> SaslAuthenticateResponse:
        mechanism = self._conversation.mechanism
        log.warning(
            "refused a re-authentication of %s, %s, to the listener %s by %s: %s",
            in_line(self._client.principal),
            self._client.address,
            self._policy.listener,
            "no mechanism" if mechanism is None else mechanism.value,
            reply.reason,
        )
        host = self._client.address.host
        delay_us = self._parts.failure_delay_us(host, self._policy, self._conversation, reply.ending)
        await self._parts.env.clock.sleep_us(delay_us)
        self._end_soon("its re-authentication failed")
        return authenticate_response(reply)

    def _answered(self, reply: Reply) -> SaslAuthenticateResponse:
        if reply.is_success:
            self._parts.on_log_in(self._policy, self._conversation)
            groups = group_principals(self._conversation.groups)
            if groups != self._client.groups:
                self._client.groups = groups
                self._client.shortcut = None  # it keeps what rules say of the groups before
            self._client.is_by_token = self._conversation.is_by_token
            self._begin_lifetime(reply.lifetime_ms)
        return authenticate_response(reply)

    def _end_soon(self, reason: str) -> None:
        """End the connection when the answer that is being made has left; requests before it are given :data:`GRACE_US` for theirs.

        A client that does not take the answer has the time limit of a log-in.
        """
        clock = self._parts.env.clock
        latest_us = clock.monotonic_us() + GRACE_US

        def end() -> None:
            if self._session is None:
                return
            if self._session.has_waiting_requests and clock.monotonic_us() < latest_us:
                clock.call_later_us(_ANSWERED_CHECK_US, end)
            else:
                self._cancel_timer()
                self._timer = clock.call_later_us(self._policy.timeout_ms * 1000, self._abort)
                self._client.hold.end(reason)

        clock.call_later_us(0, end)

    # --- the end of the session --------------------------------------------------------------------------------------------------

    def _begin_lifetime(self, lifetime_ms: int) -> None:
        self._cancel_timer()
        if self._session is None:
            return
        self._session.serve_by(self._parts.dispatcher.dispatch)
        if lifetime_ms:
            self._timer = self._parts.env.clock.call_later_us(lifetime_ms * 1000, self._expire)

    def _expire(self) -> None:
        """Serve nothing more but a renewal."""
        assert self._session is not None, "the end of the connection cancels the timer"
        self._client.shortcut = None
        self._session.serve_by(self._dispatch_expired)
        self._timer = self._parts.env.clock.call_later_us(GRACE_US, self._cut)

    def _dispatch_expired(self, request: Request, body: memoryview) -> Answer:
        if request.api_key not in _RENEWING:
            raise DecodeError(f"the time of its log-in as {in_line(self._client.principal)} is over")
        return self._parts.dispatcher.dispatch(request, body)

    def _cut(self) -> None:
        self._timer = None
        if self._session is not None and self._session.has_waiting_requests:
            log.info(
                "closing the connection of %s: the time of its log-in as %s is over while a request waits",
                self._client.address,
                in_line(self._client.principal),
            )
            self._session.close("the time of its log-in is over")

    def _abort(self) -> None:
        self._timer = None
        if self._session is not None:
            self._session.close("it did not take the answer to its failed log-in")

    def _on_end(self) -> None:
        """The connection has ended; nothing refers to it from here, nor to this from the client, so that both are freed at once."""
        self._cancel_timer()
        self._session = None
        self._client.sasl = None
        self._client.at_end = []

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
