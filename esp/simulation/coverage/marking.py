"""Notes which functions are entered, from the import of their modules on."""

import ast
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from esp.simulation.coverage.functions import ENTERED, ROOMS, instrument, package_of


class AlreadyImportedError(Exception):
    """A module of the rooms was imported before its functions could be made to note anything."""


class _MarkingLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, entered: dict[str, None]) -> None:
        super().__init__(fullname, path)
        self._entered = entered

    def get_code(self, fullname: str) -> object:  # type: ignore[override]  # a code object
        """Compile the source with its notes; nothing is cached."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        instrument(tree, fullname)
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, which finds the notes among its names."""
        setattr(module, ENTERED, self._entered)
        super().exec_module(module)


class _MarkingFinder(importlib.abc.MetaPathFinder):
    def __init__(self, rooms: Sequence[str], entered: dict[str, None]) -> None:
        self._rooms = tuple(rooms)
        self._entered = entered

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take over the import of the rooms' modules, and of no other."""
        if not is_of(fullname, self._rooms):
            return None
        found = PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            return None
        loader = _MarkingLoader(fullname, found.origin, self._entered)
        return importlib.util.spec_from_file_location(
            fullname, found.origin, loader=loader, submodule_search_locations=found.submodule_search_locations
        )


def is_of(module: str, rooms: Sequence[str]) -> bool:
    """True if a module is one of some packages', not of packages within them."""
    return module in rooms or package_of(module) in rooms


def install(entered: dict[str, None], rooms: Sequence[str] = ROOMS) -> None:
    """Have the functions of rooms that are imported from now on note their names in ``entered`` when they are called.

    Raises:
        AlreadyImportedError: a module of theirs is imported already.
    """
    early = sorted(module for module in sys.modules if is_of(module, rooms))
    if early:
        raise AlreadyImportedError(f"imported already: {', '.join(early)}")
    sys.meta_path.insert(0, _MarkingFinder(rooms, entered))
