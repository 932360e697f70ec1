import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.groups.group import read_subscribed_topics
from tests.unit.groups.world import subscription


@given(st.sets(st.text(st.characters(codec="ascii"), max_size=10), max_size=5))
def test_topics_are_read_whatever_follows(topics):
    assert read_subscribed_topics(subscription(*topics)) == topics
    assert read_subscribed_topics(subscription(*topics) + b"more of a later version") == topics


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0",
        b"\0\1\0\0\0\1",
        b"\0\1\0\0\0\1\0\5ab",
        b"\xff\xff\0\0\0\0",
        b"\0\1\xff\xff\xff\xff",
        b"\0\1\0\0\0\1\0\1\xff",
    ],
)
def test_what_is_no_subscription_tells_nothing(metadata):
    assert read_subscribed_topics(metadata) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_tell_nothing(metadata):
    topics = read_subscribed_topics(metadata)
    assert topics is None or all(isinstance(topic, str) for topic in topics)
