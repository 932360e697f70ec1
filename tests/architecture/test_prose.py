"""Prose says the noun (docs/STYLE.md): what is counted here may only fall."""

from pathlib import Path
from typing import Final

import pytest

from tests.architecture.prose import (
    count_fragments,
    count_pronouns,
    count_questions,
    count_vague_messages,
    count_vague_prose,
)

ROOT: Final = Path(__file__).resolve().parents[2]

COUNTS: Final = {
    "model": (0, 0),
    "ports": (0, 0),
    "records": (0, 0),
    "schemas": (0, 0),
    "protocol": (0, 0),
    "storage": (0, 0),
    "raft": (0, 0),
    "replication": (0, 0),
    "groups": (0, 0),
    "transactions": (0, 0),
    "authorization": (0, 0),
    "quotas": (0, 0),
    "placement": (0, 0),
    "controller": (0, 0),
    "runtime": (0, 0),
    "settings": (0, 0),
    "producer": (0, 0),
    "doctor": (0, 0),
    "cli": (0, 0),
    "rebalance": (0, 0),
    "testing": (0, 0),
    "broker": (0, 0),
    "checkpoints": (0, 0),
    "executor": (0, 0),
    "sink": (0, 0),
    "capture": (0, 0),
    "simulation": (0, 5),  # the parameter ``who`` in lists of arguments
}
"""For each room: docstrings that begin with a question word, and pronouns for persons. A count that has fallen is written down here."""


@pytest.mark.parametrize("room", COUNTS)
def test_prose_says_the_noun(room: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "esp" / room).rglob("*.py")]
    found = sum(map(count_questions, sources)), sum(map(count_pronouns, sources))
    assert found == COUNTS[room]


CODE: Final = ("esp", "pyspark_esp", "pyspark_jobs", "tests", "benchmarks", "tools")


@pytest.mark.parametrize("tree", CODE)
def test_docstrings_name_their_subject(tree: str) -> None:
    counts = {
        path.as_posix(): count_fragments(path.read_text(encoding="utf-8")) for path in (ROOT / tree).rglob("*.py")
    }
    assert counts
    assert {path: count for path, count in counts.items() if count} == {}


PAGES_MAX: Final = {
    "docs/ARCHITECTURE.md": 5,
    "docs/RULES.md": 6,
    "docs/SIMULATION.md": 1,  # the name of a mutant's origin
    "docs/STYLE.md": 15,  # the words that the page asks authors to avoid
}
"""How many of the words that ``count_vague_prose`` counts a page may have; other pages have none. No bound rises."""


@pytest.mark.parametrize("room", COUNTS)
def test_messages_say_the_noun(room: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "esp" / room).rglob("*.py")]
    assert sum(map(count_vague_messages, sources)) == 0


def test_pages_say_the_noun() -> None:
    pages = {page.relative_to(ROOT).as_posix(): page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    counts = {name: count_vague_prose(page.read_text(encoding="utf-8")) for name, page in pages.items()}
    assert {name: count for name, count in counts.items() if count > PAGES_MAX.get(name, 0)} == {}


def test_a_vague_word_counts_in_messages() -> None:
    assert count_vague_messages('"""Told."""\nraise ValueError(f"{who} is told: nobody answers")') == 2
    assert count_vague_messages('x = "who"') == 0


def test_a_vague_word_counts_in_pages_outside_of_code() -> None:
    assert count_vague_prose("Somebody is told.\n`nobody`\n```\nwho\n```\n[link](0021-who.md)") == 2


def test_a_question_word_counts_where_a_docstring_begins() -> None:
    assert count_questions('"""What this is."""\nx = 1\n"""How many there are."""') == 2
    assert count_questions('"""Say what this is."""\ny = "What"') == 0


def test_a_fragment_counts_where_a_docstring_begins() -> None:
    assert count_fragments('"""Of the runs."""\nx = 1\n"""Of a file: its size."""') == 2
    assert count_fragments('"""Offsets of the records."""\ny = "Of the runs"') == 0


def test_a_pronoun_counts_in_docstrings_and_comments() -> None:
    assert count_pronouns('"""Nobody waits for whoever asks."""\nx = 1  # somebody may') == 3
    assert count_pronouns('"""The whole."""\nwho = "nobody"') == 0
