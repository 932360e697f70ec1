"""What the player of scripts promises to the author of a script."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.script import ScriptError, Stage, find_difference, play, read_script, verb


class Counter(Stage):
    """A stage that can count."""

    def __init__(self) -> None:
        super().__init__()
        self._total = 0

    @verb
    def add(self, amount: int, *, more_of: tuple[int, ...] = (), from_: str = "nobody") -> None:
        """Add numbers."""
        self._total += amount + sum(more_of)
        self.say(f"{self._total} by {from_}")

    @verb
    def rest(self) -> None:
        """Do nothing."""

    @verb
    def divide(self, by: int) -> None:
        """Divide by a number."""
        self._total //= by

    def not_a_verb(self) -> None:
        """Cannot be said in a script."""


STAGES: Final[Mapping[str, Callable[[], Stage]]] = {"sum": Counter}
RECORDED: Final = """# sum: two numbers
#
# Prose.

# Why it begins with 1.
add 1
add 2 more-of=3,4 from=me
----
1 by nobody
10 by me

rest
----
ok
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "sum.txt"
    path.write_text(text)
    return path


def _play(text: str) -> str:
    return play(read_script("sum.txt", text), STAGES)


def test_script_that_ends_as_recorded_has_no_difference(tmp_path: Path) -> None:
    assert find_difference(_write(tmp_path, RECORDED), STAGES, rewrite=False) == ""


def test_changed_outcome_is_shown_with_the_way_to_record_it(tmp_path: Path) -> None:
    path = _write(tmp_path, RECORDED.replace("10 by", "11 by"))
    difference = find_difference(path, STAGES, rewrite=False).splitlines()
    assert "-11 by me" in difference
    assert "+10 by me" in difference
    assert "pytest tests/scenarios --rewrite -k sum" in difference[-1]
    assert "11 by" in path.read_text(), "nothing is written without being asked for"


@pytest.mark.parametrize(("old", "new"), [("10 by me\n", ""), ("10 by me\n", "10 by me\nmore\n")])
def test_outcome_that_lacks_a_line_or_has_one_too_many_differs(tmp_path: Path, old: str, new: str) -> None:
    assert find_difference(_write(tmp_path, RECORDED.replace(old, new, 1)), STAGES, rewrite=False) != ""


def test_rewriting_records_the_outcome_and_keeps_the_prose(tmp_path: Path) -> None:
    path = _write(tmp_path, RECORDED.replace("----\n1 by nobody\n10 by me\n", "").replace("ok", "nonsense"))
    assert find_difference(path, STAGES, rewrite=True) == ""
    assert path.read_text() == RECORDED


def test_unknown_verb_is_named_with_its_line_and_what_there_is() -> None:
    with pytest.raises(
        ScriptError, match=r"^sum.txt:6: unknown verb 'ad'; is 'add' meant\? there are: add, divide, rest$"
    ):
        _play(RECORDED.replace("add 1", "ad 1"))
    with pytest.raises(ScriptError, match=r"^sum.txt:6: unknown verb 'not-a-verb'; there are: add, divide, rest$"):
        _play(RECORDED.replace("add 1", "not-a-verb"))


@pytest.mark.parametrize("command", ["add", "add one", "add 1 2", "add 1 less-of=3"])
def test_wrong_argument_is_named_with_its_line_and_the_verbs_usage(command: str) -> None:
    with pytest.raises(
        ScriptError, match=r"^sum.txt:6: add: .*; it is used as: add amount \[more-of=...\] \[from=...\]$"
    ):
        _play(RECORDED.replace("add 1", command))


def test_error_of_what_is_played_is_told_with_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        _play(RECORDED.replace("add 1", "divide 0"))
    assert error.value.__notes__ == ["at sum.txt:6: divide 0"]


def test_script_has_a_title_that_names_a_known_area() -> None:
    for text in ("", "add 1\n", "# two numbers\n"):
        with pytest.raises(ScriptError, match=r"^sum.txt:1: a script begins with its title"):
            _play(text)
    with pytest.raises(ScriptError, match=r"^sum.txt:1: unknown area 'sums'; there are: sum$"):
        _play(RECORDED.replace("# sum:", "# sums:"))


def test_line_that_makes_no_sense_is_named() -> None:
    with pytest.raises(ScriptError, match=r"^sum.txt:7: a comment stands above the commands"):
        _play(RECORDED.replace("add 1\n", "add 1\n# later\n"))
    with pytest.raises(ScriptError, match=r"^sum.txt:6: No closing quotation"):
        _play(RECORDED.replace("add 1", "add '1"))
    with pytest.raises(ScriptError, match=r"^sum.txt:3: ---- without a command"):
        _play("# sum: nothing\n\n----\n")
