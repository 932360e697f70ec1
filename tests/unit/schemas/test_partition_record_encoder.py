"""The quick encoders of new and changed partitions say what the general writer says, or leave it to that."""

import io
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from esp.schemas.metadata_frames import encode_partition, encode_partition_change
from esp.schemas.metadata_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
    PartitionRecord,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
NODES = st.lists(INT32, max_size=130).map(tuple)
FEW = st.one_of(st.just(()), st.lists(INT32, max_size=3).map(tuple))
PARTITIONS = st.builds(
    PartitionRecord,
    partition_id=INT32,
    topic_id=st.one_of(st.none(), st.uuids()),
    replicas=NODES,
    isr=FEW,
    removing_replicas=FEW,
    adding_replicas=FEW,
    leader=INT32,
    leader_recovery_state=st.sampled_from([RECOVERED, RECOVERED, RECOVERING]),
    leader_epoch=INT32,
    partition_epoch=INT32,
    directories=st.lists(st.one_of(st.none(), st.uuids()), max_size=4).map(tuple),
    eligible_leader_replicas=st.one_of(st.none(), FEW),
    last_known_elr=st.one_of(st.none(), FEW),
    start_offset=st.sampled_from([0, 0, 0, 7]),
    restored_epoch=st.sampled_from([-1, -1, -1, 4]),
)
CHANGED = st.one_of(st.none(), st.none(), FEW, NODES)
CHANGES = st.builds(
    PartitionChangeRecord,
    partition_id=INT32,
    topic_id=st.one_of(st.none(), st.uuids()),
    isr=CHANGED,
    leader=st.one_of(st.just(NO_LEADER_CHANGE), INT32),
    replicas=st.one_of(st.none(), st.none(), st.none(), FEW),
    removing_replicas=st.one_of(st.none(), st.none(), st.none(), FEW),
    adding_replicas=st.one_of(st.none(), st.none(), st.none(), FEW),
    leader_recovery_state=st.sampled_from([NO_RECOVERY_CHANGE, NO_RECOVERY_CHANGE, RECOVERED, RECOVERING]),
    eligible_leader_replicas=CHANGED,
    last_known_elr=CHANGED,
    directories=st.one_of(st.none(), st.none(), st.lists(st.uuids(), max_size=2).map(tuple)),
)


def written(record: PartitionRecord | PartitionChangeRecord) -> bytes:
    buffer = io.BytesIO()
    writer: Any = entity_writer(type(record))
    writer(buffer, record)
    return buffer.getvalue()


@given(PARTITIONS)
def test_it_says_what_the_general_writer_says_or_nothing(record: PartitionRecord) -> None:
    assert encode_partition(record) in (None, written(record))


@pytest.mark.parametrize("count", [0, 1, 3, 126])
def test_what_a_new_topic_consists_of_it_encodes_itself(count: int) -> None:
    nodes = tuple(range(count))
    record = PartitionRecord(
        partition_id=7,
        topic_id=uuid.UUID(int=9),
        replicas=nodes,
        isr=nodes,
        removing_replicas=(),
        adding_replicas=(),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(uuid.UUID(int=node) for node in nodes),
    )
    assert encode_partition(record) == written(record)


@given(CHANGES)
def test_of_a_change_it_says_what_the_general_writer_says_or_nothing(record: PartitionChangeRecord) -> None:
    assert encode_partition_change(record) in (None, written(record))


@pytest.mark.parametrize("count", [0, 1, 3, 31])
@pytest.mark.parametrize("leader", [NO_LEADER_CHANGE, -1, 2])
def test_what_a_broker_that_comes_or_goes_changes_it_encodes_itself(count: int, leader: int) -> None:
    nodes = tuple(range(count))
    record = PartitionChangeRecord(
        partition_id=7,
        topic_id=uuid.UUID(int=9),
        isr=nodes,
        leader=leader,
        eligible_leader_replicas=nodes[:1],
        last_known_elr=nodes[1:],
    )
    assert encode_partition_change(record) == written(record)
