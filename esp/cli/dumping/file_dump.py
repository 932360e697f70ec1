"""What kind of file a path names, and what it holds."""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from esp.cli.dumping.findings import Finding
from esp.cli.dumping.index_dump import dump_offset_index, dump_time_index
from esp.cli.dumping.producer_dump import dump_producers
from esp.cli.dumping.segment_dump import Depth, dump_batches
from esp.model.errors import OperatorError
from esp.raft.snapshot import BOOTSTRAP_FILE
from esp.storage.layout import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX

CHECKPOINT_SUFFIX: Final = ".checkpoint"
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX, CHECKPOINT_SUFFIX)
_SNAPSHOT_ID: Final = re.compile(r"(\d{20})-(\d{10})")


@dataclass(frozen=True, slots=True)
class Request:
    """What of a file is wanted.

    Attributes:
        depth: how much of a segment is shown.
        bytes_max: how much of a segment is read.
        with_segment: whether an index is held against the segment beside it.
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
            raise OperatorError(f"{path} is not there", "Name files or directories of a log.")
    return found


def dump_file(path: Path, request: Request) -> Iterator[Finding]:
    """What a file holds.

    Raises:
        OperatorError: it cannot be read, or is none of the kinds that are known.
    """
    try:
        if path.suffix in (LOG_SUFFIX, CHECKPOINT_SUFFIX):
            yield from _dump_batches(path, request)
        elif path.suffix == INDEX_SUFFIX:
            yield from dump_offset_index(path.read_bytes(), _base_offset(path), _segment_beside(path, request))
        elif path.suffix == TIME_INDEX_SUFFIX:
            yield from dump_time_index(path.read_bytes(), _base_offset(path), _segment_beside(path, request))
        elif path.suffix == SNAPSHOT_SUFFIX:
            yield from dump_producers(path.read_bytes())
        else:
            raise OperatorError(
                f"{path} is of no kind that can be read here", f"Name files that end in {', '.join(SUFFIXES)}."
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
                    f"{path} has not the name of a snapshot", "A snapshot is called OFFSET-EPOCH.checkpoint."
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
        raise OperatorError(
            f"{path} has not the name of a part of a log", "Its name is its first offset, in 20 digits."
        )
    return int(path.stem)
