"""The keys by which a provider signs tokens, and the times at which they are fetched. Pure: fetches are made outside.

Keys stay in force until others have come in their place, however long the provider is away. They are fetched again after a while; a fetch
that has failed is repeated after a delay that doubles. A token with a key that is not known has the keys fetched at once, unless that was
done a moment ago: the delay between such fetches doubles too, so that made-up keys cost the provider one request in
``backoff_max_ms`` (AUTHN-8).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

_US: Final = 1_000


class SigningKey(Protocol):
    """A public key of a provider."""

    @property
    def kid(self) -> str | None:
        """Its name; None if it has none."""


KeyT = TypeVar("KeyT", bound=SigningKey)


class SigningKeys(Generic[KeyT]):
    """The keys of one provider.

    Args:
        refresh_ms: the time after which they are fetched again.
        backoff_ms: the first delay after a fetch that was of no use.
        backoff_max_ms: the longest.
        now_us: the time, monotonic; the first fetch is due at once.
    """

    def __init__(self, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, now_us: int) -> None:
        self._refresh_us = refresh_ms * _US
        self._backoff_us = backoff_ms * _US
        self._backoff_max_us = max(backoff_ms, backoff_max_ms) * _US
        self._keys: tuple[KeyT, ...] | None = None
        self._delay_us = self._backoff_us
        self._failed_delay_us = self._backoff_us
        self._unknown_from_us = now_us
        """The time from which on an unknown key has the keys fetched."""
        self.due_us = now_us
        """The time at which the keys are to be fetched, whatever tokens come."""
        self.is_fetching = False
        """True while a fetch is made."""

    @property
    def are_there(self) -> bool:
        """True if keys have come once."""
        return self._keys is not None

    def find(self, kid: str | None, fits: Callable[[KeyT], bool]) -> Sequence[KeyT]:
        """Return the keys that may have signed a token.

        Args:
            kid: the name of the key in the token; None: any key.
            fits: whether a key can be one of the token's algorithm.
        """
        return [key for key in self._keys or () if kid in (None, key.kid) and fits(key)]

    def may_fetch(self, now_us: int) -> bool:
        """True if an unknown key has the keys fetched now."""
        return now_us >= self._unknown_from_us

    def begin(self, now_us: int) -> None:
        """A fetch begins; there is one at a time."""
        assert not self.is_fetching, "one fetch is made at a time"
        self.is_fetching = True
        self._unknown_from_us = now_us + self._delay_us
        self._delay_us = min(self._delay_us * 2, self._backoff_max_us)

    def on_fetched(self, keys: Iterable[KeyT], now_us: int) -> None:
        """The keys have come. Others than before end the delays."""
        self.is_fetching = False
        before, self._keys = self._keys, tuple(keys)
        self._failed_delay_us = self._backoff_us
        self.due_us = now_us + self._refresh_us
        if before is None or {key.kid for key in before} != {key.kid for key in self._keys}:
            self._delay_us = self._backoff_us

    def on_failed(self, now_us: int) -> None:
        """The keys have not come; those that are there stay."""
        self.is_fetching = False
        self.due_us = now_us + self._failed_delay_us
        self._failed_delay_us = min(self._failed_delay_us * 2, self._backoff_max_us)
