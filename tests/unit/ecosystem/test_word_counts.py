"""The judge of word counts."""

from tests.ecosystem.oracles.word_counts import judge_word_counts

LINES = ["the hare, the hedgehog", "The end"]
RIGHT = [("the", 1), ("hare", 1), ("the", 2), ("hedgehog", 1), ("the", 3), ("end", 1)]


def test_right_counts_pass() -> None:
    assert judge_word_counts(LINES, RIGHT) == []


def test_lost_update_is_found() -> None:
    assert judge_word_counts(LINES, RIGHT[:-2] + RIGHT[-1:]) == ["'the': the last count is 2, not 3"]
    assert judge_word_counts(LINES, RIGHT[:-1]) == ["'end': the last count is 0, not 1"]


def test_repeated_update_is_found() -> None:
    assert judge_word_counts(LINES, [*RIGHT, ("the", 3)]) == ["'the': count 3 stands in the place of 4 of 3"]


def test_line_counted_twice_is_found() -> None:
    assert judge_word_counts(LINES, [*RIGHT, ("end", 2)]) == ["'end': the last count is 2, not 1"]


def test_store_that_begins_anew_is_found() -> None:
    counts = [("the", 1), ("the", 2), ("the", 1), ("hare", 1), ("hedgehog", 1), ("end", 1)]
    assert judge_word_counts(LINES, counts) == ["'the': count 1 stands in the place of 3 of 3"]


def test_word_that_was_never_written_is_found() -> None:
    assert judge_word_counts(LINES, [*RIGHT, ("fox", 1)]) == ["'fox' was counted and is not in the input"]
