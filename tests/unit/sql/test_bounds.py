import pytest

from esp.sql.bounds import Bound, Bounds


@pytest.mark.parametrize(
    ("first", "end", "is_backwards"),
    [
        (Bound(10), Bound(5), True),
        (Bound(5), Bound(5), False),
        (Bound(None, 10), Bound(None, 5), True),
        (Bound(None, 5), Bound(None, 10), False),
        (Bound(10), Bound(None, 5), False),  # of which it is not known
        (None, Bound(5), False),
        (Bound(10), None, False),
    ],
)
def test_an_end_before_the_beginning_is_noticed(first: Bound | None, end: Bound | None, is_backwards: bool) -> None:
    assert Bounds(first, end).is_backwards == is_backwards
