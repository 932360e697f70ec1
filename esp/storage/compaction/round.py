"""A round of compaction of a log, in steps (Kafka's ``Cleaner``).

The first pass learns the keys of the dirty part from its end on backwards: the first record of a key that it meets is the latest one, which
stays. Where memory does not suffice for all keys, the pass begins anew with as many offsets from the start of the dirty part on as it had
got through, so that a round cleans a first part of it whole. The second pass copies all segments up to the end of that part without the
superseded records, each batch read once and in its order (CLEAN-4).

A round computes from values (:class:`RoundPlan`): it reads segments that do not change any more, and writes files beside them. So it runs
in a worker thread or in a process of its own, a few chunks at a time, while the owner of the log appends, reads, flushes, and drops
segments from the front. The owner puts the results in place (:class:`esp.storage.compaction.cleaning.LogRound`).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.ports.disk import Disk
from esp.records.batch_header import BatchHeader, read_header
from esp.records.keyed import index_keys
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.storage.compaction.choice import Cleanable, GroupedSegment, group_segments
from esp.storage.compaction.chunks import (
    Chunk,
    Place,
    find_places,
    iterate_chunks_back_blocking,
    iterate_chunks_blocking,
)
from esp.storage.compaction.fates import ANY_BATCH, Aborted, Fates, open_batch
from esp.storage.compaction.key_set import KeySet
from esp.storage.compaction.output import CleanedSegment, LeftAloneError
from esp.storage.compaction.survivors import Survivors
from esp.storage.layout import INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX
from esp.storage.offset_index import OffsetIndex
from esp.storage.producer_state import BATCHES_KEPT, ProducerStates
from esp.storage.segment import Segment
from esp.storage.transaction_index import AbortedTransaction


class CleanerLimits(NamedTuple):
    """The memory of a round in bytes: for its keys, and for one chunk that is read."""

    map_bytes: int
    chunk_bytes: int


@dataclass(slots=True)
class RoundCounts:
    """The work of a round so far, in bytes, but for ``batches_malformed`` and ``map_utilization``."""

    bytes_read: int = 0
    bytes_written: int = 0
    bytes_before: int = 0
    """The bytes of the segments that were replaced."""
    bytes_after: int = 0
    batches_malformed: int = 0
    map_utilization: float = 0.0
    """The part of the memory for keys that was used; 1 if it did not suffice for all."""
    memory_bytes: int = 0
    """The most memory that the round has held at one time: the keys, the chunk that was read, and the one that is written of it."""


class RoundPlan(NamedTuple):
    """The values from which a round computes, as they are when it begins."""

    segments: Sequence[Segment]
    """The log's, up to the end of the dirty part."""
    settings: TopicSettings
    cleanable: Cleanable
    limits: CleanerLimits
    now_ms: int
    """Wall time."""
    aborted: Sequence[AbortedTransaction]
    """The aborted transactions below the end of the dirty part."""
    producers: Mapping[int, tuple[int, ...]]
    """The ends of the last batches of each producer that the log knows."""
    markers: Mapping[int, int]
    """The offset of the last marker of each producer of which the log knows it."""

    def detached(self) -> "RoundPlan":
        """The plan for another process."""
        return self._replace(segments=[segment.detached() for segment in self.segments])


class RoundStep(NamedTuple):
    """The state of a round after some of its work."""

    counts: RoundCounts
    end_offset: int
    """The end of the part whose keys are known."""
    cleaned_to: int
    """The end of the part that is clean once the round has ended: before sources that stayed, because one of them was dropped."""
    missing_to: int
    """The end of the last segment whose file is missing, which is no error below the log start; 0 if there is none."""
    output: CleanedSegment | None = None
    """Complete and durable: it takes the place of its sources before the round goes on, or is removed."""
    left_alone: str = ""
    """The reason for which the segments of a group stay as they are."""


class CleaningRound:
    """A round, as it is computed.

    Args:
        disk: where the log lives.
        plan: the values.
    """

    def __init__(self, disk: Disk, plan: RoundPlan) -> None:
        self.counts = RoundCounts()
        self.end_offset = plan.cleanable.start
        """The end of the part whose keys are known."""
        self._disk = disk
        self._left_from = LONG_MAX
        self._missing_to = 0
        self._cleanable = plan.cleanable
        self._limits = plan.limits
        self._settings = plan.settings
        self._now_ms = plan.now_ms
        self._aborted = Aborted(plan.aborted)
        self._known_markers = plan.markers
        self._producers = plan.producers
        self._open_at_start: tuple[int, ...] = ()
        """The producers with a transaction that is open in the producer snapshot with which the log begins."""
        self._begin_learning()
        self._segments = plan.segments

    def _begin_learning(self) -> None:
        self._keys = KeySet(self._limits.map_bytes)
        self._survivors = Survivors(self._cleanable.start)
        self._malformed: set[int] = set()
        """The base offsets of batches of the dirty part that stay without being understood."""
        self._last_markers: dict[int, int] = {}
        """The offset of each producer's last marker in the dirty part."""
        self._last_dirty: dict[int, list[int]] = {}
        """The ends of each producer's last batches in the dirty part, the last one first."""

    def _open(self, segment: Segment) -> Segment | None:
        """The segment with an open file of its own; None if that is missing, as it is if the segment lies below the log start by now."""
        source = segment.emptied()
        try:
            source.open()
        except FileNotFoundError:
            self._missing_to = max(self._missing_to, segment.next_base_offset)
            return None
        return source

    def steps_blocking(self, chunks: int) -> Generator[RoundStep, None, None]:
        """Do the whole round; yields after each few chunks, and with each segment that is to take the place of others.

        Args:
            chunks: the number of chunks after which it yields at the latest.

        Raises:
            CorruptionError: a batch is not the one that was written.
            OSError: the device failed or is full.
        """
        yield from self._steps_blocking(self.indexing_blocking(), chunks)
        fates = self.fates()
        for sources in self.groups_blocking():
            output = CleanedSegment(self._disk, sources)
            try:
                yield from self._steps_blocking(self.copying_blocking(output, fates), chunks)
                if not output.is_same:
                    yield self._step()._replace(output=output)
            except LeftAloneError as reason:
                output.remove_blocking()
                yield self._step()._replace(left_alone=f"segment {sources[0].base_offset} is not compacted: {reason}")
            finally:
                output.release()
        yield self._step()

    def _steps_blocking(self, work: Iterator[None], chunks: int) -> Iterator[RoundStep]:
        for number, _ in enumerate(work, 1):
            if number % chunks == 0:
                yield self._step()

    def _step(self) -> RoundStep:
        return RoundStep(self.counts, self.end_offset, self.cleaned_to, self._missing_to)

    # --- the first pass ------------------------------------------------------------------------------------------------------------

    def indexing_blocking(self) -> Iterator[None]:
        """Learn the keys of the dirty part, and which of its records stay; yields after each chunk.

        Raises:
            CorruptionError: a batch is not the one that was written.
            OSError: the device failed.
        """
        self._read_first_snapshot_blocking()
        start = self._cleanable.start
        self.end_offset = self._cleanable.end
        while (missed := (yield from self._learning_keys_blocking())) is not None:
            self.end_offset = start + self.end_offset - missed
            self._begin_learning()
            self.counts.map_utilization = 1.0
        self._survivors.turn()
        self.counts.batches_malformed = len(self._malformed)
        self.counts.map_utilization = max(self.counts.map_utilization, self._keys.utilization)

    def _learning_keys_blocking(self) -> Generator[None, None, int | None]:
        """Learn the keys from :attr:`end_offset` on backwards; returns the end of the first batch for which there is no room, or None."""
        start = self._cleanable.start
        for segment in reversed(self._segments):
            if segment.base_offset >= self.end_offset:
                continue
            if segment.next_base_offset <= start or (source := self._open(segment)) is None:
                break  # what stands before it is older, or was dropped as well
            try:
                places = self._find_places_blocking(segment)
                for chunk in iterate_chunks_back_blocking(source.file, segment, self._limits.chunk_bytes, places):
                    self.counts.bytes_read += len(chunk.data)
                    if (missed := self._index_chunk(chunk)) is not None:
                        return missed
                    yield
            finally:
                source.close()
        return None

    def _find_places_blocking(self, segment: Segment) -> list[Place]:
        """The places of the chunks of a segment, as far as its index tells. Raises OSError."""
        try:
            index = OffsetIndex.decode(segment.base_offset, self._disk.read_file(segment.path(INDEX_SUFFIX)))
        except (FileNotFoundError, CorruptionError):
            return []
        return find_places(segment.size, self._limits.chunk_bytes, index.positions)

    def _read_first_snapshot_blocking(self) -> None:
        for segment in self._segments[:1]:
            try:
                states = ProducerStates.decode(self._disk.read_file(segment.path(SNAPSHOT_SUFFIX)))
            except (FileNotFoundError, CorruptionError):
                continue
            self._open_at_start = tuple(
                producer_id for producer_id, state in states.items() if state.transaction_first_offset >= 0
            )

    def _index_chunk(self, chunk: Chunk) -> int | None:
        """Take in the keys of a chunk; returns the end of the first batch for which there is no room, or None."""
        start = self._cleanable.start
        for index, header in reversed(chunk.batches):
            if header.last_offset < start:
                break
            if header.last_offset >= self.end_offset:
                if header.base_offset < self.end_offset:  # the part ends with a whole batch, and has one at least
                    self.end_offset = header.base_offset if header.base_offset > start else header.next_offset
                if header.last_offset >= self.end_offset:
                    continue
            if self._supersedes(header) and not self._index_batch(header, chunk.data, index):
                return header.next_offset
            if header.is_control:
                self._last_markers.setdefault(header.producer_id, header.base_offset)
            elif header.producer_id >= 0:
                ends = self._last_dirty.setdefault(header.producer_id, [])
                if len(ends) < BATCHES_KEPT:
                    ends.append(header.last_offset)
        return None

    def _supersedes(self, header: BatchHeader) -> bool:
        """True if keys of the batch may supersede others: not those of aborted transactions, nor those of markers."""
        if header.is_control or not header.record_count:
            return False
        return not (header.is_transactional and self._aborted.has(header))

    def _index_batch(self, header: BatchHeader, data: bytes, index: int) -> bool:
        """Take in the keys of a batch; False if there is no room for them."""
        try:
            opened = open_batch(header, data, index)
            found = index_keys(*opened, header)
        except CorruptionError:  # its producer wrote it so: the batch stays as it is, and supersedes nothing
            self._malformed.add(header.base_offset)
            return True
        if not self._keys.has_room(len(found), opened.end - opened.position):
            return False
        self._survivors.add(self._keys.add(found))
        return True

    @property
    def cleaned_to(self) -> int:
        """The end of the part that is clean once the round has ended: before sources that stayed, because one of them was dropped."""
        return min(self.end_offset, max(self._cleanable.start, self._left_from))

    def note_dropped(self, output: CleanedSegment) -> None:
        """A source was dropped meanwhile: those that are left of its group are cleaned in the next round."""
        self._left_from = min(self._left_from, output.segment.base_offset)

    # --- the second pass -----------------------------------------------------------------------------------------------------------

    def fates(self) -> Fates:
        """Decides about all batches, from the first one on."""
        return Fates(
            self._keys.keys,
            self._survivors,
            self.end_offset,
            malformed=self._malformed,
            now_ms=self._now_ms,
            delete_retention_ms=self._settings.delete_retention_ms,
            last_of_producers={
                producer_id: self._find_last(producer_id, known) for producer_id, known in self._producers.items()
            },
            last_markers=self._last_markers
            | {producer_id: offset for producer_id, offset in self._known_markers.items() if offset < self.end_offset},
            aborted=self._aborted,
            open_at_start=self._open_at_start,
        )

    def _find_last(self, producer_id: int, known: tuple[int, ...]) -> int:
        """The end of the first of a producer's last batches below the end of the dirty part; as many stay as a log remembers (PROD-5).

        The sequence goes on behind them if all later batches are cut. If the log remembers later batches in their place, and the dirty part
        has too few, nothing tells which they are (:data:`~esp.storage.compaction.fates.ANY_BATCH`).
        """
        ends = {offset for offset in known if offset < self.end_offset}.union(self._last_dirty.get(producer_id, ()))
        are_all_known = len(known) < BATCHES_KEPT or known[-1] < self.end_offset
        if len(ends) < BATCHES_KEPT and not are_all_known:
            return ANY_BATCH
        return min(sorted(ends)[-BATCHES_KEPT:], default=ANY_BATCH)

    def groups_blocking(self) -> list[Sequence[Segment]]:
        """The segments to be copied, each group into one. Raises OSError."""
        segments = [segment for segment in self._segments if segment.base_offset < self.end_offset]
        facts = [
            GroupedSegment(
                segment.base_offset,
                segment.next_base_offset,
                segment.size,
                self._file_size(segment, INDEX_SUFFIX),
                self._file_size(segment, TIME_INDEX_SUFFIX),
            )
            for segment in segments
        ]
        groups: list[Sequence[Segment]] = []
        for count in group_segments(facts, self._settings):
            groups.append(segments[:count])
            del segments[:count]
        return groups

    def _file_size(self, segment: Segment, suffix: str) -> int:
        disk, path = self._disk, segment.path(suffix)
        return disk.stat(path).size if disk.exists(path) else 0

    def copying_blocking(self, output: CleanedSegment, fates: Fates) -> Iterator[None]:
        """Copy the sources of ``output``; yields after each chunk. What was written is complete and durable in the end.

        Raises:
            CorruptionError: a batch is not the one that was written.
            LeftAloneError: the segments cannot be replaced; the round may go on with others.
            OSError: the device failed or is full.
        """
        markers_dropped = fates.markers_dropped
        left_alone: LeftAloneError | None = None
        for segment in output.sources:
            source = self._open(segment)
            if source is None:
                self.note_dropped(output)
                left_alone = LeftAloneError("it was dropped meanwhile")
                continue
            try:
                for chunk in iterate_chunks_blocking(source.file, segment, self._limits.chunk_bytes):
                    self.counts.bytes_read += len(chunk.data)
                    is_last = segment is output.sources[-1] and chunk.position + len(chunk.data) >= segment.size
                    # Also where nothing is written any more: markers behind the group must know the records in it (CLEAN-4).
                    headers, data = self._decide(chunk, fates, output, is_last=is_last)
                    held_bytes = self._keys.size + len(chunk.data) + sum(map(len, data))
                    self.counts.memory_bytes = max(self.counts.memory_bytes, held_bytes)
                    output.note_aborted(fates.take_aborted())
                    if left_alone is None:
                        try:
                            yield from output.write_blocking(headers, data, source.file, self._limits.chunk_bytes)
                        except LeftAloneError as reason:
                            left_alone = reason
                    yield
            finally:
                source.close()
        if left_alone is not None:
            raise left_alone
        if not output.is_same:
            output.drops_markers = fates.markers_dropped > markers_dropped
            output.finish_blocking(self.end_offset)
            self.counts.bytes_written += output.segment.size
            self.counts.bytes_before += sum(segment.size for segment in output.sources)
            self.counts.bytes_after += output.segment.size

    def _decide(
        self, chunk: Chunk, fates: Fates, output: CleanedSegment, *, is_last: bool
    ) -> tuple[list[BatchHeader], list[Buffer]]:
        """The headers of the batches of a chunk that stay, as they are then, and their bytes, unchanged neighbours in one piece."""
        headers: list[BatchHeader] = []
        data: list[Buffer] = []
        view = memoryview(chunk.data)
        run_start = run_end = 0
        last = chunk.batches[-1][0]
        for index, header in chunk.batches:
            fate = fates.decide(header, chunk.data, index, is_end=is_last and index == last)
            if fate is None:
                headers.append(header)
                run_end = index + header.size
                continue
            output.differ()
            if run_start < index:
                data.append(view[run_start:index])
            run_start = run_end = index + header.size
            if fate:
                headers.append(read_header(fate))
                data.append(fate)
        if run_start < run_end:
            data.append(view[run_start:run_end])
        return headers, data


def cleaning_blocking(disk: Disk, plan: RoundPlan, chunks: int) -> Generator[RoundStep, None, None]:
    """Return the steps of a new round (:meth:`CleaningRound.steps_blocking`)."""
    return CleaningRound(disk, plan).steps_blocking(chunks)
