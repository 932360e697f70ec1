"""A little room on the disk of a data directory that only the files a node cannot do without may take (REC-9).

A full disk stops appends: producers receive an error, and nothing is lost. But a node must also write its vote, its checkpoints and the
clean shutdown marker, or it can neither start nor shut down cleanly. For that a file of zeros lies in each data directory; it is removed
when such a write finds no room, and made again when there is plenty.
"""

import errno
import logging
from collections.abc import Callable
from typing import Final

from esp.ports.disk import Disk

_logger = logging.getLogger(__name__)

RESERVE_FILE: Final = ".esp-reserve"
RESERVE_BYTES: Final = 1024 * 1024
ROOM_TO_RESERVE_BYTES: Final = 8 * RESERVE_BYTES
"""The reserve is only made where this much is free: otherwise the reserve itself would fill the disk."""

ROOM_TO_WORK_BYTES: Final = RESERVE_BYTES // 2
"""The free bytes below which a node can hardly start, or shut down cleanly."""

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskReserve:
    """The reserve of one data directory.

    Args:
        disk: the file system.
        directory: the data directory.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{RESERVE_FILE}"
        self._is_kept = False

    @property
    def is_there(self) -> bool:
        """True if there is room in reserve."""
        return self._disk.exists(self._path)

    def keep_blocking(self) -> None:
        """Keep room in reserve from now on, whenever there is plenty. On a disk that is full, spend the reserve of an earlier run."""
        self._is_kept = True
        self.make_room_blocking()
        self.replenish_blocking()

    def make_room_blocking(self) -> None:
        """Before much is written that the node cannot do without: where there is hardly any room, give up the reserve."""
        try:
            if self._disk.free_bytes(self._directory) < ROOM_TO_WORK_BYTES:
                self._spend_blocking()
        except OSError as error:  # the writes that follow will report it
            _logger.warning("%s: the reserve cannot be used: %s", self._directory, error)

    def write_blocking(self, write: Callable[[], None]) -> None:
        """Write something that the node cannot do without: where there is no room, give up the reserve and write again.

        Args:
            write: may be called twice; a first call that fails must not leave half of anything.

        Raises:
            OSError: the device failed, or it is full and the reserve is spent.
        """
        try:
            write()
        except OSError as error:
            if error.errno not in NO_ROOM or not self._spend_blocking():
                raise
            write()

    def replenish_blocking(self) -> None:
        """Make the reserve again if it was spent and there is plenty of room. That it cannot be made is no error."""
        if not self._is_kept:
            return
        try:
            if not self.is_there and self._disk.free_bytes(self._directory) >= ROOM_TO_RESERVE_BYTES:
                self._make_blocking()
        except OSError as error:
            _logger.warning("%s: no room can be kept in reserve: %s", self._directory, error)

    def _make_blocking(self) -> None:
        try:
            self._disk.write_file(self._path, bytes(RESERVE_BYTES))
        except OSError:
            if self.is_there:  # a part of it
                self._disk.remove(self._path)
            raise

    def _spend_blocking(self) -> bool:
        """Give up the reserve; return whether that made room. Raises OSError: the device failed."""
        if not self.is_there:
            return False
        try:
            self._disk.remove(self._path)
        except FileNotFoundError:  # a thread, or the loop beside a thread, has just done so
            return True
        _logger.error(
            "%s: the disk is full; the last %d bytes, kept in reserve, are used. Make room, or the node will stop",
            self._directory,
            RESERVE_BYTES,
        )
        return True
