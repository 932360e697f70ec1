"""Errors of record batches that are read as columns; each names the partition and the offset."""

from typing import NamedTuple


class Place(NamedTuple):
    """The partition that bytes come from, for messages."""

    topic: str
    partition: int


class BrokenBatchError(Exception):
    """A batch that was read is not the one that was written, or has a form that is not known.

    Args:
        place: the partition.
        offset: the base offset of the batch, as its header has it.
        reason: the fault.
    """

    def __init__(self, place: Place, offset: int, reason: str) -> None:
        super().__init__(place, offset, reason)
        self.place = place
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"topic {self.place.topic}, partition {self.place.partition}: the batch at offset {self.offset} is broken: "
            f"{self.reason}"
        )


class BrokenRecordsError(Exception):
    """Records are not where their batch says; the text is the reason. It becomes a :class:`BrokenBatchError` where the batch is known."""
