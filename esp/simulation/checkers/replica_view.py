"""One replica as its files show it: which batches stand there, read from the simulated disk and not from the log that wrote them.

A view belongs to one life of a node. It is brought up to date after each turn in which the node did something; reading costs what is new.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crc32c import crc32c

from esp.model.ids import TopicId
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, BatchHeader, read_header
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.file_content import FileContent
from esp.simulation.workload.batch_mark import BatchMark
from esp.storage.layout import LOG_START_FILE


class BatchView(NamedTuple):
    """A batch on a disk: its place in the log and in its file, and what identifies it."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_control: bool
    content: FileContent
    position: int
    size: int

    def is_same(self, other: "BatchView") -> bool:
        """True if both are copies of one batch: the checksum does not cover offset and epoch."""
        return self[:4] == other[:4]

    @property
    def mark(self) -> BatchMark:
        """Its mark, which no other batch that was sent has."""
        return BatchMark(self.crc, self.size, self.producer_id, self.base_sequence)

    def still_stands(self) -> bool:
        """True if its file holds it still."""
        cached = self.content.cached
        if len(cached) < self.position + self.size:
            return False
        header = _header(self.content, self.position)
        return (header.base_offset, header.leader_epoch, header.crc) == (self.base_offset, self.leader_epoch, self.crc)

    def is_durable(self) -> bool:
        """True if the device has every byte of it."""
        end = self.position + self.size
        return self.content.durable[self.position : end] == self.content.cached[self.position : end]

    def is_whole(self) -> bool:
        """True if the bytes that were written there match its checksum."""
        data = self.content.written(self.position, self.position + self.size)
        return crc32c(data[ATTRIBUTES_OFFSET:]) == self.crc

    def written(self) -> bytes:
        """The bytes that were written there."""
        return bytes(self.content.written(self.position, self.position + self.size))

    def is_rotten(self) -> bool:
        """True if its file holds something else than was written."""
        return self.content.is_rotten(self.position, self.position + self.size)

    def __str__(self) -> str:
        return f"{self.base_offset}-{self.next_offset - 1} of epoch {self.leader_epoch}, crc {self.crc:08x}"


class ReplicaView:
    """The batches of one replica, as its files hold them.

    Args:
        who: for reports: node and partition.
        disk: the node's.
        path: the replica's directory.
        topic_id: of its topic.
        start_offset: the log's first offset.
    """

    def __init__(self, who: str, disk: SimulatedDisk, path: str, topic_id: TopicId, start_offset: int) -> None:
        self.who = who
        self.path = path
        self.topic_id = topic_id
        self.batches: list[BatchView] = []
        self.end_offset = start_offset
        self.high_watermark = start_offset
        self.log_start_offset = start_offset
        self.recovery_point = start_offset
        self.judged_from = start_offset
        """Records below it were found after a failed sync: the device may lack them, and the node cannot know (SYNC-1)."""
        self.replaced_below = 0
        """The end of the segments of which a compacted one is taking the place."""
        self.leader: object = None
        """The core that led the partition when it was last looked at."""
        self._disk = disk
        self._bases: list[int] = []
        self._epochs: list[tuple[int, int]] = []
        """Each leader epoch of the batches, which never falls from one to the next, and the base offset of its first batch."""
        self._producers: dict[int, tuple[int, int, int]] = {}
        self._folded = 0
        """The number of batches whose producers are in it."""
        self._paths: dict[FileContent, str] = {}
        self._content: FileContent | None = None
        self._position = 0

    def read_to(self, end_offset: int) -> list[BatchView]:
        """Read on up to ``end_offset``, which the log says it has; returns what is new.

        Raises:
            ViolationError: the files do not hold it.
        """
        first = len(self.batches)
        while self.end_offset < end_offset:
            batch = self._next()
            if batch is None or batch.next_offset > end_offset:
                raise ViolationError(
                    "INV-ORDER",
                    self.who,
                    f"the log ends at {end_offset}, its files have {batch or self.end_offset}",
                )
            self._add(batch)
        return self.batches[first:]

    def read_rest(self) -> list[BatchView]:
        """Return the sound batches that stand behind the end of the log: a process may die between a write and its bookkeeping."""
        found: list[BatchView] = []
        content, position, end_offset = self._content, self._position, self.end_offset
        while True:
            if content is None or (position == len(content.cached) and position):
                content, position = self._disk.content(f"{self.path}/{end_offset:020d}.log"), 0
            if content is None or position + HEADER_SIZE > len(content.cached):
                return found
            header = _header(content, position)
            data = content.cached[position : position + header.size]
            if header.base_offset != end_offset or len(data) < header.size or header.size < HEADER_SIZE:
                return found
            if crc32c(bytes(data[ATTRIBUTES_OFFSET:])) != header.crc:
                return found
            found.append(_view(content, position))
            position += header.size
            end_offset = header.next_offset

    def read_front(self) -> list[BatchView]:
        """Return the sound batches before the first one of the view in the same file: a log may begin within a segment."""
        if not self._disk.exists(self.path):
            return []
        content, end = self._find_place(self.batches[0].base_offset if self.batches else self.end_offset)
        found: list[BatchView] = []
        position = 0
        while content is not None and position < end:
            batch = _view(content, position)
            if batch.is_whole() and not batch.is_rotten():
                found.append(batch)
            position += batch.size
        return found

    def has_unreadable_start(self) -> bool:
        """True if the file with the log start has rotted: the next process takes it for absent (REC-6)."""
        content = self._disk.content(f"{self.path.rpartition('/')[0]}/{LOG_START_FILE}")
        return content is not None and bool(content.rotten)

    def cut(self, start_offset: int, end_offset: int) -> bool:
        """Forget what is no longer there, of a log that has these ends; returns whether that was anything."""
        if not self.batches and self.end_offset > end_offset:  # an empty log that begins anew at an earlier offset
            self.restart(min(start_offset, end_offset))
            return True
        count = len(self.batches)
        while self.batches and (self.batches[-1].next_offset > end_offset or not self._stands(self.batches[-1])):
            self.batches.pop()
            base_offset = self._bases.pop()
            if self._epochs[-1][1] == base_offset:
                self._epochs.pop()
        if len(self.batches) == count:
            return False
        self._forget_producers()
        if self.batches:
            last = self.batches[-1]
            self.end_offset = last.next_offset
            self._content, self._position = last.content, last.position + last.size
        else:
            self.restart(min(start_offset, end_offset))
        return True

    def standing_end(self) -> int:
        """The end of the log in its files as they are: a process may have died while it was cutting them."""
        for batch in reversed(self.batches):
            if self._stands(batch):
                return batch.next_offset
        return min(self.log_start_offset, self.end_offset)

    def sound_end(self) -> int:
        """The end of what stands before the first batch of which something has rotted; the log end if none has.

        In a compacted log a batch may begin later than the one before it ends.
        """
        end_offset: int | None = None
        for batch in self.batches:
            if batch.content.rotten and batch.is_rotten():
                return batch.base_offset if end_offset is None else end_offset
            end_offset = batch.next_offset
        return self.end_offset

    def _stands(self, batch: BatchView) -> bool:
        """True if a batch is where it was: a file may have been cut, or another one may have taken its place."""
        if batch.base_offset < self.replaced_below:
            return True
        return batch.still_stands() and self._disk.content(self._paths[batch.content]) is batch.content

    def move(self, path: str, start_offset: int) -> None:
        """The log stands in another directory from now on: read everything there again, up to its recovery point from the device."""
        self.path = path
        self.recovery_point = start_offset
        self._paths.clear()
        self.restart(start_offset)

    def restart(self, offset: int) -> None:
        """Forget everything; the log begins anew at ``offset``."""
        self.batches.clear()
        self._bases.clear()
        self._epochs.clear()
        self._forget_producers()
        self.end_offset = offset
        self._content = None

    def find(self, base_offset: int) -> BatchView | None:
        """The batch that begins at an offset, or None."""
        index = bisect_left(self._bases, base_offset)
        return self.batches[index] if index < len(self._bases) and self._bases[index] == base_offset else None

    def from_offset(self, offset: int) -> list[BatchView]:
        """All batches from the one that begins at ``offset``, or after it, on."""
        return self.batches[bisect_left(self._bases, offset) :]

    def before(self, offset: int) -> BatchView | None:
        """The batch that begins before an offset and ends there or later, or None."""
        index = bisect_left(self._bases, offset) - 1
        return self.batches[index] if index >= 0 and offset <= self.batches[index].next_offset else None

    def epochs(self, start_offset: int) -> list[tuple[int, int]]:
        """The leader epochs of the batches of a log that starts there, with the offset at which each begins; what does not change since the
        last call is not looked at again.
        """
        index = max(0, bisect_right(self._bases, start_offset) - 1)
        if index < len(self.batches) and self.batches[index].next_offset <= start_offset:
            index += 1
        if index >= len(self.batches):
            return []
        first = self.batches[index]
        later = self._epochs[bisect_right(self._epochs, (first.leader_epoch, first.base_offset)) :]
        return [(first.leader_epoch, max(first.base_offset, start_offset)), *later]

    def producers(self) -> Mapping[int, tuple[int, int, int]]:
        """The fold of all batches (:func:`fold_producers`); each batch is folded once."""
        fold_producers(self.batches[self._folded :], self._producers)
        self._folded = len(self.batches)
        return self._producers

    def _forget_producers(self) -> None:
        self._producers.clear()
        self._folded = 0

    def _add(self, batch: BatchView) -> None:
        self.batches.append(batch)
        self._bases.append(batch.base_offset)
        if not self._epochs or batch.leader_epoch > self._epochs[-1][0]:
            self._epochs.append((batch.leader_epoch, batch.base_offset))
        self.end_offset = batch.next_offset
        self._content, self._position = batch.content, batch.position + batch.size

    def _next(self) -> BatchView | None:
        content, position = self._content, self._position
        if content is None or position + HEADER_SIZE > len(content.cached):
            content, position = self._find_place(self.end_offset)
            if content is None or position + HEADER_SIZE > len(content.cached):
                return None
        return _view(content, position)

    def _find_place(self, offset: int) -> tuple[FileContent | None, int]:
        """The segment in which the batch of an offset stands, or will stand, and where; a log may begin within a segment."""
        names = [name for name in self._disk.listdir(self.path) if name.endswith(".log") and int(name[:-4]) <= offset]
        path = f"{self.path}/{names[-1]}" if names else self.path
        content = self._disk.content(path)
        position = 0
        if content is not None:
            self._paths[content] = path
        while content is not None and position + HEADER_SIZE <= len(content.cached):
            header = _header(content, position)
            if header.next_offset > offset or header.size < HEADER_SIZE:
                break
            position += header.size
        return content, position


def fold_producers(batches: Iterable[BatchView], states: dict[int, tuple[int, int, int]]) -> None:
    """Take batches into ``states``: epoch, last sequence and last offset of each producer; a marker of a newer epoch leaves neither of the
    latter.
    """
    for batch in batches:
        if batch.is_control:
            before = states.get(batch.producer_id)
            if before is None or before[0] != batch.producer_epoch:
                states[batch.producer_id] = (batch.producer_epoch, -1, -1)
        elif batch.producer_id >= 0:
            count = batch.next_offset - batch.base_offset
            has_sequence = batch.base_sequence >= 0  # which coordinators leave out
            last_sequence = (batch.base_sequence + count - 1) & 0x7FFFFFFF if has_sequence else -1
            states[batch.producer_id] = (batch.producer_epoch, last_sequence, batch.next_offset - 1)


def _header(content: FileContent, position: int) -> BatchHeader:
    """The header of a batch as it was written."""
    if content.rotten:
        return read_header(content.written(position, position + HEADER_SIZE))
    return read_header(content.cached, position)


def _view(content: FileContent, position: int) -> BatchView:
    header = _header(content, position)
    return BatchView(
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        header.crc,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_control,
        content,
        position,
        header.size,
    )
