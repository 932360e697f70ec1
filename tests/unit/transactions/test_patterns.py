"""Patterns of clients: they match as Python's do, and no pattern takes long."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.transactions.patterns import PATTERN_LENGTH_MAX, PatternError, compile_pattern

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W", "[a-c1]", "", "\\."])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds(
            "{}{}".format,
            st.builds("(?:{})".format, inner),
            st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?"]),
        )
        | st.builds("({}|{})".format, inner, inner)
        | st.builds("{}{}".format, inner, inner)
    ),
    max_leaves=6,
)


@given(pattern=PATTERNS, text=st.text("abc1.\n-", max_size=8))
def test_patterns_match_as_those_of_python(pattern, text):
    assert compile_pattern(pattern)(text) is (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(("text", "is_match"), [("app-1", True), ("xapp-1", False), ("app-1x", False)])
def test_anchors_around_a_pattern_say_nothing(text, is_match):
    assert compile_pattern("^app-[0-9]$")(text) is is_match


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", ".*.*.*.*.*b", "(a*)*b", "(.*a){12}b"])
def test_no_pattern_takes_long(pattern):
    began = time.process_time()
    assert compile_pattern(pattern)("a" * 200) is False
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "*a",
        r"(a)\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        r"\ba",
        "(?i)a",
        "(?i:a)",
        "a^b",
        "a{1000}{1000}",
        "a" * (PATTERN_LENGTH_MAX + 1),
    ],
)
def test_patterns_that_are_not_served_are_refused(pattern):
    with pytest.raises(PatternError):
        compile_pattern(pattern)
