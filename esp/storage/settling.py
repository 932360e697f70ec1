"""Logs made durable for a clean shutdown: nothing is written to them any more.

:class:`JointSettling` does it with two syncs of the file system, however many logs there are: everything that is missing is written, under
temporary names where a file is replaced; the file system is synced; the new files get their names; and it is synced again. So a power loss,
at any moment, leaves each file as it was or as it is to be. :func:`settle_all_blocking` syncs each file of each log.

A sync of the file system vouches only for what was written since it was opened (:class:`esp.ports.disk.FileSystem`). A log is settled with
others if this process opened it after a clean shutdown, or made it: else an earlier process, which was killed, may have written bytes that
the device has lost since, and the kernel may have reported that to another program. The sync of the file itself tells.
"""

from collections.abc import Iterable
from contextlib import suppress

from esp.ports.disk import FileSystem
from esp.storage.log import Log


def settle_all_blocking(logs: Iterable[Log]) -> None:
    """Settle some logs one by one; what fails is raised when their directory is closed."""
    for log in logs:
        with suppress(OSError):
            log.settle_blocking()


class JointSettling:
    """Logs of one file system that are settled together; what fails is raised when their directory is closed.

    As long as there are :attr:`logs`, all of them must go on, in any order and number of threads, and then the file system be synced.

    Args:
        logs: none of them settled; those for which the file system cannot vouch are left out.
        file_system: holds them.
    """

    def __init__(self, logs: Iterable[Log], file_system: FileSystem) -> None:
        self._file_system = file_system
        self._settling = {log: log.settling() for log in logs if log.is_of_this_process}

    @property
    def logs(self) -> list[Log]:
        """The logs that are not settled, and have not failed."""
        return list(self._settling)

    def go_on_blocking(self, part: Iterable[Log]) -> None:
        """Write, or rename, for some of the logs: all that comes before the next sync."""
        for log in part:
            try:
                next(self._settling[log])
            except (StopIteration, OSError):  # the log remembers the error
                del self._settling[log]

    def sync_blocking(self) -> None:
        """Sync the file system, if a log needs it. An error takes all the logs offline: it does not tell which have lost something."""
        if not self._settling:
            return
        try:
            self._file_system.sync_blocking()
        except OSError as error:
            for log, settling in self._settling.items():
                log.take_offline()
                with suppress(OSError):
                    settling.throw(error)
            self._settling.clear()
