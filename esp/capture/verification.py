"""The proof of a capture: names, footers, offsets of files, committed offsets, and offsets of the log, held against one another. Pure.

Offsets without records are no fault: markers of transactions, records of aborted ones, and records that compaction removed before they were
captured. They are counted. Records that compaction removed later are in files and not in the log, which is a fault in other topics only.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from esp.capture.file_names import FileName
from esp.capture.position import Position
from esp.consumer.messages import Partition

Offsets = NDArray[np.int64]
_SHOWN: Final = 5


class Bounds(NamedTuple):
    """The bounds of what the files of a partition must hold.

    Attributes:
        begin: the first offset of the capture; None: not known.
        least_end: files reach so far at least; None: not known.
        most_end: files reach so far at most; None: not known.
    """

    begin: int | None = None
    least_end: int | None = None
    most_end: int | None = None


def bounds_of(before: Position | None, after: Position | None, work: Collection[str]) -> Bounds:
    """Return the bounds by what was committed before the files were listed, and after.

    Args:
        before: the position before; None: there was none.
        after: likewise after.
        work: the files without a name. The last file that was committed may be one of them for a moment.
    """
    if after is None:
        return Bounds()
    if before is None:
        return Bounds(after.begin, None, after.offset)
    is_on_its_way = before.work in work and before.file != ""
    return Bounds(after.begin, None if is_on_its_way else before.offset, after.offset)


def check_names(partition: Partition, names: Sequence[FileName], bounds: Bounds) -> list[str]:
    """Return what is wrong with the names of a partition's files: gaps, overlaps, and what was not committed.

    Args:
        partition: the partition.
        names: in order.
        bounds: of what they must hold.
    """
    problems = []
    begin = bounds.begin if bounds.begin is not None else (names[0].first if names else 0)
    reached, last = begin, ""
    for name in names:
        if name.first > reached:
            problems.append(f"gap: {partition}, offsets {reached} to {name.first - 1} are in no file")
        elif name.first < reached and last:
            stop = min(reached, name.end)
            problems.append(
                f"overlap: {partition}, offsets {name.first} to {stop - 1} are in {last} and in {name.path}"
            )
        elif name.first < reached:
            problems.append(f"before the begin: {name.path} begins before the capture, at offset {begin}")
        if name.end > reached:
            reached, last = name.end, name.path
    if bounds.least_end is not None and reached < bounds.least_end:
        problems.append(
            f"gap: {partition}, offsets {reached} to {bounds.least_end - 1} are committed, and are in no file"
        )
    if bounds.most_end is not None and reached > bounds.most_end:
        problems.append(
            f"not committed: {partition}, {last} goes up to offset {reached - 1}, and offsets up to {bounds.most_end - 1} are committed"
        )
    return problems


class InTable(NamedTuple):
    """A partition in the table of its topic.

    Attributes:
        end: the offset up to which the capture says that its files were added; 0: it says nothing.
        files: the captured files that are in the table, with their numbers of records; None: the table does not say it.
        is_rewritten: whether another program has put files of its own in the place of some.
    """

    end: int
    files: Mapping[FileName, int | None]
    is_rewritten: bool


def check_table(
    partition: Partition, names: Sequence[FileName], rows: Mapping[FileName, int], table: InTable, most_end: int | None
) -> list[str]:
    """Return what is different in a table and in the directory.

    Files behind the table's end are no fault: a start adds them, or the runner that runs.

    Args:
        partition: the partition.
        names: of its files, listed after the table was looked at.
        rows: the numbers of their records, of those that are whole.
        table: the partition in the table.
        most_end: what is committed; None: not known.
    """
    there = set(names)
    problems = [
        f"not in the table: {name.path}, which was added to it"
        for name in names
        if name.end <= table.end and name not in table.files and not table.is_rewritten
    ]
    for name, counted in sorted(table.files.items()):
        if name not in there:
            problems.append(f"gap: {partition}, {name.path} is in the table, and not in the directory")
        elif counted is not None and counted != rows.get(name, counted):
            problems.append(
                f"another number: {name.path} has {counted} records by the table, and {rows[name]} by itself"
            )
        if name.end > table.end:
            problems.append(
                f"not added by the capture: {name.path} is in the table, which the capture has up to offset {table.end}"
            )
    if most_end is not None and table.end > most_end:
        problems.append(
            f"not committed: {partition}, the table goes up to offset {table.end - 1}, and offsets up to {most_end - 1} are committed"
        )
    return problems


def check_file(name: FileName, topic_id: str | None, file_topic_id: str, rows: int, captured: Offsets) -> list[str]:
    """Return what is wrong with a file by itself.

    Args:
        name: of the file.
        topic_id: the topic's id as it was committed; None: not known.
        file_topic_id: the topic's id in the footer.
        rows: the number of records in the footer.
        captured: the offsets of its records.
    """
    problems = []
    if topic_id is not None and file_topic_id != topic_id:
        problems.append(f"another topic: {name.path} is of topic id {file_topic_id}, and the capture of {topic_id}")
    if rows != len(captured):
        problems.append(f"damaged: {name.path} has {rows} records by its footer, and {len(captured)} offsets")
    if rows == 0:
        problems.append(f"empty: {name.path} has no records")
    if np.any(np.diff(captured) <= 0):
        problems.append(f"twice: offsets in {name.path} do not rise at {_some(captured[1:][np.diff(captured) <= 0])}")
    outside = captured[(captured < name.first) | (captured >= name.end)]
    if len(outside):
        problems.append(f"another range: {name.path} has offsets {_some(outside)}")
    return problems


def check_against_log(name: FileName, captured: Offsets, logged: Offsets, *, is_compacted: bool) -> list[str]:
    """Return what is different in a file and in the log.

    Args:
        name: of the file.
        captured: the offsets of its records, as far as the log has their range.
        logged: the offsets of the log's committed records in the range of the file.
        is_compacted: whether the log may have lost records.
    """
    problems = []
    missing = np.setdiff1d(logged, captured)
    if len(missing):
        problems.append(f"missing: {name.path} lacks {len(missing)} records of the log: offsets {_some(missing)}")
    extra = np.setdiff1d(captured, logged)
    if len(extra) and not is_compacted:
        problems.append(
            f"not in the log: {name.path} has {len(extra)} records that the log has not: offsets {_some(extra)}"
        )
    return problems


def _some(offsets: Offsets) -> str:
    shown = ", ".join(map(str, offsets[:_SHOWN].tolist()))
    return f"{shown}, …" if len(offsets) > _SHOWN else shown
