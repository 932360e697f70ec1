"""Looks at consumer groups and changes the offsets that they remember."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from esp.cli.kafka.answers import (
    CommittedOffset,
    Coordinator,
    GroupInfo,
    GroupListing,
    GroupMember,
    PartitionId,
)
from esp.cli.kafka.client import AdminConnection, ask_again, check_code
from esp.cli.kafka.library import (
    ConsumerProtocolAssignment,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    KafkaConnectionError,
    ListGroupsRequest,
    NodeNotReadyError,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from esp.model.errors import ErrorCode

_GROUP_KEY = 0
"""Of FindCoordinator: the key is a group's id."""


class GroupsAdmin(AdminConnection):
    """The consumer groups of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def list_groups(self) -> tuple[list[GroupListing], list[int]]:
        """Return all groups of consumers, sorted by id, and the brokers that did not tell of theirs."""

        def ask(client: Any) -> tuple[list[GroupListing], list[int]]:
            found: list[GroupListing] = []
            silent: list[int] = []
            for broker in client.describe_cluster()["brokers"]:
                try:
                    told = ask_again(partial(client.send, ListGroupsRequest(), broker["broker_id"])).to_dict()
                except (KafkaConnectionError, NodeNotReadyError):
                    silent.append(broker["broker_id"])
                    continue
                check_code(told["error_code"])
                found += [
                    GroupListing(group["group_id"], group.get("group_state", ""), group.get("group_type", ""))
                    for group in told["groups"]
                    if group["protocol_type"]
                    in ("consumer", "")  # those of Kafka Connect and the like are others' business
                ]
            return sorted(found), silent

        found, silent = self._ask(ask)
        return found, silent

    def describe(self, group: str) -> GroupInfo:
        """Return a group as its coordinator sees it.

        Raises:
            RefusedError: there is no such group (group_id_not_found).
        """

        def ask(client: Any) -> GroupInfo:
            coordinator = _find_coordinator(client, group)
            # As it came: what members are assigned is bytes, of which text is made without json=False.
            answer = client.send(DescribeGroupsRequest(groups=[group]), coordinator.node_id)
            [told] = answer.to_dict(json=False)["groups"]
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
                told[each].offset, -1 if told[each].leader_epoch is None else told[each].leader_epoch
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

    def earliest(self, partitions: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Return the offset of each partition's first record."""
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def latest(self, partitions: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Return the offset that each partition's next record gets."""
        return self._offsets(partitions, OffsetSpec.LATEST)

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
