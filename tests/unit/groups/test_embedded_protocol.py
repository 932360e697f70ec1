"""Subscriptions and assignments inside the classic protocol, held against kio's readers and writers."""

import io

import pytest
from kio.schema.consumer_protocol_assignment.v0 import data as assignment_0
from kio.schema.consumer_protocol_assignment.v3 import data as assignment_3
from kio.schema.consumer_protocol_subscription.v3 import data as subscription_3
from kio.serial import entity_reader, entity_writer

from esp.groups.embedded_protocol import read_assignment, read_subscription, write_assignment
from esp.model.errors import CorruptionError
from esp.model.ids import TopicPartition
from tests.unit.groups.consumer.classic_client import assignment, subscription


def written(entity, version):
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return version.to_bytes(2, "big") + buffer.getvalue()


def test_a_subscription_is_read_in_all_its_parts():
    entity = subscription_3.ConsumerProtocolSubscription(
        topics=("a", "b"),
        user_data=b"what only its assignor knows",
        owned_partitions=(subscription_3.TopicPartition(topic="a", partitions=(0, 3)),),
        generation_id=7,
        rack_id="east",
    )
    read = read_subscription(written(entity, 3))
    assert read == (("a", "b"), (TopicPartition("a", 0), TopicPartition("a", 3)), "east")


@pytest.mark.parametrize("version", range(6))
def test_versions_differ_in_what_a_member_says(version):
    read = read_subscription(subscription("t", owned=[("t", 1)], version=version, rack="r"))
    assert read.topics == ("t",)
    assert read.owned == ((TopicPartition("t", 1),) if version >= 1 else ())
    assert read.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_written_in_the_version_of_the_member(version):
    data = write_assignment({"a": [0, 2], "b": [1]}, subscription("a", "b", version=version))
    assert int.from_bytes(data[:2], "big") == version
    schema = assignment_0 if version == 0 else assignment_3
    told, _ = entity_reader(schema.ConsumerProtocolAssignment)(data, 2)
    assert [(each.topic, tuple(each.partitions)) for each in told.assigned_partitions] == [("a", (0, 2)), ("b", (1,))]
    assert told.user_data is None
    assert read_assignment(data).partitions == (("a", 0), ("a", 2), ("b", 1))


def test_user_data_is_seen():
    assert read_assignment(assignment(("t", 0), user_data=b"x")).has_user_data
    assert not read_assignment(assignment(("t", 0))).has_user_data
    assert not read_assignment(b"").has_user_data


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xff", b"\0\1\0\0\0\1\0\5t", subscription("t")[:-1], b"\0\0\x7f\0\0\0"]
)
def test_what_is_no_subscription_is_refused(data):
    with pytest.raises(CorruptionError):
        read_subscription(data)


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0", assignment(("t", 0))[:-1]])
def test_what_is_no_assignment_is_refused(data):
    with pytest.raises(CorruptionError):
        read_assignment(data)
