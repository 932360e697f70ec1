import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.groups.group_patterns import GroupPatterns


@pytest.mark.parametrize(
    ("patterns", "group", "fits"),
    [
        (("esp-sink.*",), "esp-sink.flights", True),
        (("esp-sink.*",), "esp-sink.", True),
        (("esp-sink.*",), "esp-sinks", False),
        (("esp-sink.*",), "my-esp-sink.a", False),
        (("a", "b*c"), "a", True),
        (("a", "b*c"), "b\n.c", True),
        (("a", "b*c"), "bcd", False),
        (("*",), "", True),
        (("**",), "a", True),
        (("",), "", True),
        (("",), "a", False),
        (("ab*ba",), "aba", False),
        (("ab*ba",), "abba", True),
        (("*ab*ab*",), "abab", True),
        (("*ab*ab*",), "abcab", True),
        (("*ab*ab*",), "aba", False),
        ((), "", False),
        ((), "a", False),
    ],
)
def test_a_pattern_fits_the_whole_id(patterns, group, fits):
    assert GroupPatterns(patterns).matches(group) is fits


@given(st.lists(st.text("ab*", max_size=8), max_size=3), st.text("ab", max_size=10))
def test_patterns_are_those_of_an_expression(patterns, group):
    expressions = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    assert GroupPatterns(patterns).matches(group) is any(re.fullmatch(each, group) for each in expressions)


def test_a_hostile_pattern_of_a_long_id_takes_no_time():
    pattern = "*a" * 1_000 + "*b*"  # an expression with as many stars would not end
    assert not GroupPatterns([pattern]).matches("a" * 32_767)
