"""The tools' consumer as a member of a group, against a broker that the test plays."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.fetch.v18.response import FetchResponse
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.sync_group.v5.response import SyncGroupResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.cli.kafka.answers import ConsumedRecord
from esp.cli.kafka.consumer import Consumer
from esp.cli.kafka.library import OffsetOutOfRangeError, TopicAuthorizationFailedError, TopicPartition
from esp.model.errors import ErrorCode, OperatorError
from esp.protocol.registry import ApiKey
from tests.unit.cli.kafka.played_broker import PlayedBroker

TOPIC, MEMBER = "t", "the only member"
OK = {"throttle_time": NO_THROTTLE, "error_code": ErrorCode.none}


class PlayedCoordinator:
    """A broker with a topic of one partition, and a group of one member, which does not wait for others."""

    def __init__(self) -> None:
        self.broker = PlayedBroker(
            answers=True, answer=lambda key, request: getattr(self, ApiKey(key).name.lower())(request)
        )
        self.joins = 0
        self.joins_before_reading: int | None = None
        """The member's joins until it asked for the group's offsets, with its partition."""
        self.is_told_since = False
        """True if the member has asked for metadata since it made the assignment."""
        self._is_assigned = False

    def metadata(self, request: Any) -> Any:
        self.is_told_since |= self._is_assigned
        partition = MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=0, leader_id=0, replica_nodes=(0,)
        )
        topic = MetadataResponseTopic(error_code=ErrorCode.none, name=TOPIC, topic_id=None, partitions=(partition,))
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=(MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.broker.port, rack=None),),
            cluster_id="played",
            controller_id=0,
            topics=() if request.topics == () else (topic,),
            error_code=ErrorCode.none,
        )

    def find_coordinator(self, request: Any) -> Any:
        [key] = request.coordinator_keys
        found = Coordinator(
            key=key,
            node_id=0,
            host="127.0.0.1",
            port=self.broker.port,
            error_code=ErrorCode.none,
            error_message=None,
        )
        return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=(found,))

    def join_group(self, request: Any) -> Any:
        self.joins += 1
        member = JoinGroupResponseMember(
            member_id=MEMBER, group_instance_id=None, metadata=request.protocols[0].metadata
        )
        return JoinGroupResponse(
            **OK,
            generation_id=self.joins,
            protocol_type=request.protocol_type,
            protocol_name=request.protocols[0].name,
            leader=MEMBER,
            skip_assignment=False,
            member_id=MEMBER,
            members=(member,),
        )

    def sync_group(self, request: Any) -> Any:
        [each] = request.assignments
        self._is_assigned = True
        return SyncGroupResponse(
            **OK,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=each.assignment,
        )

    def offset_fetch(self, request: Any) -> Any:
        if self.joins_before_reading is None:
            self.joins_before_reading = self.joins
        partition = SimpleNamespace(
            partition_index=0, committed_offset=0, committed_leader_epoch=-1, metadata="", error_code=ErrorCode.none
        )
        topic = SimpleNamespace(name=TOPIC, partitions=(partition,))
        [group] = request.groups
        answer = SimpleNamespace(group_id=group.group_id, topics=(topic,), error_code=ErrorCode.none)
        return SimpleNamespace(throttle_time=NO_THROTTLE, groups=(answer,))

    def fetch(self, _request: Any) -> Any:
        return FetchResponse(**OK, session_id=0, responses=())

    def heartbeat(self, _request: Any) -> Any:
        return HeartbeatResponse(**OK)

    def leave_group(self, _request: Any) -> Any:
        return LeaveGroupResponse(**OK, members=())


@pytest.fixture
def coordinator() -> Iterator[PlayedCoordinator]:
    made = PlayedCoordinator()
    with closing(made.broker):
        yield made


def test_a_member_that_reads_has_no_reason_to_join_again(coordinator: PlayedCoordinator) -> None:
    with Consumer(coordinator.broker.address, "read_uncommitted", "g", "earliest") as consumer:
        consumer.subscribe(TOPIC)
        while coordinator.joins_before_reading is None or not coordinator.is_told_since:
            consumer.poll(100)
        for _ in range(5):
            consumer.poll(100)
    assert coordinator.joins == coordinator.joins_before_reading


class PlayedLibrary:
    """The library's consumer, at a partition of offsets 3 to 7, of which a fetch brings some records and passes others."""

    def __init__(self, fetched: Sequence[int], passed_to: int, error: Exception | None = None) -> None:
        self._fetched, self._passed_to, self._error = fetched, passed_to, error

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0} if topic == TOPIC else set()

    def assign(self, _partitions: Any) -> None: ...

    def seek(self, _partition: Any, _offset: int) -> None: ...

    def beginning_offsets(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, 3)

    def end_offsets(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, 8)

    def position(self, _partition: Any) -> int:
        return self._passed_to

    def poll(self, _timeout_ms: int) -> dict[Any, list[Any]]:
        if self._error is not None:
            raise self._error
        made = [ConsumedRecord(TOPIC, 0, offset, 0, 0, (), b"k", b"v") for offset in self._fetched]
        return {TopicPartition(TOPIC, 0): made} if made else {}


def find(library: PlayedLibrary, topic: str = TOPIC, partition: int = 0, offset: int = 5) -> ConsumedRecord | None:
    consumer = Consumer("127.0.0.1:9092", "read_uncommitted")
    consumer._client = library
    return consumer.find(topic, partition, offset, 10)


def test_a_record_is_found_or_it_is_not_there_any_more() -> None:
    found = find(PlayedLibrary([5, 6], 7))
    assert found is not None
    assert found.offset == 5
    assert find(PlayedLibrary([6], 7)) is None, "compaction has taken it"
    assert find(PlayedLibrary([], 8)) is None, "nor has it left others behind it"
    for error in (OffsetOutOfRangeError(), TopicAuthorizationFailedError()):
        assert find(PlayedLibrary([], 5, error)) is None
    for place in ({"topic": "u"}, {"partition": 1}, {"offset": 2}, {"offset": 8}, {"offset": -1}):
        assert find(PlayedLibrary([5], 6), **place) is None  # type: ignore[arg-type]


def test_a_record_of_which_no_answer_came_may_be_there() -> None:
    with pytest.raises(OperatorError, match="no record of t-0 came within 10 ms"):
        find(PlayedLibrary([], 5))
