"""The decisions about a capture's tables: which files a table lacks, by the application transactions that it has. Pure.

A table says of each partition by a transaction of its own up to which offset the capture's files were added to it. It says so in the commit
that adds them. So a file is added once, by whichever runner, and however often one tries.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from esp.capture.decision import RefusedError
from esp.capture.file_names import FileName
from esp.capture.position import group_of
from esp.consumer.messages import Partition

DAY_COLUMN: Final = "dt"
"""The column of tables that is in the directories' names, and not in the files."""


def application_of(capture: str, partition: Partition) -> str:
    """The application whose transactions say how far a table has the files of a partition; their version is the offset."""
    return f"{group_of(capture)}/{partition.topic}-{partition.number}"


def files_to_add(files: Iterable[FileName], ends: Mapping[Partition, int]) -> list[FileName]:
    """Return those of some files that a table lacks, in order.

    Args:
        files: files with names, whose ranges are committed.
        ends: the offsets up to which the table has files of partitions; of others it has none.

    Raises:
        RefusedError: the table ends within a file.
    """
    lacking = sorted({name for name in files if name.end > ends.get(name.partition, 0)})
    for name in lacking:
        if name.first < (end := ends.get(name.partition, 0)):
            raise RefusedError(
                f"the table of topic {name.partition.topic} has {name.partition} up to offset {end}, which is within {name.path}: another "
                "program has committed to it for this capture: capture to a new directory, by another name"
            )
    return lacking


def ends_of(files: Iterable[FileName]) -> dict[Partition, int]:
    """Return by partition the end of the last of some files."""
    found: dict[Partition, int] = {}
    for name in files:
        found[name.partition] = max(name.end, found.get(name.partition, 0))
    return found
