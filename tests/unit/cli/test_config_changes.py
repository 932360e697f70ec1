import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.cli.configs import parse_added, parse_deleted, parse_file, require_disjoint
from esp.model.errors import OperatorError

NAMES = st.text("abc.", min_size=1)
VALUES = st.text("abc,=1-:/", min_size=0)


@given(settings=st.dictionaries(NAMES, VALUES, min_size=1))
def test_every_value_can_be_given_in_brackets(settings):
    text = ",".join(f"{name}=[{value}]" for name, value in settings.items())
    assert parse_added(text) == settings


def test_values_without_commas_need_no_brackets():
    assert parse_added("a=1, b = x=y ,c=[1,2],d=") == {"a": "1", "b": "x=y", "c": "1,2", "d": ""}


@pytest.mark.parametrize("text", ["a", "a=1,b", "=1", "", "a=1,,b=2"])
def test_what_is_no_pair_is_refused(text):
    with pytest.raises(OperatorError, match="--add-config"):
        parse_added(text)


def test_a_file_of_settings_is_a_properties_file():
    assert parse_file("# kept long\nretention.ms = -1\ncleanup.policy=compact,\\\n  delete\n") == {
        "retention.ms": "-1",
        "cleanup.policy": "compact,delete",
    }
    with pytest.raises(OperatorError, match="--add-config-file"):
        parse_file("a=\\u12")


def test_changes_contradict_neither_themselves_nor_the_word():
    require_disjoint({"a": "1"}, parse_deleted("b, c,"))
    for added, deleted in (({}, []), ({"a": "1"}, ["b", "a"])):
        with pytest.raises(OperatorError):
            require_disjoint(added, deleted)
