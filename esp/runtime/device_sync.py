"""Waiting until the device holds what was written."""

import fcntl
import os
import sys

if sys.platform == "darwin":

    def sync_data(fd: int) -> None:
        """Return when the file's bytes and length are on the device. There ``fsync`` stops at the drive's own cache."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:

    def sync_data(fd: int) -> None:
        """Return when the file's bytes and length are on the device."""
        os.fdatasync(fd)


def sync_directory(path: str) -> None:
    """Return when the names in the directory are on the device."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
