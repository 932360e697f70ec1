"""Regular expressions of clients and operators."""

import subprocess
import sys

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


def test_groups_are_told_only_where_they_are_asked_for():
    assert compile_linear("(a)(?P<next>b)").fullmatch("ab").groups() != ("a", "b")
    assert compile_linear("(a)(?P<next>b)", has_groups=True).fullmatch("ab").groups() == ("a", "b")


def test_thousands_of_groups_in_one_another_cost_neither_memory_nor_time():
    script = """
import resource, time
from esp.model.linear_regex import compile_linear
nested = "(" * 4999 + "a" + ")*" * 2500 + ")" * 2499
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pattern = compile_linear(nested)
matching = [name for name in ("flights", "a" * 200, "orders") if pattern.fullmatch(name)]
print(len(matching), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.process_time())
"""
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    matching, grown_kib, cpu_s = result.stdout.split()
    assert int(matching) == 1
    assert int(grown_kib) < 100_000
    assert float(cpu_s) < 3


def test_an_expression_that_its_user_has_dropped_is_not_kept():
    assert compile_linear("kept?") is not compile_linear("kept?")
