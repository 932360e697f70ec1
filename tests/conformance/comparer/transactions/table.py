"""All scenes, in the order in which they are played: the last ones need brokers that :func:`prepare` has stopped once."""

from collections.abc import Iterable
from typing import Final

from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions import (
    adding,
    committing_offsets,
    compacting,
    ending,
    exhausting,
    initialising,
    looking,
    marking,
    reading,
    writing,
)

SCENES: Final[tuple[Scene, ...]] = (
    *initialising.SCENES,
    *adding.SCENES,
    *ending.SCENES,
    *writing.SCENES,
    *compacting.SCENES,
    *committing_offsets.SCENES,
    *marking.SCENES,
    *looking.SCENES,
    *reading.SCENES,
    *exhausting.SCENES,
)


def prepare(targets: Iterable[Target], plays: Iterable[tuple[Scene, int]]) -> None:
    """Bring what these scenes cannot make by requests into the brokers' logs."""
    exhausted = [play for play in plays if play[0] in exhausting.SCENES]
    if exhausted:
        for target in targets:
            exhausting.exhaust(target, exhausted)
