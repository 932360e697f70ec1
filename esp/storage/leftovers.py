"""What a crash in the middle of a deletion, a compaction or the replacing of a file left in a replica's directory (REC-2)."""

import logging

from esp.ports.disk import Disk
from esp.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
)
from esp.storage.segment_recovery import iterate_headers_blocking

_logger = logging.getLogger(__name__)


def remove_leftovers_blocking(disk: Disk, directory: str) -> bool:
    """Remove what is half done, finish what was decided, and remove index files without a segment; whether anything changed.

    A compacted segment is written as ``*.cleaned``; once all of them are complete they become ``*.swap``, and from then on replace the
    segments whose offsets they cover. While one ``*.cleaned`` is left the swap was not decided for offsets from its own on.

    Raises:
        CorruptionError: a segment to be swapped in is broken.
        OSError: the device failed.
    """
    names = disk.listdir(directory)
    undecided_from = min((int(name[:20]) for name in names if name.endswith(CLEANED_SUFFIX)), default=None)
    changed = False
    swaps: list[int] = []
    for name in names:
        is_undecided = undecided_from is not None and name.endswith(SWAP_SUFFIX) and int(name[:20]) >= undecided_from
        if is_undecided or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            disk.remove(f"{directory}/{name}")
            changed = True
        elif name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            swaps.append(int(name[:20]))
    for base_offset in swaps:
        _finish_swap_blocking(disk, directory, base_offset)
        changed = True
    return _remove_orphans(disk, directory) or changed


def _finish_swap_blocking(disk: Disk, directory: str, base_offset: int) -> None:
    """Let a complete swap set replace the segments that it covers."""
    swap_path = f"{directory}/{offset_file_name(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}"
    file = disk.open(swap_path)
    end_offset = base_offset + 1
    try:
        for _position, header in iterate_headers_blocking(file, 0, file.size()):
            end_offset = header.next_offset
    finally:
        file.close()
    for name in disk.listdir(directory):
        parsed = parse_offset_file_name(name)
        if parsed is not None and base_offset <= parsed[0] < end_offset and parsed[1] in (LOG_SUFFIX, *INDEX_SUFFIXES):
            disk.remove(f"{directory}/{name}")
    for suffix in SEGMENT_SUFFIXES:
        path = f"{directory}/{offset_file_name(base_offset, suffix)}"
        if disk.exists(path + SWAP_SUFFIX):
            disk.rename(path + SWAP_SUFFIX, path)
    _logger.info("%s: the compacted segment %d was swapped in", directory, base_offset)


def _remove_orphans(disk: Disk, directory: str) -> bool:
    """Remove index files whose segment is missing."""
    parsed = [entry for name in disk.listdir(directory) if (entry := parse_offset_file_name(name)) is not None]
    bases = {offset for offset, suffix in parsed if suffix == LOG_SUFFIX}
    orphans = [(offset, suffix) for offset, suffix in parsed if suffix in INDEX_SUFFIXES and offset not in bases]
    for offset, suffix in orphans:
        disk.remove(f"{directory}/{offset_file_name(offset, suffix)}")
    return bool(orphans)
