"""Whether bytes that came back from the device are the batches that were written there (REC-4).

What this process appended was checked when it came, and whoever reads it from the page cache gets it as it is. Bytes that the device gave
back (:attr:`~esp.storage.segment.Segment.suspect_end`) may have rotted: they are held against their checksums before anybody is given them,
once for as long as the page cache keeps them. Kafka leaves that to the readers, of whom some never look.

What no checksum covers can be told in part only: a base offset must not overlap its neighbours', and a batch must hold the offset that was
asked for.
"""

from crc32c import crc32c

from esp.model.errors import CorruptionError
from esp.ports.network import Buffer
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC, read_header
from esp.storage.segment import Segment


def sound_part(segment: Segment, position: int, data: Buffer, offset: int, end_offset: int) -> Buffer:
    """``data``, or as much of it as comes before the first batch that is not what was written.

    Args:
        segment: that the bytes were read from.
        position: at which they stand in it.
        data: whole batches.
        offset: the first of them holds it.
        end_offset: the last of them ends at or before it.

    Raises:
        CorruptionError: the first batch is not what was written.
    """
    end = position + len(data)
    if segment.checked_start <= position and end <= segment.checked_end:
        return data
    view = memoryview(data)
    size, problem = _measure_sound(view, offset, end_offset)
    if problem is not None and not size:
        raise CorruptionError(f"{segment.file.path} has rotted at {position}: {problem}")
    if segment.checked_start <= position <= segment.checked_end:
        segment.checked_end = max(segment.checked_end, position + size)
    else:
        segment.checked_start, segment.checked_end = position, position + size
    return data if problem is None else view[:size]


def _measure_sound(view: memoryview, offset: int, end_offset: int) -> tuple[int, str | None]:
    """How many bytes of whole, sound batches ``view`` begins with, and what is wrong with the next one, if there is one."""
    position = 0
    available = len(view)
    next_offset = -1
    while position < available:
        if available - position < HEADER_SIZE:
            return position, "the rest is less than a batch header"
        header = read_header(view, position)
        size = header.size
        if size < HEADER_SIZE or size > available - position or header.magic != MAGIC or header.last_offset_delta < 0:
            return position, "what stands there is no batch"
        if crc32c(view[position + ATTRIBUTES_OFFSET : position + size]) != header.crc:
            return position, "a batch that does not match its checksum"
        if header.base_offset < next_offset or header.last_offset < offset or header.next_offset > end_offset:
            return position, f"a batch of the offsets {header.base_offset} to {header.last_offset}"
        next_offset = header.next_offset
        position += size
    return position, None
