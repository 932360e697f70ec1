"""The time that the nodes' computations take in a run: jobs of worker threads, and turns of the loop."""

from dataclasses import dataclass
from typing import Final

from esp.simulation.machine.processor import ProcessorProfile
from esp.simulation.machine.workers import DEFAULT_WORKERS, WorkerProfile
from esp.simulation.streams import stream


@dataclass(frozen=True, slots=True)
class TimingProfile:
    """The distributions of these times."""

    workers: WorkerProfile = DEFAULT_WORKERS
    processor: ProcessorProfile | None = None
    """None: turns take no time."""

    @classmethod
    def draw(cls, seed: int) -> "TimingProfile":
        """The profile of a run."""
        return cls(WorkerProfile.draw(stream("workers", seed)), ProcessorProfile.draw(stream("processor", seed)))


DEFAULT_TIMING: Final = TimingProfile()
