"""Askers of share coordinators that give up after seconds: else a write fails after half a minute, when most faults are over."""

import contextlib
from collections.abc import Iterator

from esp.broker.share_states import persister


@contextlib.contextmanager
def impatience(patience_s: float) -> Iterator[None]:
    """Let questions to share coordinators be asked again for so long until the block ends."""
    before = persister.GIVE_UP_US
    persister.GIVE_UP_US = int(patience_s * 1_000_000)  # type: ignore[misc]  # a constant of the product
    try:
        yield
    finally:
        persister.GIVE_UP_US = before  # type: ignore[misc]
