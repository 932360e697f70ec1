"""Looks at share groups: their offsets and members at their coordinators, and their records at the leaders of partitions.

The state of records is told by brokers of ESP only, in a field that Kafka's do not know (decision 62).
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from esp.cli.kafka.answers import PartitionInfo
from esp.cli.kafka.brokers import broker_address, call
from esp.cli.kafka.client import LOOK_TIMEOUT_S, check_code
from esp.doctor.snapshot import KeptRecords, QueueCondition
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import TopicPartition
from esp.protocol.own_fields import DescribeProducersRequest, SharePartitionData
from esp.schemas.share_state_records import RecordState

_GROUP_KEY: Final = 0
"""The key type of FindCoordinator for which the key is a group's id."""


class QueueOffsets(NamedTuple):
    """A share partition as the group's coordinator knows it; -1: not known."""

    start_offset: int
    lag: int


class QueueMember(NamedTuple):
    """A member of a share group."""

    member_id: str
    client_id: str
    host: str


class Queue(NamedTuple):
    """A share group as its coordinator knows it."""

    state: str
    members: tuple[QueueMember, ...]
    partitions: Mapping[TopicPartition, QueueOffsets]


class QueueRun(NamedTuple):
    """Neighbours in a share partition that are alike."""

    start_offset: int
    end_offset: int
    state: RecordState
    delivery_count: int
    member_id: str | None
    locked_for_ms: int


class QueueRecords(NamedTuple):
    """The records of a share partition at its leader."""

    start_offset: int
    end_offset: int
    """The first offset that was never acquired."""
    acquired_count: int
    letter_count: int
    """The records whose dead letters are still to be written."""
    letters_failing_ms: int
    """The time for which they could not be written; 0 if they can."""
    span_max: int
    attempts_max: int
    runs: tuple[QueueRun, ...]

    @property
    def oldest_lock_ms(self) -> int | None:
        """The time for which a member has had a record already, of the one that was acquired or renewed first."""
        return max((run.locked_for_ms for run in self.runs if run.state is RecordState.ACQUIRED), default=None)

    @property
    def attempts(self) -> dict[int, int]:
        """The records that are not done with, by the number of their deliveries."""
        found: dict[int, int] = {}
        for run in self.runs:
            if not run.state.is_terminal:
                found[run.delivery_count] = found.get(run.delivery_count, 0) + run.end_offset - run.start_offset
        return dict(sorted(found.items()))

    @property
    def holders(self) -> dict[str, int]:
        """The number of records that each member has."""
        found: dict[str, int] = {}
        for run in self.runs:
            if run.member_id is not None:
                found[run.member_id] = found.get(run.member_id, 0) + run.end_offset - run.start_offset
        return dict(sorted(found.items()))


KEPT_DELIVERIES: Final = 3
"""Records that are given to members so often, or for the last time, have been given back or kept until their locks ended before."""

KEPT_MS: Final = 10_000
"""A member that has a record for so long is not about to answer: locks last 15 s at least, by default 30 s."""


def kept_records(records: QueueRecords) -> tuple[KeptRecords, ...]:
    """By member the records that it keeps, where members before it did not get done with them; sorted."""
    deliveries = min(KEPT_DELIVERIES, records.attempts_max)
    by_member: dict[str, list[QueueRun]] = {}
    for run in records.runs:
        if run.member_id is not None and run.delivery_count >= deliveries and run.locked_for_ms >= KEPT_MS:
            by_member.setdefault(run.member_id, []).append(run)
    return tuple(
        KeptRecords(
            member,
            sum(run.end_offset - run.start_offset for run in runs),
            max(run.delivery_count for run in runs),
            max(run.locked_for_ms for run in runs),
        )
        for member, runs in sorted(by_member.items())
    )


def queue_condition(group: str, name: TopicPartition, records: QueueRecords) -> QueueCondition:
    """A share partition as a doctor sees it."""
    first = records.runs[0] if records.runs else None
    return QueueCondition(
        group,
        name,
        records.start_offset,
        records.end_offset - records.start_offset,
        records.span_max,
        records.letter_count,
        records.letters_failing_ms,
        None if first is None else first.member_id,
        0 if first is None else first.locked_for_ms,
        kept_records(records),
    )


def broker_addresses(servers: str) -> dict[int, str]:
    """Return ``HOST:PORT`` of the brokers that serve.

    Raises:
        OperatorError: no broker answers.
    """
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=False)
    cluster = call(servers, request, LOOK_TIMEOUT_S)
    check_code(cluster.error_code.value, cluster.error_message)
    return {each.broker_id: broker_address(each.host, each.port) for each in cluster.brokers}


def describe_queue(servers: str, group: str) -> Queue:
    """Return a share group as its coordinator knows it.

    Raises:
        RefusedError: the cluster refused.
        OperatorError: there is no such share group, or it has no coordinator now.
    """
    request = FindCoordinatorRequest(key_type=i8(_GROUP_KEY), coordinator_keys=(group,))
    [coordinator] = call(servers, request, LOOK_TIMEOUT_S).coordinators
    if coordinator.error_code is not ErrorCode.none:
        raise OperatorError(
            f"group {group} has no coordinator now: {coordinator.error_message or coordinator.error_code.name}",
            "See which brokers answer: esp brokers list. Then try again.",
        )
    address = broker_address(coordinator.host, coordinator.port)
    asked = ShareGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
    [described] = call(address, asked, LOOK_TIMEOUT_S).groups
    if described.error_code is ErrorCode.group_id_not_found:
        raise OperatorError(f"there is no share group {group}", "See the groups: esp groups --list")
    check_code(described.error_code.value, described.error_message)
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group), topics=None)
    [told] = call(address, DescribeShareGroupOffsetsRequest(groups=(wanted,)), LOOK_TIMEOUT_S).groups
    check_code(told.error_code.value, told.error_message)
    return Queue(
        described.group_state,
        tuple(QueueMember(each.member_id, each.client_id, each.client_host) for each in described.members),
        {
            TopicPartition(topic.topic_name, each.partition_index): QueueOffsets(each.start_offset, each.lag)
            for topic in told.topics
            for each in topic.partitions
        },
    )


def look_at_records(
    servers: str, group: str, partitions: Mapping[TopicPartition, PartitionInfo]
) -> tuple[dict[TopicPartition, QueueRecords], set[int]]:
    """Ask the leaders of partitions for the state of the records.

    Returns:
        It, by partition, as far as it is in the memory of a leader, and the brokers that do not answer or tell nothing: Kafka's do not,
        nor does one that has had no fetch of the group for 5 minutes.
    """
    addresses = broker_addresses(servers)
    by_leader: dict[int, list[TopicPartition]] = {}
    for name, each in partitions.items():
        by_leader.setdefault(each.leader, []).append(name)
    found: dict[TopicPartition, QueueRecords] = {}
    silent: set[int] = set()
    for leader, names in sorted(by_leader.items()):
        there = _records_at(addresses.get(leader), group, names)
        found |= there
        if not there:
            silent.add(leader)
    return found, silent


def _records_at(address: str | None, group: str, names: Iterable[TopicPartition]) -> dict[TopicPartition, QueueRecords]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(names):
        topics.setdefault(topic, []).append(number)
    request = DescribeProducersRequest(
        topics=tuple(
            TopicRequest(name=TopicName(topic), partition_indexes=tuple(map(i32, numbers)))
            for topic, numbers in topics.items()
        ),
        share_group=group,
    )
    try:
        answer = None if address is None else call(address, request, LOOK_TIMEOUT_S)
    except OperatorError:  # it was there a moment ago: what is not known is not shown
        answer = None
    return {
        TopicPartition(topic.name, each.partition_index): _records(told)
        for topic in (() if answer is None else answer.topics)
        for each in topic.partitions
        for told in each.shares
    }


def _records(told: SharePartitionData) -> QueueRecords:
    return QueueRecords(
        told.start_offset,
        told.end_offset,
        told.acquired_count,
        told.letter_count,
        round(told.letters_failing_for.total_seconds() * 1000),
        told.span_max,
        told.attempts_max,
        tuple(
            QueueRun(
                run.start_offset,
                run.start_offset + run.record_count,
                RecordState(run.state),
                run.delivery_count,
                run.member_id,
                round(run.locked_for.total_seconds() * 1000),
            )
            for run in told.runs
        ),
    )
