import pytest

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
        ((), "", False),
        ((), "a", False),
    ],
)
def test_a_pattern_fits_the_whole_id(patterns, group, fits):
    assert GroupPatterns(patterns).matches(group) is fits
