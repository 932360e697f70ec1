"""The Python process of an executor, which does one task after another.

Before each task Spark has Python's import system forget what it knows of directories, and after each it collects garbage. Up to Python
3.12 the first reads the tables of ``pyspark.zip`` and Spark's jar again, for each of their packages that was imported, and the second looks
at the objects of all modules: a tenth of a second of CPU time for each task, thirty times as much as a task of a small micro-batch takes.
After :func:`ease_next_task` neither has much to do.
"""

import functools
import gc
import os
import sys
from collections.abc import Collection, MutableMapping
from typing import Any
from zipimport import zipimporter


class FixedImporter(zipimporter):
    """Imports from an archive that does not change while the process lives."""

    def invalidate_caches(self) -> None:
        """The table of the archive is not read again."""


def ease_next_task() -> None:
    """Make the process ready for its next task. To be called at the end of each."""
    fix_importers(os.environ.get("PYTHONPATH", "").split(os.pathsep), sys.path_importer_cache)
    _freeze()


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
