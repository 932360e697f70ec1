"""Topics of a cluster whose one broker is a model: what is read is of the topic that was there when the query was made."""

import uuid
from collections.abc import Iterator

import pytest

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.partition_reader import FetchTerms
from esp.records.builder import NewRecord, build_batch
from esp.sql.bounds import Bounds
from esp.sql.cluster_source import ClusterSource
from tests.models.fake_leader import HOST, FakeLeader

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)
BATCHES = [
    build_batch([NewRecord(b"%d" % offset, timestamp=0) for offset in range(first, first + 10)], base_offset=first)
    for first in range(0, 100, 10)
]


@pytest.fixture
def leader() -> Iterator[FakeLeader]:
    with FakeLeader("t", BATCHES) as made:
        made.topic_id = OLD
        yield made


def source_of(leader: FakeLeader) -> ClusterSource:
    return ClusterSource(
        [Address(HOST, leader.port)], Terms(), FetchTerms(stall_s=5.0, backoff_s=0.001), Bounds(), print
    )


def read(source: ClusterSource) -> Iterator[int]:
    for _, batch in source.read("t", ("offset",)):
        yield from batch.column("offset").to_pylist()


def test_records_are_asked_for_by_the_id_of_their_topic(leader: FakeLeader) -> None:
    source = source_of(leader)
    assert source.topics() == {"t"}
    assert list(read(source)) == list(range(100))
    assert {wanted.topic for wanted in leader.asked} == {OLD.bytes}


def test_a_topic_that_was_created_again_since_the_query_was_made_is_not_read(leader: FakeLeader) -> None:
    source = source_of(leader)
    source.topics()
    leader.topic_id = NEW
    with pytest.raises(ConsumerError, match="topic t was deleted and created again while the query ran: run the query"):
        list(read(source))
    assert not leader.asked


def test_a_topic_that_is_created_again_while_it_is_read_is_not_read_on(leader: FakeLeader) -> None:
    source = source_of(leader)
    source.topics()
    rows = read(source)
    assert next(rows) == 0
    leader.topic_id = NEW
    with pytest.raises(
        ConsumerError, match=r"topic t: the topic was deleted and created again since .*: start the query"
    ):
        list(rows)
