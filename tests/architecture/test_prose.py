"""Prose says the noun (docs/STYLE.md): what is counted here may only fall."""

from pathlib import Path
from typing import Final

import pytest

from tests.architecture.prose import count_pronouns, count_questions

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
    "placement": (0, 0),
    "controller": (0, 0),
    "runtime": (0, 0),
    "settings": (0, 0),
    "doctor": (0, 0),
    "cli": (0, 0),
    "rebalance": (0, 0),
    "testing": (0, 0),
    "broker": (0, 0),
    "simulation": (0, 4),  # the parameter ``who`` in lists of arguments
}
"""For each room: docstrings that begin with a question word, and pronouns for persons. A count that has fallen is written down here."""


@pytest.mark.parametrize("room", COUNTS)
def test_prose_says_the_noun(room: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "esp" / room).rglob("*.py")]
    found = sum(map(count_questions, sources)), sum(map(count_pronouns, sources))
    assert found == COUNTS[room]


def test_a_question_word_counts_where_a_docstring_begins() -> None:
    assert count_questions('"""What this is."""\nx = 1\n"""How many there are."""') == 2
    assert count_questions('"""Say what this is."""\ny = "What"') == 0


def test_a_pronoun_counts_in_docstrings_and_comments() -> None:
    assert count_pronouns('"""Nobody waits for whoever asks."""\nx = 1  # somebody may') == 3
    assert count_pronouns('"""The whole."""\nwho = "nobody"') == 0
