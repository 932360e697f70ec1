"""The owner of a connection until its client is authenticated by SASL.

It takes one request at a time, of the few that are allowed, and no frame larger than ``sasl.server.max.receive.size`` (AUTHN-1). Then a
session takes the connection over; it pays nothing for what is decided here. A failed log-in is answered after a delay, in which what comes
is dropped.
"""

import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from kio.schema.api_versions.v4.response import ApiVersionsResponse

from esp.authentication.conversation import Conversation, Ending, Reply, Stage
from esp.authentication.errors import UnexpectedMessageError
from esp.authentication.exchange import Check
from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.authentication.answers import authenticate_response, handshake_response
from esp.broker.authentication.login_parts import LoginParts
from esp.broker.authentication.sasl_session import SaslSession
from esp.broker.connections.frame_faults import wrong_length
from esp.broker.connections.session import Session
from esp.broker.request import LATER, NEVER, ClientContext, Request
from esp.broker.turns.request_memory import FREE_BYTES
from esp.model.acl import group_principals
from esp.model.errors import ErrorCode
from esp.model.sasl import SaslPolicy
from esp.ports.clock import Timer
from esp.ports.network import Connection
from esp.protocol.errors import DecodeError, UnsupportedRequestError
from esp.protocol.headers import RequestHeader, read_request_header
from esp.protocol.messages import decode_request, encode_response
from esp.protocol.registry import SERVED, ApiKey

log = logging.getLogger(__name__)

_FRAME_LENGTH: Final = struct.Struct(">i")
_SHORTEST_HEADER: Final = 8
_UNREAD_BYTES_MAX: Final = 1024
"""As much of the next requests is received while one is worked at. Reading goes on, so that the end of the connection is noticed."""

Encode = Callable[[Reply], bytes]
"""Makes the frame that tells the client a reply; empty if there is no frame for it."""


class SaslConnection:
    """A connection whose client is unknown (:class:`esp.ports.network.ConnectionOwner`).

    Args:
        connection: its other side is the client.
        client: what is known of the client.
        policy: the terms of the listener.
        parts: the parts that the server's listeners share.
        take_over: makes the session that owns the connection from then on.
        on_end: called once if the connection has ended before that.
    """

    def __init__(
        self,
        connection: Connection,
        client: ClientContext,
        policy: SaslPolicy,
        parts: LoginParts,
        take_over: Callable[["SaslConnection", Connection], Session],
        on_end: Callable[["SaslConnection"], None],
    ) -> None:
        self.client = client
        self.idle_checks = 0
        """The number of checks for idle connections since the last read; a time limit ends idle ones sooner."""
        self._connection = connection
        self._policy = policy
        self._parts = parts
        self._take_over = take_over
        self._on_end = on_end
        self._conversation: Conversation = parts.conversation(policy)
        self._timer: Timer | None = None
        self._taken_bytes = 0
        self._waits_for_memory = False
        self._waits = False
        """True while a request is worked at: the next one is not looked at."""
        self._is_behind = False
        """True while the client does not take what is sent: TLS answers some of its records by itself."""
        self._has_failed = False
        self._is_over = False
        client.hold.attach(self._on_hold, self._refuse)

    def begin(self) -> None:
        """Serve from now on: the time limit begins."""
        if not self._is_over:
            self._timer = self._parts.env.clock.call_later_us(self._policy.timeout_ms * 1000, self._on_timeout)

    # --- esp.ports.network.ConnectionOwner ---------------------------------------------------------------------------------------

    def on_bytes(self, received: memoryview) -> int:
        """See :class:`esp.ports.network.ConnectionOwner`."""
        self.idle_checks = 0
        if self._has_failed:  # what comes after a failure is dropped, so that the end of the connection is noticed
            return len(received)
        if self._is_behind or (self._waits and len(received) >= _UNREAD_BYTES_MAX):
            self._connection.pause_reading()
        position, end = 0, len(received)
        while end - position >= _FRAME_LENGTH.size and not (self._waits or self._waits_for_memory or self._is_over):
            length = _FRAME_LENGTH.unpack_from(received, position)[0]
            least = 0 if self._conversation.speaks_tokens else _SHORTEST_HEADER
            if not least <= length <= self._policy.receive_bytes_max:
                self._end(wrong_length(length, least, self._policy.receive_bytes_max, "SASL_PLAINTEXT"))
                break
            frame_end = position + _FRAME_LENGTH.size + length
            if frame_end > end:
                if length <= FREE_BYTES or self._taken_bytes or self._take(length):
                    self._connection.expect(_FRAME_LENGTH.size + length)
                break
            frame = received[position + _FRAME_LENGTH.size : frame_end]
            position = frame_end
            try:
                self._handle(frame)
            except (DecodeError, UnexpectedMessageError) as error:
                self._end(str(error))
            if not self.client.hold.is_held:
                self._give_back()
        return position

    def on_closed(self) -> None:
        """See :class:`esp.ports.network.ConnectionOwner`."""
        refused = None if self._is_over else self._conversation.on_given_up()
        if refused is not None:
            self._tell_failure(refused)
        self._is_over = True
        self.client.hold.detach()
        self._cancel_timer()
        self._give_back()
        self._on_end(self)

    def on_writable(self, writable: bool) -> None:
        """Read nothing from a client that does not take what is sent to it."""
        self._is_behind = not writable
        if self._is_behind:
            self._connection.pause_reading()
        elif not self._waits_for_memory:
            self._connection.resume_reading()

    def close(self, reason: str) -> None:
        """End the connection for a reason of the node's own."""
        log.debug("closing the connection of %s: %s", self.client.address, reason)
        self._is_over = True
        self._connection.abort()

    # --- requests ----------------------------------------------------------------------------------------------------------------

    def _handle(self, frame: memoryview) -> None:
        conversation = self._conversation
        if conversation.speaks_tokens:
            self._on_message(bytes(frame), _token_frame)
            return
        try:
            header = read_request_header(frame, self._parts.dispatcher.served)
        except UnsupportedRequestError as error:
            raise conversation.on_other_api(f"{error.api_key}, version {error.api_version},") from error
        body = frame[header.body_position :]
        if header.api_key == ApiKey.API_VERSIONS:
            self._on_api_versions(header, body)
        elif header.api_key == ApiKey.SASL_HANDSHAKE:
            self._on_handshake(header, body)
        elif header.api_key == ApiKey.SASL_AUTHENTICATE:
            self._on_authenticate(header, body)
        else:
            protocol = "SASL_SSL or SASL_PLAINTEXT"
            raise conversation.on_other_api(
                f"{SERVED[header.api_key].name} (a client needs security.protocol={protocol})"
            )

    def _on_api_versions(self, header: RequestHeader, body: memoryview) -> None:
        api_key, version, correlation_id, client_id, _ = header
        code = self._conversation.on_api_versions(is_served=SERVED[api_key].serves(version))
        if code is not ErrorCode.none:
            refusal = ApiVersionsResponse(error_code=code, api_keys=(), throttle_time=NO_THROTTLE)
            told = version if SERVED[api_key].serves(version) else 0
            self._end(
                "an ApiVersions request in the middle of a log-in",
                encode_response(api_key, told, correlation_id, refusal),
            )
            return
        request = Request(
            api_key, version, correlation_id, client_id, self.client, lambda _at_once: self._on_answered(request)
        )
        # A long request, or one that is put off, is read later; what comes next may be received where it lies.
        answer = self._parts.dispatcher.dispatch(request, memoryview(bytes(body)))
        assert answer is not NEVER, "an ApiVersions request has an answer"
        if answer is not LATER:
            self._connection.write(answer)
        elif request.answer is None:
            self._waits = True

    def _on_answered(self, request: Request) -> None:
        if not self._is_over and request.answer is not None:
            self._connection.write(request.answer)
            self._go_on()

    def _on_handshake(self, header: RequestHeader, body: memoryview) -> None:
        api_key, version, correlation_id, _, _ = header
        message = decode_request(api_key, version, body)
        reply = self._conversation.on_handshake(version, message.mechanism)
        response = handshake_response(reply, self._conversation.mechanisms)
        self._answer(reply, lambda _reply: encode_response(api_key, version, correlation_id, response))

    def _on_authenticate(self, header: RequestHeader, body: memoryview) -> None:
        api_key, version, correlation_id, _, _ = header
        encode = partial(_authenticate_frame, api_key, version, correlation_id)
        try:
            message = decode_request(api_key, version, body)
        except DecodeError:
            self._answer(self._conversation.on_malformed(), encode)
            return
        self._on_message(message.auth_bytes, encode)

    def _on_message(self, message: bytes, encode: Encode) -> None:
        outcome = self._conversation.on_message(message)
        if isinstance(outcome, Reply):
            self._answer(outcome, encode)
        else:
            self._waits = True
            self._parts.tasks.start(self._check(outcome, encode), name="log-in check")

    async def _check(self, check: Check, encode: Encode) -> None:
        outcome: Reply | Check = check
        while not isinstance(outcome, Reply):
            result = await self._parts.check(outcome, self._policy, self.client.address.host, lambda: not self._is_over)
            if self._is_over:
                return
            outcome = self._conversation.on_checked(outcome, result)
        self._answer(outcome, encode)
        self._go_on()

    # --- answers -----------------------------------------------------------------------------------------------------------------

    def _answer(self, reply: Reply, encode: Encode) -> None:
        frame = encode(reply)
        if reply.ending is Ending.NONE:
            self._connection.write((frame,))
            if self._conversation.stage is Stage.KNOWN:
                self._hand_over(reply.lifetime_ms)
        elif reply.ending is Ending.AT_ONCE:
            self._end(reply.reason, frame)
        else:
            self._fail(reply, frame)

    def _hand_over(self, lifetime_ms: int) -> None:
        """Let a session own the connection; what has arrived already is offered to it."""
        self._is_over = True
        self._cancel_timer()
        self._give_back()
        self._parts.on_log_in(self._policy, self._conversation)
        self.client.principal = f"User:{self._conversation.user}"
        self.client.groups = group_principals(self._conversation.groups)
        self.client.is_by_token = self._conversation.is_by_token
        self._connection.pause_reading()
        session = self._take_over(self, self._connection)
        self.client.sasl = SaslSession(self.client, session, self._conversation, self._policy, self._parts, lifetime_ms)
        self._connection.hand_to(session)
        self._connection.resume_reading()
        if self._is_behind:
            session.on_writable(False)

    def _fail(self, reply: Reply, frame: bytes) -> None:
        """Answer a failed log-in after the delay; what else comes is not looked at."""
        self._waits = self._has_failed = True
        self._cancel_timer()
        self._timer = self._parts.env.clock.call_later_us(self._tell_failure(reply), partial(self._finish, frame))

    def _tell_failure(self, reply: Reply) -> int:
        """Log and count a failed log-in, and return the time after which it is answered, in microseconds."""
        mechanism = self._conversation.mechanism
        log.warning(
            "refused a log-in of %s to the listener %s by %s: %s",
            self.client.address,
            self._policy.listener,
            "no mechanism" if mechanism is None else mechanism.value,
            reply.reason,
        )
        return self._parts.failure_delay_us(self.client.address.host, self._policy, self._conversation, reply.ending)

    def _finish(self, frame: bytes) -> None:
        """Send the last answer, if there is one, and end the connection. To take the answer a client has the time limit once more."""
        self._is_over = True
        self._cancel_timer()
        self._timer = self._parts.env.clock.call_later_us(self._policy.timeout_ms * 1000, self._connection.abort)
        if frame:
            self._connection.write((frame,))
        self._connection.close()

    def _end(self, reason: str, frame: bytes = b"") -> None:
        """End the connection because of what the client sent; or because of its log-in, if that was refused before."""
        refused = self._conversation.on_given_up()
        if refused is not None:
            self._fail(refused, frame)
            return
        log.warning(
            "closing the connection of %s to the listener %s: %s", self.client.address, self._policy.listener, reason
        )
        self._finish(frame)

    def _on_hold(self) -> None:
        """A request that holds the connection is one that is worked at, with the memory that it took: the next one waits already."""
        if not self.client.hold.is_held:
            self._give_back()

    def _refuse(self, reason: str) -> None:
        """End the connection because of a request that turned out later to be none."""
        if not self._is_over:
            self._end(reason)

    def _on_timeout(self) -> None:
        self._timer = None
        self._end(f"it was not authenticated within {self._policy.timeout_ms / 1000:g} s")
        self._connection.abort()  # it may take nothing, so that it would not end

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # --- reading -----------------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Look at what has arrived since the request that was worked at."""
        self._waits = False
        if not (self._is_over or self._is_behind):  # the session, or the client's catching up, sees to that
            self._connection.pause_reading()
            self._connection.resume_reading()

    def _take(self, size: int) -> bool:
        """Take memory for a large frame; without room nothing is read until there is some."""
        self._taken_bytes = size
        self._waits_for_memory = not self._parts.memory.take(size, self._on_room)
        if self._waits_for_memory:
            self._connection.pause_reading()
        return not self._waits_for_memory

    def _on_room(self) -> None:
        self._waits_for_memory = False
        self._connection.resume_reading()

    def _give_back(self) -> None:
        size, self._taken_bytes = self._taken_bytes, 0
        if self._waits_for_memory:
            self._waits_for_memory = False
            self._parts.memory.leave(self._on_room)
        elif size:
            self._parts.memory.give_back(size)


def _token_frame(reply: Reply) -> bytes:
    """The bytes alone, with their length; a failure has no frame."""
    if reply.code is not ErrorCode.none:
        return b""
    return _FRAME_LENGTH.pack(len(reply.data)) + reply.data


def _authenticate_frame(api_key: int, version: int, correlation_id: int, reply: Reply) -> bytes:
    return encode_response(api_key, version, correlation_id, authenticate_response(reply))
