"""What became of a mutant in a tier, and the file that keeps it."""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.mutant import BEYOND_PROMISE


class Verdict(NamedTuple):
    """What became of one mutant in one tier; without an invariant it lives."""

    mutant: str
    tier: str
    invariant: str | None
    violation: str | None
    seeds: int
    """The seeds that were run, with the one that caught it and the void ones."""
    void: tuple[str, ...]
    """The seeds that do not count, because the product fails on them without the mutant, with what it violates."""
    cpu_s: float
    """CPU-seconds of the mutated runs."""
    first: int = 1
    """The first seed."""
    kind: str = ""
    """The kind of the runs, as in :class:`~tests.mutants.mutant.Mutant`."""
    run_on: str = ""
    """The day, as in ISO 8601."""
    others: tuple[str, ...] = ()
    """The seeds that do not count, because they violate an invariant that is not the mutant's, with what they violate."""

    @property
    def key(self) -> tuple[str, str]:
        """The mutant and the tier."""
        return self.mutant, self.tier

    @property
    def which_seeds(self) -> str:
        """How many seeds it took, with what was special about them."""
        special = f" {self.kind}" if self.kind == BEYOND_PROMISE else f" of {self.kind}" if self.kind else ""
        return f"{self.seeds}{special}" + (f" (from {self.first})" if self.first != 1 else "")

    @property
    def caught_by(self) -> str:
        """The invariant, and how many seeds were void or violate another one."""
        void = f" ({len(self.void)} void)" if self.void else ""
        others = f" ({len(self.others)} by others)" if self.others else ""
        return (self.invariant or "NOTHING: IT LIVES") + void + others


class Verdicts:
    """The verdicts of a wall, kept in a file as soon as they are known: a wall takes hours, and may be stopped and continued.

    Args:
        path: of the file, which holds one JSON object a line; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        read = [_verdict(json.loads(line)) for line in lines]
        self._known = {verdict.key: verdict for verdict in read}

    def __iter__(self) -> Iterator[Verdict]:
        """The last verdict on each mutant in each tier."""
        return iter(self._known.values())

    def caught(self, mutant: str, tier: str, *, first: int, kind: str) -> Verdict | None:
        """The verdict on a mutant that was caught by seeds from the same ``first`` on, in runs of the same kind."""
        known = self._known.get((mutant, tier))
        is_valid = known is not None and known.invariant is not None and (known.first, known.kind) == (first, kind)
        return known if is_valid else None

    def add(self, verdict: Verdict) -> None:
        """Keep one more; a former one on the same mutant and tier counts no longer."""
        self._known[verdict.key] = verdict
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(verdict._asdict()) + "\n")


def today() -> str:
    """The day for :attr:`Verdict.run_on`."""
    return date.today().isoformat()


def _verdict(read: Mapping[str, Any]) -> Verdict:
    return Verdict(**{**read, "void": tuple(read["void"]), "others": tuple(read.get("others", ()))})
