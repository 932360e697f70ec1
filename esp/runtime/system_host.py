"""The machine that the node runs on, and the end of its process."""

import fcntl
import logging
import os
import platform
import resource
import subprocess
import sys
from typing import Final, NoReturn

log = logging.getLogger(__name__)

EXIT_STATUS = 70
"""EX_SOFTWARE of sysexits.h: an internal error, so that a supervisor can tell it from a refused configuration."""

DESCRIPTORS: Final = 16_384
"""Open files and sockets that there is room for from the start: an eighth of a mebibyte."""


class SystemHost:
    """See :class:`esp.ports.host.Host`."""

    def __init__(self) -> None:
        self.boot_id = _boot_id()
        self.name = platform.node()

    def fatal(self, reason: str) -> NoReturn:
        """See :class:`esp.ports.host.Host`. Nothing runs after it: no ``finally``, no exit handler, no other thread's cleanup."""
        log.critical("stopping the node at once: %s", reason, exc_info=sys.exc_info()[0] is not None)
        logging.shutdown()
        os._exit(EXIT_STATUS)


def raise_open_files_limit() -> None:
    """Take all the open files that the system grants: each segment has three, each connection and each mapped region one.

    To be called before there are threads: with them the kernel makes its table larger in tens of milliseconds, in which nothing is served.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # macOS refuses an unlimited soft limit
            log.warning("the limit of open files stays at %d: %s", soft, error)
    _make_room_for_descriptors(min(DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def _make_room_for_descriptors(count: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.close(fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, count - 1))
    except OSError as error:  # it will be made when it is needed
        log.debug("no room for %d descriptors: %s", count, error)
    finally:
        os.close(null)


def _boot_id() -> str:
    if sys.platform == "darwin":
        return subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], check=True, capture_output=True, text=True
        ).stdout.strip()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
