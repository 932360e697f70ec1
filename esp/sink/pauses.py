"""The pauses between the attempts of a producer. Pure.

Two producers of one transactional id fence each other, and the later one can only commit if the other waits for as long as its attempt
takes, which neither of them knows. So the pause behind a fenced attempt grows until it is long enough.
"""

from collections.abc import Callable
from typing import Final

PAUSE_MOST_S: Final = 30.0
"""The longest pause, unless an attempt had taken more than half of it when it was fenced: then twice as long."""


class Pauses:
    """The pauses of a producer.

    Args:
        backoff_s: the mean pause behind an attempt that failed otherwise, and the least behind one that was fenced.
        draw: returns a number from 0 to 1 by chance.
    """

    def __init__(self, backoff_s: float, draw: Callable[[], float]) -> None:
        self._backoff_s = backoff_s
        self._draw = draw
        self._fenced_s = 2 * backoff_s

    def after_failure(self) -> float:
        """Return the seconds until the attempt behind one that failed, and was not fenced."""
        return 2 * self._backoff_s * self._draw()

    def after_fence(self, attempt_s: float) -> float:
        """Return the seconds until the attempt behind one that was fenced: more than half of a time that doubles with each fence.

        Args:
            attempt_s: the time that the attempt took until it was fenced. The one that fenced it takes as long at least, if they
                write the same rows.
        """
        most_s = max(self._fenced_s, 2 * attempt_s)
        self._fenced_s = min(2 * most_s, PAUSE_MOST_S)
        return most_s * (1 + self._draw()) / 2
