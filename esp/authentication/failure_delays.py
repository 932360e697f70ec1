"""The delay after which a failed log-in is answered, by the address that it came from.

An address begins with the delay of the settings. Each failure beyond the first few doubles it, up to :data:`DELAY_MS_MAX`; each
:data:`FORGIVING_US` without a failure takes one back. A success takes none back: an attacker may know one password of his own.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

DELAY_MS_MAX: Final = 5_000
"""Half of what clients wait for a connection by default: with more they would give up before they hear that their log-in is wrong."""
MALFORMED_DELAY_MS_MAX: Final = 500
"""The longest delay of a malformed message, also where the settings have a longer one."""
FREE_FAILURES: Final = 5
"""Failures of an address before its delay grows: a person at a keyboard, or a few clients that were given an old password."""
FORGIVING_US: Final = 10_000_000
ADDRESSES_MAX: Final = 10_000
"""The most addresses that are remembered; the one that has not failed for longest is forgotten first."""
_FAILURES_MAX: Final = 30


class _Failures(NamedTuple):
    number: int
    last_us: int


class FailureDelays:
    """The failures of all addresses of a node."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def on_failure(self, host: str, now_us: int, first_delay_ms: int, *, is_malformed: bool = False) -> int:
        """Count a failure, and return the milliseconds after which it is answered.

        Args:
            host: the address that it came from, without the port.
            now_us: the time, monotonic.
            first_delay_ms: the delay of a first failure; 0: there is never a delay.
            is_malformed: the client's message was none of its mechanism. It guesses no password, so that nothing is won by a long delay,
                and its client is told within a second, whatever the address has done before (AUTHN-6).
        """
        before = self._failures.pop(host, _Failures(0, now_us))
        forgiven = (now_us - before.last_us) // FORGIVING_US
        count = min(max(0, before.number - forgiven) + 1, _FAILURES_MAX)
        self._failures[host] = _Failures(count, now_us)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        if is_malformed:
            return min(first_delay_ms, MALFORMED_DELAY_MS_MAX)
        return min(first_delay_ms << max(0, count - FREE_FAILURES), max(first_delay_ms, DELAY_MS_MAX))
