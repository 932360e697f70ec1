"""One timer for a deadline that moves often, and mostly away."""

from collections.abc import Callable

from esp.ports.clock import Clock, Timer


class DeadlineTimer:
    """Calls back at the deadline, or soon after. A timer that would come too early is left in place, and looks again when it comes.

    Args:
        clock: the node's.
        due_us: says when the deadline is, in monotonic microseconds; None for never.
        on_due: called when it is there.
    """

    def __init__(self, clock: Clock, due_us: Callable[[], int | None], on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._due_us = due_us
        self._on_due = on_due
        self._timer: Timer | None = None
        self._set_for_us = 0

    def update(self) -> None:
        """The deadline may have moved."""
        due_us = self._due_us()
        if due_us is None:
            return
        if self._timer is not None:
            if self._set_for_us <= due_us:
                return
            self._timer.cancel()
        self._set_for_us = due_us
        self._timer = self._clock.call_later_us(max(0, due_us - self._clock.monotonic_us()), self._on_timer)

    def cancel(self) -> None:
        """Call back no more until the next :meth:`update`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        due_us = self._due_us()
        if due_us is not None and due_us <= self._clock.monotonic_us():
            self._on_due()
        else:
            self.update()
