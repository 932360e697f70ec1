"""Files and directories that were put aside and are removed after a while (``file.delete.delay.ms``), so that readers can finish."""

from collections.abc import Callable
from typing import NamedTuple

from esp.ports.disk import Disk


def _nothing() -> None:
    """The default: nothing has to be let go of."""


class _Item(NamedTuple):
    path: str
    due_ms: int
    let_go: Callable[[], None]


class Trash:
    """The files and directories that one data directory will remove."""

    __slots__ = ("_disk", "_items")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._items: list[_Item] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, path: str, due_ms: int, let_go: Callable[[], None] = _nothing) -> None:
        """Remove a file or directory once the wall clock shows ``due_ms``; ``let_go`` is called just before."""
        self._items.append(_Item(path, due_ms, let_go))

    def let_go_later(self, due_ms: int, let_go: Callable[[], None]) -> None:
        """Call ``let_go`` once the wall clock shows ``due_ms``; nothing is removed."""
        self._items.append(_Item("", due_ms, let_go))

    def purge(self, now_ms: int) -> int:
        """Remove the paths that are due; return their number.

        Raises:
            OSError: the device failed; paths that were not removed stay due.
        """
        removed = 0
        for item in [item for item in self._items if item.due_ms <= now_ms]:
            item.let_go()
            if item.path and self._disk.exists(item.path):
                if self._disk.stat(item.path).is_directory:
                    self._disk.remove_tree(item.path)
                else:
                    self._disk.remove(item.path)
                removed += 1
            self._items.remove(item)
        return removed
