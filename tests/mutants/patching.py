"""Applies a mutant while its module is imported."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from tests.mutants.mutant import Mutant


class MutantTextError(Exception):
    """The text that a mutant replaces is gone, or stands there more than once: the table is to be brought up to date."""


def mutate(source: str, mutant: Mutant) -> str:
    """The module's source with the bug in it.

    Raises:
        MutantTextError: see there.
    """
    count = source.count(mutant.text)
    if count != 1:
        raise MutantTextError(f"{mutant.name}: its text stands {count} times in {mutant.module}, not once")
    return source.replace(mutant.text, mutant.replacement)


class _MutantLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> object:  # type: ignore[override]  # a code object
        """Compile the changed source; nothing is cached."""
        path = self.get_filename(fullname)
        source = mutate(self.get_data(path).decode(), self._mutant)
        return compile(source, path, "exec", dont_inherit=True)


class _MutantFinder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take over the import of the mutant's module, and of no other."""
        if fullname != self._mutant.module:
            return None
        found = PathFinder.find_spec(fullname, path)
        assert found is not None, f"there is no module {fullname}"
        assert found.origin is not None
        loader = _MutantLoader(fullname, found.origin, self._mutant)
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def install(mutant: Mutant) -> None:
    """Let the import of the mutant's module give the changed one, in this process.

    Raises:
        MutantTextError: it is imported already.
    """
    if mutant.module in sys.modules:
        raise MutantTextError(f"{mutant.name}: {mutant.module} is imported already")
    sys.meta_path.insert(0, _MutantFinder(mutant))
