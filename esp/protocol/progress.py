"""Progress in reading or writing one message, in slices: a reader or writer yields after each, so that other work can have its turn.

A message with more elements than any client needs is refused while its first elements are read: the objects built of bytes take up to a
hundred times the memory of the bytes.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeVar

from esp.protocol.errors import DecodeError

SLICE_ELEMENTS: Final = 4
"""Elements of arrays between two yields: some tens of microseconds."""

AT_ONCE_ELEMENTS: Final = 64
"""The elements of a Produce or Fetch request's topics and partitions before the first yield; a message with no more has no second slice."""

ELEMENTS_MAX: Final = 500_000
"""The most elements of one message, all arrays together: more than a cluster has partitions. Kafka tries to answer more, and needs
gigabytes for it."""

Result = TypeVar("Result")
Item = TypeVar("Item")

SlicedWork = Generator[None, None, Result]
"""Work that yields after each slice, and returns its result."""


class Progress:
    """The progress in one message.

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
        """Go on to the next element; return True if the caller is to yield before it."""
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
    """Do the first slice of the work: if that is all of it, return its result or raise its error; otherwise return the work."""
    try:
        next(work)
    except StopIteration as end:
        result: Result = end.value
        return result
    return work


def whole(work: SlicedWork[Result]) -> Result:
    """Do all of the work in one go, and return its result or raise its error."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


def slices(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items, a slice's number of elements at a time."""
    for start in range(0, len(items), SLICE_ELEMENTS):
        yield items[start : start + SLICE_ELEMENTS]
