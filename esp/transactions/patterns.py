"""Regular expressions of clients, matched in time that grows with the text times the pattern, and no faster.

Python's own matcher goes back when a choice was wrong, and a pattern such as ``(a+)+b`` lets it do so for ever, while no other request is
served. Kafka takes patterns of RE2, which have no references and no looking around; those are what is taken here. All places of the
pattern that may be reached are followed at once, character by character.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

_PARSER: Final = importlib.import_module("re._parser")
_CONSTANTS: Final = importlib.import_module("re._constants")

PATTERN_LENGTH_MAX: Final = 1000
"""Compiling a pattern takes the loop's time; transactional ids that need a longer one are unlikely."""

PLACES_MAX: Final = 5_000
"""Places of a pattern, its repetitions written out."""

_Test = Callable[[str], bool]
_Fragment = tuple[int, list[int]]
"""The first place of a part of the pattern, and the places whose next one is still open."""


class PatternError(ValueError):
    """The text is no regular expression, or one that is not served."""


def compile_pattern(text: str) -> Callable[[str], bool]:
    """Return a function that says if a whole text matches the pattern.

    Raises:
        PatternError: the pattern is malformed, too long, or has references or assertions.
    """
    if len(text) > PATTERN_LENGTH_MAX:
        raise PatternError(f"a pattern of more than {PATTERN_LENGTH_MAX} characters")
    try:
        parsed = _PARSER.parse(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from error
    if parsed.state.flags & ~re.UNICODE:
        raise PatternError("a pattern with flags")
    places = _Places()
    first, ends = places.sequence(_without_anchors(list(parsed)))
    places.close(ends, places.add(None))
    return lambda candidate: places.matches(first, candidate)


def _without_anchors(items: list[Any]) -> list[Any]:
    """The items without ``^`` before and ``$`` behind them, which say nothing where a whole text is matched."""
    begin, end = ((_CONSTANTS.AT, place) for place in (_CONSTANTS.AT_BEGINNING, _CONSTANTS.AT_END))
    start = 1 if items[:1] == [begin] else 0
    return items[start : len(items) - 1] if items[start:][-1:] == [end] else items[start:]


class _Places:
    """The places of a pattern: at each a test of one character, and the places that follow it; without a test no character is taken."""

    def __init__(self) -> None:
        self._tests: list[_Test | None] = []
        self._next: list[list[int]] = []

    def add(self, test: _Test | None, *following: int) -> int:
        """A new place."""
        if len(self._tests) >= PLACES_MAX:
            raise PatternError(f"a pattern of more than {PLACES_MAX} places")
        self._tests.append(test)
        self._next.append(list(following))
        return len(self._tests) - 1

    def close(self, ends: Iterable[int], following: int) -> None:
        """Let places go on at another one."""
        for end in ends:
            self._next[end].append(following)

    def sequence(self, items: Iterable[Any]) -> _Fragment:
        """The places of items that follow one another."""
        first = self.add(None)
        ends = [first]
        for item in items:
            start, following = self._item(*item)
            self.close(ends, start)
            ends = following
        return first, ends

    def matches(self, first: int, text: str) -> bool:
        """True if the last place can be reached with the whole text."""
        reached = self._spread((first,))
        for character in text:
            reached = self._spread(
                following
                for place in reached
                if (test := self._tests[place]) is not None and test(character)
                for following in self._next[place]
            )
            if not reached:
                return False
        return len(self._tests) - 1 in reached

    def _spread(self, places: Iterable[int]) -> set[int]:
        """These places, and all that they reach without a character."""
        reached: set[int] = set()
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place not in reached:
                reached.add(place)
                if self._tests[place] is None:
                    waiting += self._next[place]
        return reached

    def _item(self, kind: Any, content: Any) -> _Fragment:
        if kind is _CONSTANTS.SUBPATTERN:
            _, added_flags, removed_flags, items = content
            if added_flags or removed_flags:
                raise PatternError("a pattern with flags")
            return self.sequence(items)
        if kind is _CONSTANTS.BRANCH:
            first = self.add(None)
            ends: list[int] = []
            for items in content[1]:
                start, following = self.sequence(items)
                self.close((first,), start)
                ends += following
            return first, ends
        if kind in (_CONSTANTS.MAX_REPEAT, _CONSTANTS.MIN_REPEAT):
            return self._repeat(*content)
        place = self.add(_test_of(kind, content))
        return place, [place]

    def _repeat(self, least: int, most: Any, items: Any) -> _Fragment:
        first = self.add(None)
        ends = [first]
        for _ in range(least):
            start, following = self.sequence(items)
            self.close(ends, start)
            ends = following
        if most is _CONSTANTS.MAXREPEAT:
            again = self.add(None)
            start, following = self.sequence(items)
            self.close((*ends, *following), again)
            self.close((again,), start)
            return first, [again]
        left = list(ends)
        for _ in range(most - least):
            start, following = self.sequence(items)
            self.close(ends, start)
            ends = following
            left += following
        return first, left


def _test_of(kind: Any, content: Any) -> _Test:
    """The test of one character, by Python's own matcher, which has no choices there."""
    if kind is _CONSTANTS.ANY:
        return lambda character: character != "\n"
    if kind is _CONSTANTS.LITERAL:
        return lambda character: ord(character) == content
    if kind is _CONSTANTS.NOT_LITERAL:
        return lambda character: ord(character) != content
    if kind is _CONSTANTS.IN:
        return _test_of_set(content)
    raise PatternError("a pattern with references or assertions")


def _test_of_set(items: Any) -> _Test:
    is_negated = items[0][0] is _CONSTANTS.NEGATE
    tests = [_test_of_member(*item) for item in items if item[0] is not _CONSTANTS.NEGATE]
    return lambda character: any(test(character) for test in tests) is not is_negated


def _test_of_member(kind: Any, content: Any) -> _Test:
    if kind is _CONSTANTS.RANGE:
        low, high = content
        return lambda character: low <= ord(character) <= high
    if kind is _CONSTANTS.CATEGORY:
        return _CATEGORIES[content]
    return _test_of(kind, content)


def _escape_test(escape: str) -> _Test:
    matches = re.compile(escape).match
    return lambda character: matches(character) is not None


_CATEGORIES: Final = {
    getattr(_CONSTANTS, f"CATEGORY_{name}"): _escape_test(escape)
    for name, escape in (
        ("DIGIT", r"\d"),
        ("NOT_DIGIT", r"\D"),
        ("SPACE", r"\s"),
        ("NOT_SPACE", r"\S"),
        ("WORD", r"\w"),
        ("NOT_WORD", r"\W"),
    )
}
