"""Regular expressions of clients and operators."""

import pytest

from esp.model.linear_regex import compile_linear


def test_an_expression_matches():
    assert compile_linear("a+b").fullmatch("aab") is not None
    assert compile_linear("a+b").fullmatch("aabc") is None


@pytest.mark.parametrize(
    ("pattern", "reason"), [("(", "missing"), ("(?!x)", "invalid perl operator"), (r"(a)\1", "escape")]
)
def test_what_takes_long_or_is_broken_is_refused_with_the_reason(pattern, reason):
    with pytest.raises(ValueError, match=reason):
        compile_linear(pattern)
