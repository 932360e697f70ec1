"""The indexes of a segment, and whether they say what stands in it."""

import struct
from collections.abc import Iterator
from typing import Final

from esp.cli.dumping.findings import Finding
from esp.cli.dumping.segment_dump import walk

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_NO_LIMIT: Final = 1 << 62


def dump_offset_index(data: bytes, base_offset: int, segment: memoryview | None) -> Iterator[Finding]:
    """The entries of an ``.index``, each held against the batch that it names.

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
    """The entries of a ``.timeindex``, each held against the batch that it names; arguments as for :func:`dump_offset_index`."""
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
