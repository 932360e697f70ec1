"""Each rule catches what it is there for, and leaves alone what is right."""

from pathlib import Path

import pytest

from tests.architecture import rules

LEFTOVER = "TO" + "DO"
HOME = "/ho" + "me/somebody/esp"


def test_work_left_over_is_found_with_its_line() -> None:
    assert rules.find_leftovers(f"a\n# {LEFTOVER}: later\n") == [f"line 2: # {LEFTOVER}: later"]


@pytest.mark.parametrize("text", ["\\uXXXX", "mastodon", "todo", "XXXL"])
def test_words_that_only_look_like_leftovers_are_none(text: str) -> None:
    assert rules.find_leftovers(text) == []


def test_path_of_somebodys_home_is_found() -> None:
    assert rules.find_home_paths(f"x\ncd {HOME}") == [f"line 2: cd {HOME}"]
    assert rules.find_home_paths("/ro" + "ot/.cache") != []


@pytest.mark.parametrize("text", ["~/.cache", "docs/home/page", "see /rooted", "https://example.org/home/x"])
def test_other_paths_are_nobodys_home(text: str) -> None:
    assert rules.find_home_paths(text) == []


def test_module_must_say_what_it_is_for_in_a_sentence() -> None:
    assert rules.find_docstring_problem("x = 1\n") == ["no docstring"]
    assert rules.find_docstring_problem('"""Helpers"""\n') == ["the docstring begins with no sentence: Helpers"]
    assert rules.find_docstring_problem('"""Reads logs.\n\nMore.\n"""\n') == []


def test_sleep_for_luck_is_found() -> None:
    source = "import time\ntime.sleep(1)\nfor _ in range(3):\n    time.sleep(2)\n"
    assert rules.find_sleeps(source) == ["line 2: time.sleep(1)", "line 4: time.sleep(2)"]


def test_sleep_under_another_name_is_found() -> None:
    assert rules.find_sleeps("from time import sleep as nap\nnap(1)\n") == ["line 2: nap(1)"]


@pytest.mark.parametrize(
    "source",
    [
        "import time\nwhile not ready():\n    time.sleep(0.01)\n",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n",
        "code = 'import time; time.sleep(600)'\n",
        "class Clock:\n    def sleep(self): ...\nClock().sleep()\n",
    ],
)
def test_sleep_that_asks_again_or_holds_up_no_thread_is_allowed(source: str) -> None:
    assert rules.find_sleeps(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "if stored_key == credential.stored_key: ...",
        "if password != expected: ...",
        "x = _hash(proof) == made.digest()",
        "x = final['nonce'] != self._nonce",
        "x = user.password in passwords",
        "x = signature[:4] == other",
    ],
)
def test_secret_that_is_compared_byte_by_byte_is_found(source: str) -> None:
    assert rules.find_compared_secrets(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "if hmac.compare_digest(stored_key, credential.stored_key): ...",
        "x = len(proof) == len(signature)",
        "x = password == ''",
        "x = user == self.user",
        "x = iterations < most",
        "x = nonce is None",
    ],
)
def test_comparisons_that_tell_nothing_of_secrets_are_allowed(source: str) -> None:
    assert rules.find_compared_secrets(source) == []


def test_length_is_a_ratchet() -> None:
    lengths = {
        "grown.py": 510,
        "same.py": 700,
        "short.py": 10,
        "shrunk.py": 390,
        "newcomer.py": 801,
        "at the hint.py": 800,
    }
    longest = {"grown.py": 500, "same.py": 700, "shrunk.py": 900, "gone.py": 600}
    assert rules.find_grown(lengths, longest, hint=800) == [
        "grown.py has grown from 500 to 510 lines: shorten it, or agree to it in the table",
        "gone.py is in the table and not there",
        "newcomer.py has 801 lines, more than 800: is it one thing? If so, agree to it in the table",
    ]
    assert rules.find_grown({"new.py": 900, "old.py": 1000}, {"old.py": 1000}, hint=800) == []
    assert rules.find_grown({}, {}, hint=800) == []


def test_lengths_are_counted_in_lines() -> None:
    sources = {
        "a.py": "def f():\n    pass\n\n\nclass C:\n    def f(self):\n        x = 1\n        return x\n",
        "b.py": "",
    }
    assert rules.module_lengths(sources) == {"a.py": 8, "b.py": 0}
    assert rules.function_lengths(sources) == {"a.py:f": 3}


def test_links_must_lead_somewhere(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Over there\n")
    document = tmp_path / "a.md"
    text = (
        "# Here\n[1](there.md) [2](there.md#over-there) [3](#here) [4](https://example.org/x) ![5](none.png)\n"
        "[6](there.md#nowhere) [7](#lost) `[8](code.md)`\n```\n[9](code.md)\n```\n"
    )
    assert [finding.partition(":")[0] for finding in rules.find_broken_links(document, text)] == [
        "none.png",
        "there.md#nowhere",
        "#lost",
    ]


def test_anchors_are_those_of_github() -> None:
    text = "# What's `esp/a/`, then?\n## Twice\n## Twice\n```\n# no heading\n```\n## A [link](x.md) here\n"
    assert rules.heading_anchors(text) == {"whats-espa-then", "twice", "twice-1", "a-link-here"}


def test_rules_are_cited_alone_in_ranges_and_in_part() -> None:
    text = "(LOG-7..9, TRUNC-3.8; HW-2) UTF-8 SHA-256"
    assert rules.cited_rules(text, {"LOG", "HW", "TRUNC"}) == {
        "LOG-7",
        "LOG-8",
        "LOG-9",
        "TRUNC-3",
        "HW-2",
    }


def test_rules_are_defined_in_the_first_column() -> None:
    assert rules.defined_rules("| LOG-1 | text HW-2 |\n| LOG-1 | again |\nREC-1\n") == {"LOG-1": 2}


def test_families_are_those_that_the_document_defines() -> None:
    document = "| LOG-1 | text HW-2 |\n| LOG-2 | more |\n| THROTTLE-1 | and more |\n"
    assert rules.rule_families(rules.defined_rules(document)) == {"LOG", "THROTTLE"}


def test_attributes_declared_without_a_value_are_found() -> None:
    source = """
class A:
    field: int

    def __init__(self):
        self.here: int = 1
        self.later: int
        local: int
"""
    assert rules.find_valueless_attributes(source) == ["7: self.later"]
