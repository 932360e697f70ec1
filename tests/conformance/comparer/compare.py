"""Sends both brokers every case in every version, and holds the answers against each other."""

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tests.conformance.comparer.case import Case
from tests.conformance.comparer.difference import differences, masked
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.target import Target

_APPLIED_WITHIN_S: Final = 10
_PAUSE_S: Final = 0.05


class Difference(NamedTuple):
    """Where the two answers to one request differ."""

    api: str
    version: int
    case: str
    place: str
    ours: Any
    theirs: Any
    rights: str = ""
    """The rights that the client lacked; nothing is said where nobody was asked for any."""

    def __str__(self) -> str:
        case = f"{self.case}, {self.rights}" if self.rights else self.case
        where = f"{self.api} v{self.version}, {case}: {self.place or 'answer'}"
        return f"{where}\n    ESP   {self.ours!r:.300}\n    Kafka {self.theirs!r:.300}"


def compare(ours: Target, theirs: Target, cases: Iterable[Case], *, in_short: bool = False) -> Iterator[Difference]:
    """All differences, as they are found; in short only of the oldest, the newest and a middle version of each case."""
    for case in cases:
        for version in _some(case.versions) if in_short else case.versions:
            for place, own, other in _differences_of(ours, theirs, case, version):
                yield Difference(case.label, version, case.name, place, own, other)


def plays_of(scenes: Iterable[Scene], *, in_short: bool = False) -> list[tuple[Scene, int]]:
    """All scenes with their versions; in short only with the oldest, the newest and one between, which is another one for each scene."""
    return [
        (scene, version)
        for number, scene in enumerate(scenes)
        for version in (_some(scene.versions, number) if in_short else scene.versions)
    ]


def play(ours: Target, theirs: Target, plays: Iterable[tuple[Scene, int]]) -> Iterator[Difference]:
    """All differences of scenes, as they are found."""
    for scene, version in plays:
        answers = [masked(scene.answer_of(target, version), target.texts_to_mask()) for target in (ours, theirs)]
        for place, own, other in differences(*answers):
            yield Difference(scene.label, version, scene.name, place, own, other)


def _differences_of(ours: Target, theirs: Target, case: Case, version: int) -> list[tuple[str, Any, Any]]:
    own = _answer(ours, case, version)
    found = list(differences(own, _answer(theirs, case, version)))
    deadline = time.monotonic() + _APPLIED_WITHIN_S
    while found and case.reads_a_change and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        found = list(differences(own, _answer(theirs, case, version)))
    return found


def _answer(target: Target, case: Case, version: int) -> Any:
    content = case.content_for(target, version)
    return masked(target.ask(case.key, version, content, case.listener), target.texts_to_mask())


def _some(versions: range, number: int | None = None) -> list[int]:
    between = len(versions) // 2 if number is None else number % len(versions)
    return sorted({versions[0], versions[between], versions[-1]})
