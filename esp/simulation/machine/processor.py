"""The time that the turns of a simulated process's loop take.

Virtual time stands still while a turn of the loop runs. Where turns cost time, the process has it *ahead* of virtual time: its clocks show
more with every look at them, what it sends leaves later, and its timers count from there. When the turn is over, the process is busy until
virtual time has come that far: what became due meanwhile is late. The process's worker threads, and all others, go on.

Now and then something takes up to a second: a collection of garbage, a page that has to come from the disk, a virtual machine that is
not given its processor. It may come between two looks at a clock, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.simulation.machine.disk_faults import Operation

STALL_S: Final = (0.005, 1.0)
"""Least and most of what holds up a loop now and then."""

_TURN_MAX_S: Final = 1.0
"""The most that a turn may take: one that waits for a device many times over is cut short."""


@dataclass(frozen=True, slots=True)
class ProcessorProfile:
    """The speed of the processors of a run's nodes."""

    turn_us_mean: int
    """The time that a turn of the loop takes by itself."""
    turns_between_stalls: int
    """On the average."""

    @classmethod
    def draw(cls, rng: Random) -> "ProcessorProfile | None":
        """A profile by seed; None where turns take no time."""
        if rng.random() >= SHARE:
            return None
        return cls(turn_us_mean=rng.choice((50, 300, 1000)), turns_between_stalls=rng.choice((100, 500, 3000)))


SHARE: Final = 0.35
"""The share of the runs in which turns of the loop take time."""


class LoopProcessor:
    """The processor of one process's loop.

    Args:
        rng: its own stream.
        profile: how fast it is.
        device_us: how long the device takes for a sync, in microseconds.
    """

    def __init__(self, rng: Random, profile: ProcessorProfile, device_us: Callable[[], int]) -> None:
        self.ahead_s = 0.0
        """The time that the present turn has taken so far."""
        self.stalls = True
        """True if something takes long now and then; assignable at any time."""
        self._rng = rng
        self._profile = profile
        self._device_us = device_us
        self._look_s = profile.turn_us_mean / 5_000_000

    def look(self) -> float:
        """A clock is looked at: return how many seconds it is ahead of virtual time."""
        rng = self._rng
        self.ahead_s += rng.random() * self._look_s
        if self.stalls and rng.random() * self._profile.turns_between_stalls * 5 < 1:
            self._stall()
        return self.ahead_s

    def on_operation(self, operation: Operation | None) -> None:
        """The loop itself does something on the disk; for a sync it waits for the device."""
        if operation == "sync":
            self.ahead_s = min(_TURN_MAX_S, self.ahead_s + self._device_us() / 1_000_000)

    def end_turn(self) -> float:
        """See :class:`esp.simulation.machine.loop.Processor`."""
        rng = self._rng
        if self.stalls and rng.random() * self._profile.turns_between_stalls < 1:
            self._stall()
        took_s = self.ahead_s + rng.random() * 2 * self._profile.turn_us_mean / 1_000_000
        self.ahead_s = 0.0
        return took_s

    def _stall(self) -> None:
        low_s, high_s = STALL_S
        self.ahead_s += low_s * (high_s / low_s) ** self._rng.random()
