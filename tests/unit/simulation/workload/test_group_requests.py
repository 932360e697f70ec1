"""What members tell one another through the coordinator comes out as it went in."""

import datetime as dt

import pytest

from esp.groups.group import read_subscribed_topics
from esp.model.ids import TopicPartition
from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, encode_request
from esp.protocol.registry import ApiKey
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.group_dialects import CURRENT, OLDER
from esp.simulation.workload.group_requests import Assignment, Identity, decode_assignment, encode_assignment

LENGTH = 4
PARTITIONS = (TopicPartition("flights", 0), TopicPartition("flights", 2), TopicPartition("gates", 1))


def as_arrived(key, version, request):
    """The request as a broker reads it from the bytes of a version."""
    frame = encode_request(key, version, 1, "client", request)[LENGTH:]
    return decode_request(key, version, frame[read_request_header(frame).body_position :])


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
    for version in (2, 9):
        request = requests.commit(Identity("group"), dict.fromkeys(PARTITIONS, 7), "text", version)
        assert [(topic.name, len(topic.partitions)) for topic in request.topics] == [("flights", 2), ("gates", 1)]
        assert {part.committed_metadata for topic in request.topics for part in topic.partitions} == {"text"}


@pytest.mark.parametrize("dialect", [*OLDER, CURRENT], ids=lambda dialect: dialect.release)
def test_each_release_says_of_its_member_what_its_versions_have_room_for(dialect):
    identity = Identity("group", "static", "static-1", 3)
    arrived = as_arrived(
        ApiKey.JOIN_GROUP, dialect.join, requests.join(identity, ["flights"], session_s=1, rebalance_s=2)
    )
    assert (arrived.member_id, arrived.session_timeout.total_seconds()) == ("static-1", 1)
    assert (arrived.group_instance_id == "static") is dialect.has_instances
    assert (arrived.rebalance_timeout.total_seconds() == 2) is (dialect.join > 0)
    for key, version, request in (
        (ApiKey.SYNC_GROUP, dialect.sync, requests.sync(identity, {})),
        (ApiKey.HEARTBEAT, dialect.heartbeat, requests.heartbeat(identity)),
        (ApiKey.OFFSET_COMMIT, dialect.commit, requests.commit(identity, {PARTITIONS[0]: 7}, "text", dialect.commit)),
    ):
        arrived = as_arrived(key, version, request)
        assert (arrived.group_id, arrived.member_id) == ("group", "static-1")
        assert (getattr(arrived, "group_instance_id", None) == "static") is dialect.has_instances


@pytest.mark.parametrize("dialect", [*OLDER, CURRENT], ids=lambda dialect: dialect.release)
def test_each_release_names_its_group_its_member_and_its_partitions(dialect):
    left = as_arrived(ApiKey.LEAVE_GROUP, dialect.leave, requests.leave(Identity("group", None, "m"), dialect.leave))
    assert "m" in [getattr(left, "member_id", None), *(each.member_id for each in getattr(left, "members", ()))]
    asked = as_arrived(ApiKey.OFFSET_FETCH, dialect.fetch, requests.fetch_offsets("group", PARTITIONS, dialect.fetch))
    topics = asked.topics if dialect.fetch <= requests.LAST_SINGLE_FETCH else asked.groups[0].topics
    assert [(topic.name, topic.partition_indexes) for topic in topics] == [("flights", (0, 2)), ("gates", (1,))]
    found = as_arrived(ApiKey.FIND_COORDINATOR, dialect.find, requests.find_coordinator("group", dialect.find))
    assert "group" in (getattr(found, "key", None), *getattr(found, "coordinator_keys", ()))


def test_a_client_without_a_wish_asks_for_no_retention():
    arrived = as_arrived(ApiKey.OFFSET_COMMIT, 2, requests.commit(Identity("group"), {PARTITIONS[0]: 7}, "", 2))
    assert arrived.retention_time == dt.timedelta(milliseconds=-1)
