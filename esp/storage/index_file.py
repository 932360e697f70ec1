"""The file of an index whose entries are kept in memory.

Kafka maps its index files and pads them; here entries are appended when a segment is flushed, rolled or closed, and the file is never
longer than they are. Nothing depends on it: what is missing or wrong is rebuilt from the segment (REC-3, REC-4).
"""

from typing import Protocol

from esp.ports.disk import Disk


class SavedIndex(Protocol):
    """An index that knows how many of its entries stand in its file."""

    saved: int

    @property
    def entry_size(self) -> int:
        """Bytes of one entry in the file."""

    def __len__(self) -> int: ...

    def encode(self, start: int) -> bytes:
        """The entries from number ``start`` on, as they stand in the file."""


def save_index(disk: Disk, path: str, index: SavedIndex) -> None:
    """Bring the file up to date with the entries, in the page cache.

    Raises:
        OSError: the device failed or is full; the next call tries again.
    """
    file = disk.open(path, create=True)
    try:
        saved_size = index.saved * index.entry_size
        size = file.size()
        if size < saved_size:
            index.saved = saved_size = 0
        if size > saved_size:
            file.truncate(saved_size)
        if len(index) > index.saved:
            file.append((index.encode(index.saved),))
            index.saved = len(index)
    finally:
        file.close()
