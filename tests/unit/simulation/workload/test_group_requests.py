"""What members tell one another through the coordinator comes out as it went in."""

import pytest

from esp.groups.group import read_subscribed_topics
from esp.model.ids import TopicPartition
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.group_requests import Assignment, Identity, decode_assignment, encode_assignment

PARTITIONS = (TopicPartition("flights", 0), TopicPartition("flights", 2), TopicPartition("gates", 1))


@pytest.mark.parametrize("partitions", [(), PARTITIONS[:1], PARTITIONS])
def test_assignment_comes_out_as_it_went_in(partitions):
    assignment = Assignment(partitions, "leader, 3", "member")
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_no_assignment_is_for_nobody():
    assert decode_assignment(b"") == Assignment((), "", "")


def test_coordinator_can_read_the_topics_of_a_member():
    request = requests.join(Identity("group"), ["flights", "gates"], session_s=1, rebalance_s=2)
    assert read_subscribed_topics(request.protocols[0].metadata) == {"flights", "gates"}


def test_commit_names_each_topic_once():
    request = requests.commit(Identity("group"), dict.fromkeys(PARTITIONS, 7), "text")
    assert [(topic.name, len(topic.partitions)) for topic in request.topics] == [("flights", 2), ("gates", 1)]
    assert {part.committed_metadata for topic in request.topics for part in topic.partitions} == {"text"}
