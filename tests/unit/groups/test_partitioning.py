import pytest

from esp.groups.partitioning import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "hash_"),
    [("", 0), ("a", 97), ("g-static", -488_683_884), ("é😀", 1_996_812), ("polygenelubricants", -(2**31))],
)
def test_hash_is_that_of_java(text, hash_):
    assert java_hash(text) == hash_


@pytest.mark.parametrize(
    ("group_id", "partition"), [("g-static", 34), ("g-regex", 5), ("simple", 26), ("vec", 28), ("", 0)]
)
def test_groups_are_where_kafka_has_them(group_id, partition):
    assert partition_for(group_id, 50) == partition


def test_smallest_hash_has_no_absolute_value_and_goes_to_the_first_partition():
    assert partition_for("polygenelubricants", 7) == 0
