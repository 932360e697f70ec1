"""How far the reading or writing of one message is, in slices: who does it yields after each, so that others can have their turn.

A message that nobody could want is refused while its first elements are read: what is built of bytes takes up to a hundred times the memory
of the bytes.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeVar

from esp.protocol.errors import DecodeError

SLICE_ELEMENTS: Final = 4
"""Elements of arrays between two yields: some tens of microseconds."""

AT_ONCE_ELEMENTS: Final = 64
"""Of topics and partitions of a Produce or Fetch request before the first yield; it has no second slice if there are no more."""

ELEMENTS_MAX: Final = 500_000
"""Of one message, all arrays together: more than a cluster has partitions. Kafka tries to answer more, and needs gigabytes for it."""

Result = TypeVar("Result")
Item = TypeVar("Item")

SlicedWork = Generator[None, None, Result]
"""Work that yields after each slice, and returns its result."""


class Progress:
    """How far one message is.

    Args:
        first: elements before the first yield.
    """

    __slots__ = ("elements_left", "left")

    def __init__(self, first: int = SLICE_ELEMENTS) -> None:
        self.left = first
        """Elements before the next yield."""
        self.elements_left = ELEMENTS_MAX
        """Elements that the message may still have."""

    def count_one(self) -> bool:
        """Go on to the next element; whether to yield before it."""
        self.left -= 1
        if self.left >= 0:
            return False
        self.left = SLICE_ELEMENTS - 1
        return True

    def take(self, count: int) -> None:
        """Account for an array of that many elements.

        Raises:
            DecodeError: the message has too many.
        """
        self.elements_left -= count
        if self.elements_left < 0:
            raise DecodeError(f"the message has more than {ELEMENTS_MAX} elements")


def begin(work: SlicedWork[Result]) -> Result | SlicedWork[Result]:
    """Do the first slice of the work: return, or raise, what it does if that is all of it, else the work."""
    try:
        next(work)
    except StopIteration as end:
        result: Result = end.value
        return result
    return work


def whole(work: SlicedWork[Result]) -> Result:
    """Do all of the work in one go, and return, or raise, what it does."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


def slices(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items, as many at a time as a slice has."""
    for start in range(0, len(items), SLICE_ELEMENTS):
        yield items[start : start + SLICE_ELEMENTS]
