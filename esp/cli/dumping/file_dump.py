"""The contents of one file of a log, whose kind is told by its name.

Batches are shown as they stand; the entries of a segment's indexes are compared with the segment, if it is beside them; a producer snapshot
is shown with one entry for each producer.
"""

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from esp.cli.dumping.findings import Finding
from esp.cli.dumping.segment_dump import Depth, dump_batches, walk
from esp.model.errors import CorruptionError, OperatorError
from esp.raft.snapshot import BOOTSTRAP_FILE
from esp.storage.layout import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from esp.storage.producer_state import ProducerStates
from esp.storage.transaction_index import TransactionIndex

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_NO_LIMIT: Final = 1 << 62


def dump_offset_index(data: bytes, base_offset: int, segment: memoryview | None) -> Iterator[Finding]:
    """The entries of an ``.index``, each compared with the batch that it names.

    Args:
        data: the file; a rest that is no whole entry is ignored, as Kafka ignores it.
        base_offset: the segment's, from the file's name.
        segment: the segment's bytes; None if they are not there.
    """
    ends = (
        None if segment is None else {placed.position: placed.header.last_offset for placed in walk(segment, _NO_LIMIT)}
    )
    previous = (-1, -1)
    for relative, position in _OFFSET_ENTRY.iter_unpack(_whole(data, _OFFSET_ENTRY.size)):
        if relative == 0 and position == 0:
            break  # padding: Kafka's own files have it while they grow
        entry = (base_offset + relative, position)
        complaint = None
        if entry[0] <= previous[0] or entry[1] <= previous[1]:
            complaint = (
                f"offset {entry[0]} at position {position} does not follow offset {previous[0]} at {previous[1]}"
            )
        elif ends is not None and ends.get(position) != entry[0]:
            found = "no batch" if position not in ends else f"a batch that ends at {ends[position]}"
            complaint = f"offset {entry[0]} is said to be at position {position}, where there is {found}"
        previous = entry
        yield Finding(f"offset: {entry[0]} position: {position}", {"offset": entry[0], "position": position}, complaint)


def dump_time_index(data: bytes, base_offset: int, segment: memoryview | None) -> Iterator[Finding]:
    """The entries of a ``.timeindex``, each compared with the batch that it names; arguments as for :func:`dump_offset_index`."""
    batches = None if segment is None else [placed.header for placed in walk(segment, _NO_LIMIT)]
    previous = (-1, -1)
    for timestamp, relative in _TIME_ENTRY.iter_unpack(_whole(data, _TIME_ENTRY.size)):
        offset = base_offset + relative
        if previous != (-1, -1) and (timestamp, relative) == (0, 0):
            break  # padding
        complaint = None
        if timestamp < previous[0] or offset < previous[1]:
            complaint = f"timestamp {timestamp} at offset {offset} does not follow {previous[0]} at {previous[1]}"
        elif batches is not None:
            holder = next((one for one in batches if one.base_offset <= offset <= one.last_offset), None)
            if holder is None or holder.max_timestamp != timestamp:
                found = "there is none" if holder is None else f"it is {holder.max_timestamp}"
                complaint = (
                    f"the largest timestamp of the batch with offset {offset} is said to be {timestamp}; {found}"
                )
        previous = (timestamp, offset)
        yield Finding(f"timestamp: {timestamp} offset: {offset}", {"timestamp": timestamp, "offset": offset}, complaint)


def _whole(data: bytes, entry_size: int) -> bytes:
    return data[: len(data) - len(data) % entry_size]


def dump_producers(data: bytes) -> Iterator[Finding]:
    """The entries of a ``.snapshot``."""
    try:
        states = ProducerStates.decode(data)
    except CorruptionError as error:
        yield Finding(f"Error: {error}", {"error": str(error)}, str(error))
        return
    for producer_id, state in states.items():
        first = state.transaction_first_offset
        values: dict[str, object] = {
            "producerId": producer_id,
            "producerEpoch": state.epoch,
            "coordinatorEpoch": state.coordinator_epoch,
            "currentTxnFirstOffset": f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty",
            "lastTimestamp": state.last_timestamp,
        }
        if state.batches:
            last = state.batches[-1]
            values |= {
                "firstSequence": last.first_sequence,
                "lastSequence": last.last_sequence,
                "lastOffset": last.last_offset,
                "offsetDelta": last.last_offset - last.base_offset,
                "timestamp": state.last_timestamp,
            }
        yield Finding(" ".join(f"{name}: {value}" for name, value in values.items()), values)


def dump_aborted_transactions(data: bytes) -> Iterator[Finding]:
    """The entries of a ``.txnindex``."""
    try:
        index = TransactionIndex.decode(data)
    except CorruptionError as error:
        yield Finding(f"Error: {error}", {"error": str(error)}, str(error))
        return
    for entry in index.entries:
        values: dict[str, object] = {
            "version": 0,
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }
        yield Finding(" ".join(f"{name}: {value}" for name, value in values.items()), values)


CHECKPOINT_SUFFIX: Final = ".checkpoint"
SUFFIXES: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    CHECKPOINT_SUFFIX,
)
_SNAPSHOT_ID: Final = re.compile(r"(\d{20})-(\d{10})")


@dataclass(frozen=True, slots=True)
class Request:
    """The part of a file that is shown.

    Attributes:
        depth: the level of detail at which a segment is shown.
        bytes_max: the bytes of a segment that are read.
        with_segment: True if an index is compared with the segment beside it.
    """

    depth: Depth = field(default_factory=Depth)
    bytes_max: int = 2**31 - 1
    with_segment: bool = True


def find_files(paths: list[Path]) -> list[Path]:
    """The files to be read: what is named, and of a directory all that can be.

    Raises:
        OperatorError: something is not there.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES)
        elif path.is_file():
            found.append(path)
        else:
            raise OperatorError(f"{path} does not exist", "Name files or directories of a log.")
    return found


def dump_file(path: Path, request: Request) -> Iterator[Finding]:
    """Yield the contents of a file.

    Raises:
        OperatorError: the file cannot be read, or is of no known kind.
    """
    try:
        if path.suffix in (LOG_SUFFIX, CHECKPOINT_SUFFIX):
            yield from _dump_batches(path, request)
        elif path.suffix == INDEX_SUFFIX:
            yield from dump_offset_index(path.read_bytes(), _base_offset(path), _segment_beside(path, request))
        elif path.suffix == TIME_INDEX_SUFFIX:
            yield from dump_time_index(path.read_bytes(), _base_offset(path), _segment_beside(path, request))
        elif path.suffix == TXN_INDEX_SUFFIX:
            yield from dump_aborted_transactions(path.read_bytes())
        elif path.suffix == SNAPSHOT_SUFFIX:
            yield from dump_producers(path.read_bytes())
        else:
            raise OperatorError(
                f"{path} is not a kind of file that can be dumped", f"Name files that end in {', '.join(SUFFIXES)}."
            )
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be read: {error.strerror or error}", "Check path and permissions."
        ) from error


def _dump_batches(path: Path, request: Request) -> Iterator[Finding]:
    if path.suffix == LOG_SUFFIX:
        base = _base_offset(path)
        yield Finding(f"Log starting offset: {base}", {"logStartingOffset": base})
        counts_from: int | None = base
    else:
        counts_from = None
        if path.name != BOOTSTRAP_FILE:
            match = _SNAPSHOT_ID.fullmatch(path.stem)
            if match is None:
                raise OperatorError(
                    f"{path} is not named like a snapshot", "A snapshot is named OFFSET-EPOCH.checkpoint."
                )
            end_offset, epoch = int(match[1]), int(match[2])
            yield Finding(
                f"Snapshot end offset: {end_offset}, epoch: {epoch}", {"snapshotEndOffset": end_offset, "epoch": epoch}
            )
    yield from dump_batches(_map(path), request.depth, bytes_max=request.bytes_max, counts_from=counts_from)


def _segment_beside(path: Path, request: Request) -> memoryview | None:
    segment = path.with_suffix(LOG_SUFFIX)
    return _map(segment) if request.with_segment and segment.is_file() else None


def _map(path: Path) -> memoryview:
    """The file's bytes, which the kernel reads when they are looked at; what the file grows by later is not seen."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:  # which cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _base_offset(path: Path) -> int:
    if not path.stem.isdigit():
        raise OperatorError(f"{path} is not named like a file of a log", "Its name is its first offset, in 20 digits.")
    return int(path.stem)
