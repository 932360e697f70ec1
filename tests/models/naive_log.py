"""A log as a list of batches: what the storage engine must look like from outside."""

from dataclasses import dataclass, field

from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header


@dataclass(frozen=True)
class NaiveBatch:
    data: bytes
    header: BatchHeader

    @classmethod
    def of(cls, data: bytes) -> "NaiveBatch":
        return cls(data, read_header(data))


@dataclass
class NaiveLog:
    """``batches`` are all that were ever appended and not cut off, also those that retention dropped."""

    batches: list[NaiveBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def append(self, data: bytes) -> None:
        batch = NaiveBatch.of(data)
        assert batch.header.base_offset >= self.end
        self.batches.append(batch)
        self.end = batch.header.next_offset

    def truncate_to(self, offset: int) -> None:
        """Cut off the batch that holds ``offset`` and what follows."""
        while self.batches and self.batches[-1].header.last_offset >= offset:
            self.end = min(offset, self.batches.pop().header.base_offset)

    def from_offset(self, offset: int) -> list[NaiveBatch]:
        return [batch for batch in self.batches if batch.header.last_offset >= offset]

    def epoch_of(self, offset: int) -> int | None:
        return next(
            (b.header.leader_epoch for b in self.batches if b.header.base_offset <= offset <= b.header.last_offset),
            None,
        )

    def find_timestamp(self, timestamp: int, end_offset: int) -> tuple[int, int, int] | None:
        """The first record that is not older, if it stands below ``end_offset``."""
        for batch in self.from_offset(self.start):
            for record in iterate_records(batch.data):
                if record.offset >= self.start and record.timestamp >= timestamp:
                    found = (record.timestamp, record.offset, batch.header.leader_epoch)
                    return found if record.offset < end_offset else None
        return None

    def producers(self) -> dict[int, tuple[int, list[tuple[int, int, int, int]]]]:
        """Per producer its epoch and its last five batches under it: first and last sequence, first and last offset."""
        states: dict[int, tuple[int, list[tuple[int, int, int, int]]]] = {}
        for batch in self.batches:
            header = batch.header
            if header.producer_id < 0:
                continue
            epoch, kept = states.get(header.producer_id, (header.producer_epoch, []))
            if epoch != header.producer_epoch:
                kept = []
            kept = [*kept, (header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)][-5:]
            states[header.producer_id] = header.producer_epoch, kept
        return states
