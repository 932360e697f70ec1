"""The server's side of one exchange of a mechanism: a message comes, and a challenge, a success or a check is the outcome."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Challenge(NamedTuple):
    """The exchange goes on: the client is to answer these bytes."""

    data: bytes
    fault: str = ""
    """The reason of the failure that comes with the next answer, if these bytes tell the client of one; it may end the exchange at that."""


class Success(NamedTuple):
    """The client is authenticated."""

    user: str
    data: bytes = b""
    """The last bytes of the exchange for the client."""
    lifetime_ms: int = 0
    """The time after which the credential ends, and the log-in with it; 0: it does not end."""
    groups: tuple[str, ...] = ()
    """The names of the user's groups, where the mechanism proves them."""
    is_by_token: bool = False
    """True if the credential is a delegation token."""


class SlowCheck(NamedTuple):
    """A password is to be checked by a computation that would hold up the loop."""

    is_right: Callable[[], bool]
    """Does it; it may be called in another thread."""
    conclude: "Callable[[bool], Success | NewTokenWait]"
    """Takes its result. AuthenticationError: the client is not authenticated."""


class KeyWait(NamedTuple):
    """Keys are to be fetched before a token can be judged."""

    conclude: Callable[[bool], Success | Challenge]
    """Called when they have been, or cannot be fetched now (False). AuthenticationError: the client is not authenticated."""


class NewTokenWait(NamedTuple):
    """A log-in by a delegation token fails as far as this node knows; a token that was just made at another one is known here soon."""

    is_known: Callable[[], bool]
    """True if the token has come meanwhile."""
    conclude: Callable[[bool], Success | SlowCheck]
    """Called then, or after a while. AuthenticationError: the client is not authenticated."""


Check = SlowCheck | KeyWait | NewTokenWait
"""Work that is done before the exchange goes on; its result is given to ``conclude``."""

Outcome = Challenge | Success | Check


class Exchange(Protocol):
    """One log-in as the server. It ends with a success or an AuthenticationError, and takes no message after that."""

    def respond(self, message: bytes) -> Outcome:
        """Take the client's next message.

        Raises:
            AuthenticationError: the client is not authenticated.
        """
