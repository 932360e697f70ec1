"""Messages in slices against messages at once: the same values, the same bytes, the same refusals."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.static.primitive import i32Timedelta

from esp.protocol.errors import DecodeError
from esp.protocol.primitives import pack_uvarint
from esp.protocol.progress import ELEMENTS_MAX, SLICE_ELEMENTS
from esp.protocol.reader import compile_reader
from esp.protocol.slices import compile_sliced_reader, compile_sliced_writer
from tests.unit.protocol.strategies import GROUPS, entities, kio_bytes, message_id, versions_of, wire_class


def drive(work):
    """What a generator returns, and how many slices it took."""
    count = 1
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, count
        count += 1


def read(entity, data):
    return drive(compile_sliced_reader(entity, entity)(data))[0]


def write(entity, value):
    parts: list[bytes] = []
    drive(compile_sliced_writer(entity, entity)(parts.append, value))
    return b"".join(parts)


@pytest.mark.parametrize("group", GROUPS, ids=message_id)
@settings(max_examples=5)
@given(data=st.data())
def test_messages_are_read_and_written_as_at_once(group, data):
    for value in versions_of(data.draw(entities(wire_class(group))), group):
        entity = type(value)
        encoded = kio_bytes(value)
        assert read(entity, encoded) == value
        assert write(entity, value) == encoded
        for length in {len(encoded) // 3, len(encoded) // 2, len(encoded) - 1} - {-1, len(encoded)}:
            with pytest.raises(DecodeError) as refused:
                compile_reader(entity, entity)(encoded[:length])
            with pytest.raises(DecodeError) as refused_in_slices:
                read(entity, encoded[:length])
            assert str(refused_in_slices.value) == str(refused.value)


def list_offsets(topics, partitions):
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        timeout=i32Timedelta.parse(dt.timedelta(0)),
        topics=tuple(
            ListOffsetsTopic(
                name=f"t{topic}",
                partitions=tuple(ListOffsetsPartition(partition_index=p, timestamp=-1) for p in range(partitions)),
            )
            for topic in range(topics)
        ),
    )


@pytest.mark.parametrize(
    ("message", "elements"),
    [
        (list_offsets(200, 1), 400),
        (list_offsets(1, 300), 301),
        (DescribeGroupsRequest(groups=("g",) * 500, include_authorized_operations=False), 500),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=()), 0),
    ],
    ids=["many lists", "one long list", "primitives", "none"],
)
def test_a_slice_has_so_many_elements_at_whatever_depth(message, elements):
    entity = type(message)
    decoded, reads = drive(compile_sliced_reader(entity, entity)(kio_bytes(message)))
    assert decoded == message
    _, writes = drive(compile_sliced_writer(entity, entity)(lambda _part: None, message))
    assert reads == writes == elements // SLICE_ELEMENTS + 1


def test_a_message_of_more_elements_than_anybody_needs_is_refused_before_they_are_made():
    most = pack_uvarint(ELEMENTS_MAX + 1) + b"\x01" * ELEMENTS_MAX + b"\0\0"  # groups without a name
    assert len(read(DescribeGroupsRequest, most).groups) == ELEMENTS_MAX
    more = pack_uvarint(ELEMENTS_MAX + 2) + b"\x01" * (ELEMENTS_MAX + 1) + b"\0\0"
    with pytest.raises(DecodeError, match=f"more than {ELEMENTS_MAX} elements"):
        next(compile_sliced_reader(DescribeGroupsRequest, DescribeGroupsRequest)(more))
