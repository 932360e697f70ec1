"""Topics as their segments hold them, in the data directories of a stopped node, of ESP or of Kafka. No file is changed."""

import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import BrokenBatchError, Place
from esp.arrow.scanning import Batches, scan_batches
from esp.arrow.selection import OFFSET_MAX
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.model.ids import TopicPartition
from esp.sql.bounds import Bound, Bounds
from esp.storage.checkpoints import decode_checkpoint
from esp.storage.layout import LOG_START_FILE, LOG_SUFFIX, DirectoryKind, parse_directory_name, parse_offset_file_name


class Segment(NamedTuple):
    """A segment: its file, and the offset that its name has."""

    path: str
    base_offset: int


class SegmentSource:
    """The topics of data directories.

    Records before the log's start, which were deleted by offset (DeleteRecords), are left out as far as the node has noted it.

    Args:
        directories: the data directories of one node.
        bounds: of each partition.
        say: called with a line about each partition that is read: where its records end.

    Raises:
        ConsumerError: a directory cannot be read, or is none of a node; or two of them hold the same partition.
    """

    def __init__(self, directories: Sequence[str], bounds: Bounds, say: Callable[[str], None]) -> None:
        self._bounds = bounds
        self._say = say
        self._segments: dict[Partition, list[Segment]] = {}
        self._starts: dict[Partition, int] = {}
        self._said: set[Partition] = set()
        for directory in directories:
            self._look_at(directory)
        if not self._segments:
            raise ConsumerError(
                f"{', '.join(directories)}: no partition is there: name the directories of log.dirs, which have one of the name "
                "TOPIC-NUMBER for each partition"
            )

    def topics(self) -> set[str]:
        """See :class:`~esp.sql.source.TopicSource`."""
        return {partition.topic for partition in self._segments}

    def read(self, topic: str, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """See :class:`~esp.sql.source.TopicSource`."""
        for partition in sorted(each for each in self._segments if each.topic == topic):
            for batch in self._read_partition(partition, columns):
                yield partition, batch

    def _look_at(self, directory: str) -> None:
        try:
            names = os.listdir(directory)
        except OSError as error:
            raise ConsumerError(f"{directory}: {error.strerror}: name a data directory of a node") from error
        starts = _read_starts(directory) if LOG_START_FILE in names else {}
        for name in names:
            found = parse_directory_name(name)
            path = os.path.join(directory, name)
            if found is None or found.kind is not DirectoryKind.REPLICA or not os.path.isdir(path):
                continue
            parsed = ((file, parse_offset_file_name(file)) for file in os.listdir(path))
            segments = [
                Segment(os.path.join(path, file), parts[0])
                for file, parts in parsed
                if parts and parts[1] == LOG_SUFFIX
            ]
            if segments:
                partition = Partition(found.partition.topic, found.partition.partition)
                if partition in self._segments:
                    other = os.path.dirname(os.path.dirname(self._segments[partition][0].path))
                    raise ConsumerError(
                        f"{partition} is in {other} and in {directory}: name the directories of one node, each once"
                    )
                self._segments[partition] = sorted(segments, key=lambda segment: segment.base_offset)
                self._starts[partition] = max(starts.get(found.partition, 0), self._segments[partition][0].base_offset)

    def _read_partition(self, partition: Partition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        segments = self._segments[partition]
        place = Place(*partition)
        first = max(self._resolve(partition, self._bounds.first, 0), self._starts[partition])
        end = self._resolve(partition, self._bounds.end, OFFSET_MAX)
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            is_read = segment.base_offset < end and (following is None or following > first)
            if not is_read and following is not None:
                continue
            with _batches_of(segment, place) as batches:
                if following is not None and batches.cut_bytes:
                    raise _cut_in_between(segment, place, batches)
                if is_read:
                    yield from decode_batches(batches, place, first, end, None, columns)
                if following is None:
                    self._tell_end(partition, segments, batches)

    def _resolve(self, partition: Partition, bound: Bound | None, default: int) -> int:
        """The offset of a bound; that of a time is that of the first record that is as late, as brokers find it."""
        if bound is None:
            return default
        if bound.offset is not None:
            return bound.offset
        place = Place(*partition)
        for segment in self._segments[partition]:
            with _batches_of(segment, place) as batches:
                for index in np.flatnonzero(batches.max_timestamps >= bound.time_ms):
                    base = int(batches.base_offsets[index])
                    last = base + int(batches.last_offset_deltas[index])
                    first = min(max(base, self._starts[partition]), last + 1)
                    for rows in decode_batches(batches, place, first, last + 1, None, ("offset", "timestamp")):
                        late = np.flatnonzero(rows.column("timestamp").view(pa.int64()).to_numpy() >= bound.time_ms)
                        if len(late):
                            return int(rows.column("offset")[int(late[0])].as_py())
        return OFFSET_MAX

    def _tell_end(self, partition: Partition, segments: Sequence[Segment], batches: Batches) -> None:
        if partition in self._said:
            return
        self._said.add(partition)
        end = segments[-1].base_offset if batches.next_offset is None else batches.next_offset
        cut = (
            f"; {batches.cut_bytes:,} bytes of a batch that was not written in full are left out"
            if batches.cut_bytes
            else ""
        )
        count = f"{len(segments)} segment{'s' if len(segments) > 1 else ''}"
        self._say(
            f"{partition}: {count} from offset {self._starts[partition]} on; the records end before offset {end}{cut}"
        )


def _read_starts(directory: str) -> Mapping[TopicPartition, int]:
    """The first offsets of logs, as the node noted them last.

    Raises:
        ConsumerError: the file is not as nodes write it.
    """
    path = os.path.join(directory, LOG_START_FILE)
    try:
        with open(path, "rb") as file:
            return decode_checkpoint(file.read())
    except (OSError, ValueError) as error:
        raise ConsumerError(
            f"{path} cannot be read ({error}): it says which records are deleted; move it away to read all that is there"
        ) from error


def _cut_in_between(segment: Segment, place: Place, batches: Batches) -> BrokenBatchError:
    """A segment that ends within a batch, although others follow: the records that it lacks would be missing without a word."""
    offset = segment.base_offset if batches.next_offset is None else batches.next_offset
    name = os.path.basename(segment.path)
    return BrokenBatchError(
        place, offset, f"segment {name} ends within it ({batches.cut_bytes:,} bytes), and others follow"
    )


@contextmanager
def _batches_of(segment: Segment, place: Place) -> Iterator[Batches]:
    """The batches of a segment, mapped into memory. What is decoded of them is a copy, or keeps the mapping."""
    with open(segment.path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield scan_batches(b"", place)
            return
        yield scan_batches(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), place)
