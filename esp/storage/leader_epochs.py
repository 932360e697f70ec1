"""The start offset of each leader epoch of a log (LOG-7..11; Kafka's ``LeaderEpochFileCache``).

Epochs and start offsets both rise strictly. The file is written by the log that owns the object:
a ``version`` that it did not write yet says that it is due.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from esp.model.errors import CorruptionError

UNDEFINED: Final = (-1, -1)
"""The answer for an epoch of which nothing is known: Kafka's undefined epoch and offset."""


class LeaderEpochs:
    """The (epoch, start offset) entries of one log.

    Args:
        entries: in rising order of both.
    """

    __slots__ = ("_epochs", "_starts", "latest", "version")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest: int | None = None
        """The last entry's epoch."""
        self.version = 0
        """Rises with every change."""
        for epoch, start in entries:
            self._epochs.append(epoch)
            self._starts.append(start)
        self._update_latest()

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs":
        """Read the file's text.

        Raises:
            CorruptionError: it is no such file, or not in order.
        """
        try:
            version, count, *lines = data.decode("ascii").splitlines()
            entries = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
            if int(version) != 0 or int(count) != len(entries):
                raise CorruptionError(f"version {version} with {count} entries announced and {len(entries)} there")
        except ValueError as error:
            raise CorruptionError(f"not a leader epoch file: {error}") from error
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if epoch >= next_epoch or start >= next_start:
                raise CorruptionError(f"epoch {next_epoch} from {next_start} on follows epoch {epoch} from {start} on")
        return cls(entries)

    def encode(self) -> bytes:
        """The file's text."""
        lines = ["0", str(len(self._epochs)), *(f"{epoch} {start}" for epoch, start in self.entries())]
        return ("\n".join(lines) + "\n").encode()

    def entries(self) -> list[tuple[int, int]]:
        """Return the entries (epoch, start offset), both rising."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> None:
        """Note that ``epoch`` begins at ``start`` (LOG-8): entries that cannot stand before it go."""
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start))
        self._cut(keep)
        assert not self._epochs or (self._epochs[-1] < epoch and self._starts[-1] < start), "epochs rise (LOG-7)"
        self._epochs.append(epoch)
        self._starts.append(start)
        self.version += 1
        self._update_latest()

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after ``end_offset`` (LOG-9)."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._cut(keep)
            self.version += 1
            self._update_latest()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end below ``start_offset``, but for that of the record just before it (LOG-9).

        Beyond Kafka: a log that ends at this log's start is compared by that epoch (TRUNC-3).
        """
        before = bisect_left(self._starts, start_offset) - 1
        if before > 0:
            del self._epochs[:before]
            del self._starts[:before]
            self.version += 1

    def clear(self) -> None:
        """Forget everything: the log starts anew elsewhere."""
        self._cut(0)
        self.version += 1
        self._update_latest()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to ``epoch``, and where the next one begins (LOG-11); :data:`UNDEFINED` if the asker is ahead."""
        if epoch < 0:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_of(self, offset: int) -> int | None:
        """The epoch under which the record at ``offset`` was written, as far as is known."""
        place = bisect_right(self._starts, offset)
        return self._epochs[place - 1] if place else None

    def _cut(self, count: int) -> None:
        del self._epochs[count:]
        del self._starts[count:]

    def _update_latest(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else None
