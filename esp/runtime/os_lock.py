"""A lock between processes, kept by the kernel: it ends with the process however that ends."""

import fcntl
import os


class OsLock:
    """See :class:`esp.ports.disk.Lock`. Made by :func:`take_lock`."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def release(self) -> None:
        """See :class:`esp.ports.disk.Lock`."""
        if self._fd >= 0:
            if _names(self._path, self._fd):
                os.remove(self._path)
            os.close(self._fd)
            self._fd = -1


def take_lock(path: str) -> OsLock | None:
    """Lock the file, made when missing; None if somebody holds it, this process included."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        if _names(path, fd):
            return OsLock(path, fd)
        os.close(
            fd
        )  # its holder released and removed it between our open and our lock: what we locked has no name any more


def _names(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
