"""Notices that files have changed, by looking at them now and then.

A change counts when the files look the same twice: a key that is copied before its certificate is not taken alone. A name that leads to
another file than before, as a symbolic link that was turned, is a change too.
"""

import os
from collections.abc import Iterable

Look = tuple[tuple[int, int, int] | None, ...]
"""The state of some files: two that are equal are of files that have not changed in between."""


def look_at_blocking(paths: Iterable[str]) -> Look:
    """Return the state of the files of these names; there may be none."""
    return tuple(map(_look_at_one_blocking, paths))


class FileWatch:
    """Some files, as they were when they were last taken.

    Args:
        paths: their names. They are looked at at once, so that a change while they are being read is noticed.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._taken = self._seen = look_at_blocking(self._paths)

    def is_changed_blocking(self) -> bool:
        """True once for each change that has settled."""
        before, self._seen = self._seen, look_at_blocking(self._paths)
        if self._seen != before or self._seen == self._taken:
            return False
        self._taken = self._seen
        return True


def _look_at_one_blocking(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:  # it may come back, as another one
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
