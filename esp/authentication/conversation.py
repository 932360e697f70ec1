"""The states of one connection on a listener with SASL (KIP-43, KIP-152, KIP-255, KIP-368), and the answers to what its client sends.

.. code-block:: text

    state           ApiVersions       SaslHandshake     SaslAuthenticate, or a token    any other API
    BEGUN           VERSIONS_TOLD     SPEAKING          ends                            ends
    VERSIONS_TOLD   ends              SPEAKING          ends                            ends
    SPEAKING        34, ends          34, ends          the exchange's next message     ends
    KNOWN           (the session's)   SPEAKING, or 34   34                              (the session's)
    ENDED           ends              ends              ends                            ends

An ApiVersions request of a version that is not served leaves BEGUN as it is, once: its client asks again (KIP-511). A handshake in KNOWN
begins a re-authentication, if the log-in counts for a limited time; the session goes on serving its requests meanwhile. It must be by the
same mechanism and for the same user (AUTHN-2). After a handshake of version 0 the client's next frames are tokens, without headers. A
message that the mechanism cannot read is answered as a failure (AUTHN-6).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from esp.authentication.credentials import CredentialLookup
from esp.authentication.errors import AuthenticationError, MalformedMessageError, UnexpectedMessageError
from esp.authentication.exchange import Check, Exchange, KeyWait, NewTokenWait, Outcome, SlowCheck, Success
from esp.authentication.plain import PlainExchange, PlainOverScramExchange
from esp.authentication.scram import ScramExchange
from esp.model.errors import MESSAGE_CHARACTERS_MAX, ErrorCode
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.model.shown_names import in_line, shown

_NOT_NOW: Final = "SaslAuthenticate request received after successful authentication"


class Stage(Enum):
    """The state of a connection; the module has the table."""

    BEGUN = auto()
    VERSIONS_TOLD = auto()
    SPEAKING = auto()
    KNOWN = auto()
    ENDED = auto()


class Ending(Enum):
    """The fate of the connection after an answer."""

    NONE = auto()
    AT_ONCE = auto()
    AFTER_DELAY = auto()
    """The answer and the end wait for the delay of failed log-ins."""
    SOON = auto()
    """They wait for that delay, but no longer than for a part of a second: the message is malformed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a SaslHandshake, a SaslAuthenticate or a token.

    Attributes:
        code: the error code.
        message: the text beside it.
        data: the mechanism's bytes for the client.
        lifetime_ms: the time for which the log-in counts; 0: no limit, or there is none yet.
        ending: the fate of the connection.
        reason: the fault, for the log, if there is one.
        is_success: True if the client has just been authenticated.
    """

    code: ErrorCode = ErrorCode.none
    message: str | None = None
    data: bytes = b""
    lifetime_ms: int = 0
    ending: Ending = Ending.NONE
    reason: str = ""
    is_success: bool = False


class Conversation:
    """One connection.

    Args:
        policy: the terms of its listener.
        lookup: finds credentials of SCRAM.
        make_nonce: as for :class:`~esp.authentication.scram.ScramExchange`.
        begin_oauth: begins an exchange of OAUTHBEARER, where that is one of the listener's mechanisms.
    """

    def __init__(
        self,
        policy: SaslPolicy,
        lookup: CredentialLookup,
        make_nonce: Callable[[], str],
        begin_oauth: Callable[[], Exchange] | None = None,
    ) -> None:
        self._policy = policy
        self._lookup = lookup
        self._make_nonce = make_nonce
        self._begin_oauth = begin_oauth
        self.stage = Stage.BEGUN
        self.speaks_tokens = False
        """True after a handshake of version 0, until the exchange has ended."""
        self.mechanism: SaslMechanism | None = None
        """The mechanism of the last handshake."""
        self.user: str | None = None
        """The user, as soon as it is known; it never changes after that."""
        self.groups: tuple[str, ...] = ()
        """The names of the user's groups, as the last log-in proved them."""
        self.is_by_token = False
        """True if the last log-in was by a delegation token."""
        self._is_limited = False
        """True if the last log-in counts for a limited time."""
        self._exchange: Exchange | None = None
        self._fault = ""
        """The reason of a failure of which the client has been told; it has not asked for the last answer yet."""
        self._asks_again = False
        self._is_checking = False

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that a client may choose."""
        return tuple(mechanism.value for mechanism in self._policy.mechanisms)

    def on_api_versions(self, *, is_served: bool) -> ErrorCode:
        """Return the code with which an ApiVersions request is to be answered before the client is known; other than none, it ends then.

        Args:
            is_served: whether its version is.

        Raises:
            UnexpectedMessageError: the connection ends without an answer.
        """
        if self.stage is Stage.SPEAKING:
            self.stage = Stage.ENDED
            return ErrorCode.illegal_sasl_state
        if self.stage is not Stage.BEGUN or (self._asks_again and not is_served):
            raise self._end("a second ApiVersions request before it was authenticated")
        if is_served:
            self.stage = Stage.VERSIONS_TOLD
        self._asks_again = True
        return ErrorCode.none

    def on_other_api(self, name: str) -> UnexpectedMessageError:
        """Return the error with which a request of any other API ends the connection before the client is known."""
        return self._end(f"a request of the API {name} before it was authenticated")

    def on_handshake(self, version: int, name: str) -> Reply:
        """Answer a SaslHandshake request.

        Args:
            version: of the request; after version 0 tokens follow without headers.
            name: the mechanism that the client chooses.

        Raises:
            UnexpectedMessageError: the connection ends without an answer.
        """
        if self.stage is Stage.SPEAKING:
            self.stage = Stage.ENDED
            return Reply(
                ErrorCode.illegal_sasl_state,
                ending=Ending.AT_ONCE,
                reason="a second SaslHandshake request in one log-in",
            )
        if self.stage is Stage.KNOWN:
            assert self.mechanism is not None, "a known client has chosen its mechanism"
            if not self._is_limited or not version:
                return Reply(ErrorCode.illegal_sasl_state)
            if name != self.mechanism.value:
                raise self._end(f"a re-authentication by {shown(name)} after a log-in by {self.mechanism.value}")
        elif self.stage is Stage.ENDED:
            raise self._end("a SaslHandshake request after a failed log-in")
        chosen = next((mechanism for mechanism in self._policy.mechanisms if mechanism.value == name), None)
        if chosen is None:
            self.stage = Stage.ENDED
            return Reply(
                ErrorCode.unsupported_sasl_mechanism,
                ending=Ending.AT_ONCE,
                reason=f"the mechanism {shown(name)} is not enabled",
            )
        self.stage = Stage.SPEAKING
        self.mechanism = chosen
        self.speaks_tokens = not version
        self._exchange = self._begin(chosen)
        return Reply()

    def on_message(self, message: bytes) -> Reply | Check:
        """Answer the mechanism's bytes, of a SaslAuthenticate request or a token; or return the check that must be made first.

        Raises:
            UnexpectedMessageError: the connection ends without an answer.
        """
        if self.stage is Stage.KNOWN:
            return Reply(ErrorCode.illegal_sasl_state, _NOT_NOW)
        if self.stage is not Stage.SPEAKING:
            raise self._end("a SaslAuthenticate request before a SaslHandshake request")
        if self._is_checking:
            raise self._end("a SaslAuthenticate request before the one before it was answered")
        assert self._exchange is not None, "a handshake begins it"
        try:
            return self._on_outcome(self._exchange.respond(message))
        except AuthenticationError as error:
            return self._fail(error)

    def on_checked(self, check: Check, is_right: bool) -> Reply | Check:
        """Answer the bytes whose check has this result, or return another check that must be made first."""
        self._is_checking = False
        if self.stage is not Stage.SPEAKING:
            return self._fail(
                AuthenticationError("the connection has ended while its password or its token was checked")
            )
        try:
            return self._on_outcome(check.conclude(is_right))
        except AuthenticationError as error:
            return self._fail(error)

    def on_given_up(self) -> Reply | None:
        """Return the failure of a log-in for whose last answer the client does not ask; None if it has been told of no failure.

        Some clients end the connection at the challenge of a refused token, and others take it for a success.
        """
        return self._fail(AuthenticationError(self._fault)) if self._fault else None

    def on_malformed(self) -> Reply:
        """Answer a SaslAuthenticate request that cannot be read."""
        if self.stage is not Stage.SPEAKING:
            raise self._end("a malformed SaslAuthenticate request")
        return self._fail(MalformedMessageError("a SaslAuthenticate request that cannot be read"))

    def _on_outcome(self, outcome: Outcome) -> Reply | Check:
        if isinstance(outcome, SlowCheck | KeyWait | NewTokenWait):
            self._is_checking = True
            return outcome
        if not isinstance(outcome, Success):
            self._fault = outcome.fault
            return Reply(data=outcome.data)
        if self.user is not None and outcome.user != self.user:
            text = f"Cannot change principals during re-authentication from User.{self.user}: User.{outcome.user}"
            reason = f"it would change its user from {in_line(self.user)} to {in_line(outcome.user)}"
            return self._fail(AuthenticationError(reason, text))
        assert self.mechanism is not None, "the handshake chose it"
        self.user = outcome.user
        self.groups = outcome.groups
        self.is_by_token = outcome.is_by_token
        self.stage = Stage.KNOWN
        self.speaks_tokens = False
        self._exchange = None
        limits_ms = (self._policy.max_reauth_ms.get(self.mechanism, 0), outcome.lifetime_ms)
        lifetime_ms = min((limit_ms for limit_ms in limits_ms if limit_ms), default=0)
        self._is_limited = lifetime_ms > 0
        return Reply(data=outcome.data, lifetime_ms=lifetime_ms, is_success=True)

    def _fail(self, error: AuthenticationError) -> Reply:
        self.stage = Stage.ENDED
        self._exchange = None
        self._fault = ""
        name = "" if self.mechanism is None else self.mechanism.value
        what = "authentication" if self.user is None else "re-authentication"
        text = f"Authentication failed during {what} due to invalid credentials with SASL mechanism {name}"
        return Reply(
            ErrorCode.sasl_authentication_failed,
            (error.message or text)[:MESSAGE_CHARACTERS_MAX],
            ending=Ending.SOON if isinstance(error, MalformedMessageError) else Ending.AFTER_DELAY,
            reason=error.reason,
        )

    def _end(self, reason: str) -> UnexpectedMessageError:
        self.stage = Stage.ENDED
        return UnexpectedMessageError(reason)

    def _begin(self, mechanism: SaslMechanism) -> Exchange:
        if mechanism.scram is not None:
            return ScramExchange(mechanism.scram, self._lookup, self._make_nonce)
        if mechanism is SaslMechanism.OAUTHBEARER:
            assert self._begin_oauth is not None, "the listener knows whose tokens it believes"
            return self._begin_oauth()
        users = self._policy.plain_users
        return PlainOverScramExchange(self._lookup) if users is None else PlainExchange(users)
