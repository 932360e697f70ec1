"""The Python process of an executor, which does one task after another.

Before each task Spark has Python's import system forget what it knows of directories, and after each it collects garbage. Up to Python
3.12 the first reads the tables of ``pyspark.zip`` and Spark's jar again, for each of their packages that was imported, and the second looks
at the objects of all modules: a tenth of a second of CPU time for each task, thirty times as much as a task of a small micro-batch takes.
After :func:`ease_next_task` neither has much to do.

Spark sends a task in two pieces. Its JVM does not set TCP_NODELAY, so that the second piece waits until the kernel here acknowledges the
first, and the kernel delays that by 40 ms where it expects an answer to take the acknowledgement along (Nagle's algorithm and delayed
acknowledgements). After :func:`ease_next_task` it does not expect one. From Spark 4.1 on the connection may be one without TCP, which
has no such delay.
"""

import functools
import gc
import inspect
import os
import socket
import sys
from collections.abc import Collection, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final
from zipimport import zipimporter

_WORKER: Final = "worker"
_CONNECTION: Final = "sock"
"""The function of ``pyspark.daemon`` that does a task, and its name for the connection."""

_WHOLE: Final = 2
"""The generation of a collection that is asked for."""


class FixedImporter(zipimporter):
    """Imports from an archive that does not change while the process lives."""

    def invalidate_caches(self) -> None:
        """The table of the archive is not read again."""


def ease_next_task() -> None:
    """Make the process ready for its next task. To be called at the end of each."""
    fix_importers(os.environ.get("PYTHONPATH", "").split(os.pathsep), sys.path_importer_cache)
    _freeze()
    _acknowledge_soon()


def fix_importers(archives: Collection[str], cache: MutableMapping[str, Any]) -> None:
    """Replace the importers of archives in a cache.

    Args:
        archives: paths with which the process was started; archives that came with a job may be replaced, and are none of them.
        cache: importers by the paths of archives, or of packages in them.
    """
    for path, importer in tuple(cache.items()):
        if type(importer) is zipimporter and importer.archive in archives:
            cache[path] = FixedImporter(path)


@functools.cache
def _freeze() -> None:
    """Leave what is there by the end of the first task, modules above all, out of collections."""
    gc.freeze()


@functools.cache
def _acknowledge_soon() -> None:
    """Have what Spark sends acknowledged without delay."""
    connection = find_connection()
    if connection is not None and hasattr(socket, "TCP_QUICKACK"):  # Linux has it
        gc.callbacks.append(functools.partial(acknowledge_soon, connection))


def find_connection() -> socket.socket | None:
    """Return the connection to Spark's JVM, which a caller of this function has; None if it is not one of TCP, or not found."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == _WORKER:
            found = frame.f_locals.get(_CONNECTION)
            if isinstance(found, socket.socket) and found.family in (socket.AF_INET, socket.AF_INET6):
                return found
        frame = frame.f_back
    return None


def acknowledge_soon(connection: socket.socket, phase: str, info: Mapping[str, Any]) -> None:
    """Have the kernel acknowledge what comes without delay. An answer sets that back.

    Spark collects garbage between two tasks, and Python calls this then, behind the answer of the last task.

    Args:
        connection: to Spark's JVM.
        phase: of the collection.
        info: of the collection.
    """
    if phase == "stop" and info["generation"] == _WHOLE:
        with suppress(OSError):  # Spark has ended the connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
