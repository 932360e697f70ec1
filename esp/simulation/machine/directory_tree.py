"""The names of a simulated disk: what the kernel shows, and which of it the device holds.

Each change of names is one atomic entry of a journal (a rename has two halves in one entry). Syncing a directory makes its entries durable;
a power loss keeps a random subset of the rest. Syncing a file does nothing for its name: harsher than ext4, as POSIX allows.
"""

import errno
import os
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple, TypeAlias, Union

from esp.simulation.machine.file_content import FileContent

_PATHS_KEPT: Final = 4096
"""Paths that are remembered in parts: checkers look at the same files after each append."""


class Directory:
    """Names as they are now (``names``) and as the device has them (``durable_names``)."""

    __slots__ = ("durable_names", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable_names: dict[str, Node] = {}

    def holds(self, other: "Directory") -> bool:
        """True if ``other`` is this directory or somewhere below it."""
        return other is self or any(isinstance(node, Directory) and node.holds(other) for node in self.names.values())


Node: TypeAlias = Union[Directory, FileContent]  # noqa: UP007 - "|" cannot be evaluated with a forward reference before 3.14


class Change(NamedTuple):
    """``name`` in ``directory`` now means ``node``, or nothing."""

    directory: Directory
    name: str
    node: Node | None


Entry: TypeAlias = tuple[Change, ...]


class DirectoryTree:
    """All directories below one root, addressed by paths with ``/``; relative paths start at the root too."""

    def __init__(self) -> None:
        self.root = Directory()
        self._journal: list[Entry] = []
        self._durable_place: dict[Node, tuple[Directory, str]] = {}

    def find(self, path: str) -> Node | None:
        """The node that the path names, or None."""
        node: Node | None = self.root
        for part in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.names.get(part)
        return node

    def directory(self, path: str) -> Directory:
        """The directory of that path. Raises FileNotFoundError or NotADirectoryError."""
        node = self.find(path)
        if node is None:
            raise file_error(errno.ENOENT, path)
        if not isinstance(node, Directory):
            raise file_error(errno.ENOTDIR, path)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that holds the path's last name, and that name. Raises FileNotFoundError or NotADirectoryError."""
        *above, name = _parts(path)
        return self.directory("/".join(above)), name

    def change(self, *changes: Change) -> None:
        """Change names, all at once, in the kernel's view; the device learns of it by a sync."""
        for directory, name, node in changes:
            if node is None:
                del directory.names[name]
            else:
                directory.names[name] = node
        self._journal.append(changes)

    def make(self, path: str) -> None:
        """Make a directory and its missing parents. Raises FileExistsError or NotADirectoryError where a file is in the way."""
        node = self.root
        parts = _parts(path)
        for position, part in enumerate(parts):
            below = node.names.get(part)
            if below is None:
                below = Directory()
                self.change(Change(node, part, below))
            if not isinstance(below, Directory):
                raise file_error(errno.EEXIST if position == len(parts) - 1 else errno.ENOTDIR, path)
            node = below

    def begin_sync(self, directory: Directory) -> list[Entry]:
        """Return what a sync of the directory makes durable that begins now: its changes, and whatever earlier ones they stand on."""
        pending: list[Entry] = []
        touched: set[tuple[int, str]] = set()
        for entry in reversed(self._journal):
            keys = {(id(change.directory), change.name) for change in entry}
            if any(change.directory is directory for change in entry) or not touched.isdisjoint(keys):
                pending.append(entry)
                touched |= keys
        pending.reverse()
        return pending

    def finish_sync(self, pending: list[Entry]) -> None:
        """Make durable what :meth:`begin_sync` returned, as far as no other sync has done so since."""
        chosen = {id(entry) for entry in pending}
        ready = [entry for entry in self._journal if id(entry) in chosen]
        self._journal = [entry for entry in self._journal if id(entry) not in chosen]
        for entry in ready:
            self._apply(entry)

    def begin_sync_of_all(self) -> list[Entry]:
        """Return what a sync of the whole file system makes durable that begins now; for :meth:`finish_sync`."""
        return list(self._journal)

    def files(self) -> Iterator[tuple[str, FileContent]]:
        """All files with their paths, in the order of their names."""
        return _files("", self.root)

    def finish_all(self) -> None:
        """Make all names durable."""
        self.finish_sync(list(self._journal))

    def lose_power(self, rng: Random) -> None:
        """Keep what was synced and a random part of the rest, of names and of bytes."""
        chance = rng.choice((0.0, 0.5, 0.9, 1.0))
        for entry in self._journal:
            if rng.random() < chance:
                self._apply(entry)
        self._journal.clear()
        self._restore(self.root, rng)

    def _apply(self, entry: Entry) -> None:
        for directory, name, node in entry:
            if node is None:
                gone = directory.durable_names.pop(name, None)
                if gone is not None:
                    self._durable_place.pop(gone, None)
                continue
            before = self._durable_place.get(node)
            if (
                before is not None
            ):  # the rename that took it from there was lost, a later one was not: one node, one name
                del before[0].durable_names[before[1]]
            replaced = directory.durable_names.get(name)
            if replaced is not None:
                self._durable_place.pop(replaced, None)
            directory.durable_names[name] = node
            self._durable_place[node] = (directory, name)

    def _restore(self, directory: Directory, rng: Random) -> None:
        directory.names = dict(sorted(directory.durable_names.items()))
        for node in directory.names.values():
            if isinstance(node, Directory):
                self._restore(node, rng)
            else:
                node.lose_power(rng)


def _files(path: str, directory: Directory) -> Iterator[tuple[str, FileContent]]:
    for name, node in sorted(directory.names.items()):
        below = f"{path}/{name}"
        if isinstance(node, Directory):
            yield from _files(below, node)
        else:
            yield below, node


def file_error(number: int, path: str) -> OSError:
    """The exception that the operating system's call would raise: for most numbers a subclass of OSError."""
    return OSError(number, os.strerror(number), path)


@lru_cache(_PATHS_KEPT)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))
