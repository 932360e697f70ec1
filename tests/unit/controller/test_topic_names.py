"""Names of topics."""

import pytest

from esp.controller.topics import can_collide, find_name_problem, find_shown_alike, unify


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "a" * 249, "__consumer_offsets"])
def test_a_legal_name_has_no_problem(name):
    assert find_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("a" * 250, f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "ä",
            "Topic name is invalid: 'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "a\n",
            "Topic name is invalid: 'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
    ],
)
def test_a_wrong_name_has_the_problem_that_kafka_tells(name, problem):
    assert find_name_problem(name) == problem


def test_names_that_differ_in_dots_and_underscores_only_are_shown_alike():
    assert unify("a.b_c") == unify("a_b.c")
    assert can_collide("a.b")
    assert not can_collide("ab")


def test_names_that_are_shown_alike_are_found_in_one_walk_over_all_that_exist():
    existing = iter(["a.b", "ab", "c_d", "e.f"])
    assert find_shown_alike(["a_b", "ab", "c.d", "x.y"], existing) == {"a_b": "a.b", "c_d": "c_d"}


def test_nothing_is_walked_for_names_that_are_shown_as_they_are():
    existing = iter(["a.b"])
    assert find_shown_alike(["ab"], existing) == {}
    assert next(existing) == "a.b"
