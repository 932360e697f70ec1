"""Looks at consumer groups and changes the offsets that they remember."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

from esp.cli.kafka.answers import (
    CommittedOffset,
    Coordinator,
    GroupInfo,
    GroupListing,
    GroupMember,
    PartitionId,
    topic_info,
)
from esp.cli.kafka.client import AdminConnection, ask_again, check_code, told_to_the_operator
from esp.cli.kafka.connections import NO_ANSWER
from esp.cli.kafka.library import (
    ConsumerGroupDescribeRequest,
    ConsumerProtocolAssignment,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    ListGroupsRequest,
    NodeNotReadyError,
    NotLeaderForPartitionError,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from esp.model.errors import ErrorCode, OperatorError

_GONE: Final = (KafkaConnectionError, NodeNotReadyError)
_LEADER_TIMEOUT_MS: Final = 1000
"""The time for which a broker may say that it does not lead, while the metadata names it as the leader."""

_OF_CONSUMERS: Final = frozenset(("consumer", ""))
"""The protocol types of groups of consumers, with members and without. Those of Kafka Connect and the like are others' business."""

_SHARE: Final = "share"
"""The protocol type of share groups."""

_CLASSIC_MEMBER: Final = 0
"""``MemberType`` of a member that speaks the classic protocol."""

_GROUP_KEY = 0
"""The key type of FindCoordinator for the id of a group."""


class CoordinatorSilentError(OperatorError):
    """The coordinator of a group does not answer, and no other broker has taken over from it."""

    def __init__(self, group: str, node_id: int) -> None:
        super().__init__(
            f"the coordinator of group {group}, broker {node_id}, does not answer: the group's members and offsets are unknown",
            f"Start broker {node_id}; or start controllers until a majority of the voters runs: another broker takes over then.",
        )


class GroupsAdmin(AdminConnection):
    """The consumer groups of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    asks_all: ClassVar = True

    def list_groups(self, *, with_share_groups: bool = False) -> tuple[list[GroupListing], list[int]]:
        """Return all groups of consumers, sorted by id, and the brokers that did not tell of theirs.

        Args:
            with_share_groups: share groups, too, which commit no offsets.
        """
        protocols = _OF_CONSUMERS | {_SHARE} if with_share_groups else _OF_CONSUMERS

        def ask(client: Any) -> tuple[list[GroupListing], list[int]]:
            found: list[GroupListing] = []
            nodes = [broker["broker_id"] for broker in client.describe_cluster()["brokers"]]
            answers = client.send_to_each(ListGroupsRequest, nodes)
            for node, told in answers.items():
                if isinstance(told, _GONE):  # it may have been restarted just now
                    with suppress(*_GONE):
                        answers[node] = ask_again(partial(client.send, ListGroupsRequest(), node)).to_dict()
            silent = sorted(node for node, told in answers.items() if isinstance(told, KafkaError))
            for told in answers.values():
                if isinstance(told, KafkaError):
                    continue
                check_code(told["error_code"])
                found += [
                    GroupListing(group["group_id"], group.get("group_state", ""), group.get("group_type", ""))
                    for group in told["groups"]
                    if group["protocol_type"] in protocols
                ]
            return sorted(found), silent

        found, silent = self._ask(ask)
        return found, silent

    def describe(self, group: str) -> GroupInfo:
        """Return a group as its coordinator sees it.

        Raises:
            RefusedError: there is no such group (group_id_not_found).
            CoordinatorSilentError: its coordinator does not answer.
        """

        def ask(client: Any) -> GroupInfo:
            coordinator = _find_coordinator(client, group)
            # As it came: what members are assigned is bytes, of which text is made without json=False.
            try:
                answer = ask_again(
                    lambda: client.send(DescribeGroupsRequest(groups=[group]), coordinator.node_id),
                    until_s=self._until_s,
                )
            except NO_ANSWER as error:
                raise CoordinatorSilentError(group, coordinator.node_id) from error
            [told] = answer.to_dict(json=False)["groups"]
            if told["error_code"] == ErrorCode.group_id_not_found:
                found = _describe_consumers(client, coordinator, group)
                if found is not None:
                    return found
            check_code(told["error_code"], told.get("error_message"))
            return GroupInfo(
                group,
                coordinator,
                told["group_state"],
                told["protocol_data"],
                tuple(_member(member) for member in sorted(told["members"], key=lambda each: str(each["member_id"]))),
            )

        found: GroupInfo = self._ask(ask)
        return found

    def committed(self, group: str) -> dict[PartitionId, CommittedOffset]:
        """Return what the group has committed, by partition, sorted."""
        told = self._ask(lambda client: client.list_group_offsets({group: None}))[group]
        return {
            PartitionId(each.topic, each.partition): CommittedOffset(
                told[each].offset,
                -1 if told[each].leader_epoch is None else told[each].leader_epoch,
                told[each].metadata or "",
            )
            for each in sorted(told)
            if told[each].offset >= 0
        }

    def partitions(self, topics: Iterable[str] | None = None) -> dict[str, list[PartitionId]]:
        """Return the partitions of those topics that are there, sorted."""
        wanted = None if topics is None else sorted(set(topics))
        told = [] if wanted == [] else self._ask(lambda client: client.describe_topics(wanted))
        return {
            topic["name"]: sorted(PartitionId(topic["name"], each["partition_index"]) for each in topic["partitions"])
            for topic in told
            if topic["error_code"] == 0
        }

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of those topics that are there, in Kafka's text form; empty where the cluster has none."""
        wanted = sorted(set(topics))
        told = [] if not wanted else self._ask(lambda client: client.describe_topics(wanted))
        return {topic["name"]: topic_info(topic).topic_id for topic in told if topic["error_code"] == 0}

    def earliest(self, partitions: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Return the offset of each partition's first record."""
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def latest(self, partitions: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Return the offset that each partition's next record gets."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def known_ends(self, partitions: Iterable[PartitionId]) -> tuple[dict[PartitionId, int], list[int]]:
        """Return what :meth:`latest` does, for the partitions whose leaders answer, and the leaders that do not (-1: there is none)."""
        return self._known_offsets(partitions, OffsetSpec.LATEST)

    def known_since(
        self, partitions: Iterable[PartitionId], timestamp_ms: int
    ) -> tuple[dict[PartitionId, int], list[int]]:
        """Return what :meth:`since` does, for the partitions whose leaders answer, and the leaders as :meth:`known_ends` does."""
        return self._known_offsets(partitions, timestamp_ms)

    def _known_offsets(self, partitions: Iterable[PartitionId], at: Any) -> tuple[dict[PartitionId, int], list[int]]:
        wanted = set(partitions)
        if not wanted:
            return {}, []
        topics = sorted({each.topic for each in wanted})
        by_leader: dict[int, list[PartitionId]] = {}
        for topic in self._ask(lambda client: client.describe_topics(topics)):
            for each in topic["partitions"]:
                partition = PartitionId(topic["name"], each["partition_index"])
                if partition in wanted:
                    by_leader.setdefault(each["leader_id"], []).append(partition)
        found: dict[PartitionId, int] = {}
        silent: list[int] = []
        for leader, some in sorted(by_leader.items()):
            specs = {TopicPartition(*each): at for each in some}
            told: dict[Any, Any] = {}
            with told_to_the_operator(self._servers), suppress(*NO_ANSWER, NotLeaderForPartitionError):
                told = {} if leader < 0 else self._client.list_partition_offsets(specs, timeout_ms=_LEADER_TIMEOUT_MS)
            found |= {PartitionId(*each): end.offset for each, end in told.items()}
            if not told:
                silent.append(leader)
        return found, silent

    def since(self, partitions: Iterable[PartitionId], timestamp_ms: int) -> dict[PartitionId, int]:
        """Return the offset of each partition's first record that is not older (milliseconds since the Unix epoch); -1: there is none."""
        return self._offsets(partitions, timestamp_ms)

    def commit(self, group: str, offsets: Mapping[PartitionId, int]) -> None:
        """Commit offsets for a group without members.

        Raises:
            RefusedError: the coordinator refused.
        """
        wanted = {TopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()}

        def ask(client: Any) -> None:
            for error in client.alter_group_offsets(group, wanted).values():
                check_code(error.errno)

        self._ask(ask)

    def delete_offsets(self, group: str, partitions: Iterable[PartitionId]) -> dict[PartitionId, ErrorCode]:
        """Make a group forget offsets; return what became of each."""
        wanted = [TopicPartition(*each) for each in partitions]
        told = self._ask(lambda client: client.delete_group_offsets(group, wanted))
        return {PartitionId(*each): ErrorCode(told[each].errno) for each in sorted(told)}

    def delete_group(self, group: str) -> None:
        """Delete a group with its offsets.

        Raises:
            RefusedError: the coordinator refused.
        """

        def ask(client: Any) -> None:
            coordinator = _find_coordinator(client, group)
            told = client.send(DeleteGroupsRequest(groups_names=[group]), coordinator.node_id).to_dict()
            check_code(told["results"][0]["error_code"])

        self._ask(ask)

    def _offsets(self, partitions: Iterable[PartitionId], at: Any) -> dict[PartitionId, int]:
        wanted = {TopicPartition(*each): at for each in partitions}
        if not wanted:
            return {}
        told = self._ask(lambda client: client.list_partition_offsets(wanted))
        return {PartitionId(*each): found.offset for each, found in told.items()}


def _describe_consumers(client: Any, coordinator: Coordinator, group: str) -> GroupInfo | None:
    """A group of KIP-848; None if there is none of this name, or the broker has no such groups."""
    try:
        answer = client.send(ConsumerGroupDescribeRequest(group_ids=[group]), coordinator.node_id)
    except IncompatibleBrokerVersion:
        return None
    [told] = answer.to_dict(json=False)["groups"]
    if told["error_code"]:
        return None
    return GroupInfo(
        group,
        coordinator,
        told["group_state"],
        told["assignor_name"],
        tuple(_consumer(member) for member in sorted(told["members"], key=lambda each: str(each["member_id"]))),
        "consumer",
        told["group_epoch"],
        told["assignment_epoch"],
    )


def _consumer(member: Mapping[str, Any]) -> GroupMember:
    return GroupMember(
        member["member_id"],
        member["instance_id"],
        member["client_id"],
        member["client_host"],
        _partitions(member["assignment"]),
        # version 0 of the answer does not say it
        "classic" if member.get("member_type") == _CLASSIC_MEMBER else "consumer",
        member["member_epoch"],
        _partitions(member["target_assignment"]),
    )


def _partitions(assignment: Mapping[str, Any]) -> tuple[PartitionId, ...]:
    return tuple(
        sorted(
            PartitionId(topic["topic_name"], number)
            for topic in assignment["topic_partitions"]
            for number in topic["partitions"]
        )
    )


def _find_coordinator(client: Any, group: str) -> Coordinator:
    request = FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=[group], min_version=4)
    [told] = client.send(request, None).to_dict()["coordinators"]
    check_code(told["error_code"], told["error_message"])
    return Coordinator(told["node_id"], told["host"], told["port"])


def _member(told: Mapping[str, Any]) -> GroupMember:
    assigned: Sequence[tuple[str, int]] = ()
    if told["member_assignment"]:
        assigned = ConsumerProtocolAssignment.decode(told["member_assignment"]).partitions()
    return GroupMember(
        told["member_id"],
        told.get("group_instance_id"),
        told["client_id"],
        told["client_host"],
        tuple(sorted(PartitionId(topic, partition) for topic, partition in assigned)),
    )
