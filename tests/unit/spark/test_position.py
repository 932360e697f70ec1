import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.spark.position import (
    ends_of,
    find_added,
    find_backlog,
    find_recreated,
    from_json,
    ranges_between,
    to_json,
)
from esp.spark.ranges import OffsetRange

POSITIONS = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b.c", "d_e-f"]), st.integers(0, 12)), st.integers(0, 2**62), max_size=8
)
A0, A1, A2 = (Partition("a", number) for number in range(3))


@given(position=POSITIONS)
def test_a_position_comes_back_from_a_checkpoint(position: dict[Partition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(position)))) == position


def test_the_json_is_that_of_the_kafka_source_in_its_order() -> None:
    position = {Partition("b", 10): 4, Partition("b", 9): 3, Partition("a", 0): 23}
    assert json.dumps(to_json(position), separators=(",", ":")) == '{"a":{"0":23},"b":{"9":3,"10":4}}'
    assert to_json({}) == {}


@pytest.mark.parametrize("offsets", [5, None, [1], {"a": 5}, {"a": {"x": 5}}, {"a": {"0": "5"}}, {"a": {"0": -1}}])
def test_a_checkpoint_of_another_source_is_refused(offsets: object) -> None:
    with pytest.raises(ConsumerError, match="is one of another source: use another checkpointLocation"):
        from_json(offsets)


def test_a_topic_with_another_id_was_created_again() -> None:
    old, new = b"\1" * 16, b"\2" * 16
    [found] = find_recreated({"a": old, "b": old, "gone": old}, {"a": new, "b": old, "added": new})
    assert found == ("a", old, new)
    assert str(found) == (
        "topic a was deleted and created again (id AQEBAQEBAQEBAQEBAQEBAQ, now AgICAgICAgICAgICAgICAg)"
    )
    assert find_recreated({"a": bytes(16), "b": old}, {"a": new, "b": bytes(16)}) == []
    [gone] = find_recreated({"a": b""}, {"a": new})
    assert "(id deleted with its offsets, now AgIC" in str(gone)


def test_a_batch_reads_for_the_first_time_what_the_position_has_not() -> None:
    assert find_added({A0: 3, Partition("gone", 0): 1}, {A0: 5, A2: 4, A1: 0}) == [A1, A2]


def test_a_backlog_ends_at_the_bounds_and_begins_at_the_start_of_what_was_added() -> None:
    latest = {A0: 10, A1: 10, A2: 10}
    assert find_backlog({A0: 3, A1: 4}, latest, None) == [
        OffsetRange(A0, 3, 10),
        OffsetRange(A1, 4, 10),
        OffsetRange(A2, 0, 10),
    ]
    assert find_backlog({A0: 3, A1: 4}, latest, {A0: 5, A1: 2, A2: 0}) == [
        OffsetRange(A0, 3, 5),
        OffsetRange(A1, 4, 4),
        OffsetRange(A2, 0, 0),
    ]


@given(start=POSITIONS, end=POSITIONS)
def test_the_ranges_of_a_batch_end_where_it_does_and_none_goes_back(
    start: dict[Partition, int], end: dict[Partition, int]
) -> None:
    ranges = ranges_between(start, end)
    assert ends_of(ranges) == end
    for one in ranges:
        assert one.first == min(start.get(one.partition, 0), one.end)
