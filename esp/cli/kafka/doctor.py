"""The requests of ``esp doctor`` beyond those of the tools that move partitions."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

from esp.cli.kafka.answers import QuorumInfo
from esp.cli.kafka.client import ask_for_quorum
from esp.cli.kafka.library import (
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    IncompatibleBrokerVersion,
    KafkaError,
    ListGroupsRequest,
    OffsetSpec,
)
from esp.cli.kafka.library import TopicPartition as KafkaPartition
from esp.cli.kafka.protection import ProtectionAdmin
from esp.cli.kafka.queues import describe_queue, look_at_records, queue_condition
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.kafka.transactions import ListFilter, TransactionsAdmin, open_transactions
from esp.cli.kafka.trash import list_trash
from esp.doctor.open_transactions import (
    MAX_TIMEOUT_MS,
    OPEN_STATES,
    OVERDUE_MS,
    KnownTransaction,
    OpenTransaction,
)
from esp.doctor.snapshot import QueueCondition
from esp.model.client_quotas import QuotaEntity, quota_entity
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import TopicPartition

_TOPIC: Final = 2
_PARTITIONS_AT_ONCE: Final = 1000
_CONSUMERS: Final = ("consumer", "")
"""Kinds of groups that :mod:`esp.cli.kafka.groups` counts too; those of Kafka Connect and the like are others' business."""


_REBALANCING: Final = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))
"""The states of groups, of both protocols, in which a member does not have all its partitions."""


class DoctorAdmin(ReassignmentsAdmin, TransactionsAdmin, ProtectionAdmin):
    """Looks at everything; see :class:`~esp.cli.kafka.client.AdminConnection`. Methods are those of the protocol."""

    asks_all: ClassVar = True

    def quorum(self) -> QuorumInfo | None:
        """The metadata quorum; None if the cluster has none, or does not tell."""

        def ask(client: Any) -> QuorumInfo | None:
            try:
                return ask_for_quorum(client)
            except IncompatibleBrokerVersion:  # a cluster with ZooKeeper
                return None

        found: QuorumInfo | None = self._ask(ask)
        return found

    def topic_settings(self, topics: Iterable[str], names: Collection[str]) -> dict[str, dict[str, str]]:
        """The named settings as they hold for each of the topics, wherever they come from. A topic that is gone is left out."""
        resources = [(_TOPIC, topic, list(names)) for topic in topics]
        if not resources:
            return {}
        request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
        told = self._ask(lambda client: client.send(request, None)).to_dict()["results"]
        return {
            result["resource_name"]: {each["name"]: each["value"] or "" for each in result["configs"]}
            for result in told
            if result["error_code"] == ErrorCode.none
        }

    def failed_log_dirs(self, brokers: Iterable[int]) -> list[tuple[int, str, str]]:
        """Broker, path and Kafka's word for the error of every log directory that does not work."""
        found: list[tuple[int, str, str]] = []
        answers = self._client.send_to_each(lambda: DescribeLogDirsRequest(topics=[]), sorted(brokers))
        for broker, told in sorted(answers.items()):
            if isinstance(told, KafkaError):  # it is down, which the list of brokers may not say yet
                continue
            found += [
                (broker, each["log_dir"], ErrorCode(each["error_code"]).name.upper())
                for each in told["results"]
                if each["error_code"] != ErrorCode.none
            ]
        return found

    def eligible_leaders(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
        """The eligible leader replicas (KIP-966) of those partitions that have some; of none where brokers know nothing of it."""
        return dict(self._ask(partial(_eligible_leaders, sorted(topics))))

    def consumer_groups(self, brokers: Iterable[int]) -> list[str]:
        """The ids of the consumer groups that those brokers keep, of those that answer; sorted."""
        found: set[str] = set()
        for told in self._client.send_to_each(ListGroupsRequest, brokers).values():
            if isinstance(told, KafkaError) or told["error_code"] != ErrorCode.none:  # it is down, or loads its groups
                continue
            found.update(each["group_id"] for each in told["groups"] if each["protocol_type"] in _CONSUMERS)
        return sorted(found)

    def rebalancing_groups(self, brokers: Iterable[int]) -> dict[str, str]:
        """The consumer groups among those of these brokers that are rebalancing, with their states; none where releases tell no states."""
        found: dict[str, str] = {}
        for told in self._client.send_to_each(ListGroupsRequest, brokers).values():
            if not isinstance(told, KafkaError) and told["error_code"] == ErrorCode.none:
                found |= {
                    each["group_id"]: each["group_state"]
                    for each in told["groups"]
                    if each["protocol_type"] in _CONSUMERS and each.get("group_state") in _REBALANCING
                }
        return found

    def group_offsets(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """The committed offsets of those groups whose coordinators tell them."""
        found = {}
        for group in groups:
            with suppress(OperatorError):  # its coordinator has died since, or the client may not see the group
                told = self._ask(partial(_group_offsets, group))
                found[group] = {TopicPartition(each.topic, each.partition): told[each].offset for each in told}
        return {
            group: {partition: offset for partition, offset in offsets.items() if offset >= 0}
            for group, offsets in found.items()
        }

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record; none where a leader does not answer."""
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that each partition's next record gets; likewise."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def offsets_since(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The offset of each partition's first record that is not older, -1: there is none; likewise."""
        return self._offsets(partitions, timestamp_ms)

    def _offsets(self, partitions: Collection[TopicPartition], at: Any) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        wanted = {KafkaPartition(*each): at for each in partitions}
        try:
            told = self._ask(lambda client: client.list_partition_offsets(wanted))
        except OperatorError:  # a leader has died since
            return {}
        return {TopicPartition(each.topic, each.partition): found.offset for each, found in told.items()}

    def client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of clients by entity and key; none where brokers know no quotas, or the client may not know them."""

        def ask(client: Any) -> dict[str, Any]:
            try:
                answer: dict[str, Any] = client.send(
                    DescribeClientQuotasRequest(components=[], strict=False), None
                ).to_dict()
            except IncompatibleBrokerVersion:
                return {}
            return answer

        told = self._ask(ask)
        return {
            quota_entity((part["entity_type"], part["entity_name"]) for part in entry["entity"]): {
                value["key"]: value["value"] for value in entry["values"]
            }
            for entry in told.get("entries") or ()
        }

    def queues(self, brokers: Iterable[int]) -> list[QueueCondition]:
        """The share partitions of the groups that those brokers coordinate, as far as leaders have them in memory; sorted."""
        groups: set[str] = set()
        for told in self._client.send_to_each(ListGroupsRequest, brokers).values():
            if not isinstance(told, KafkaError) and told["error_code"] == ErrorCode.none:
                groups.update(
                    each["group_id"] for each in told["groups"] if each.get("group_type", "").lower() == "share"
                )
        found: list[QueueCondition] = []
        for group in sorted(groups):
            with suppress(OperatorError):  # its coordinator has died since, or the client may not see the group
                partitions = self.partitions({each.topic for each in describe_queue(self._servers, group).partitions})
                there, _silent = look_at_records(self._servers, group, partitions)
                found += [queue_condition(group, name, records) for name, records in sorted(there.items())]
        return found

    def trash(self) -> list[str]:
        """The deleted topics that can be restored, in the order of deletion; none where there is no trash, or the client may not see it."""
        try:
            return [each.name for each in list_trash(self._servers)]
        except OperatorError:
            return []

    def hanging_transactions(
        self, by_leader: Mapping[int, Iterable[TopicPartition]], now_ms: int
    ) -> list[OpenTransaction]:
        """The transactions that no coordinator will end in their partition, as far as leaders and coordinators answer."""
        opened = open_transactions(self.producers(by_leader)[0])
        old = [each for each in opened if each.is_older_than(MAX_TIMEOUT_MS, now_ms)]
        try:
            return self.still_hanging(by_leader, old)[0]
        except OperatorError:  # a coordinator has died since
            return []

    def overdue_transactions(self, now_ms: int) -> list[KnownTransaction]:
        """The transactions that their coordinators do not end in time, of those coordinators that answer; sorted."""
        try:
            listed, _ = self.list_transactions(ListFilter(OPEN_STATES, duration_ms=OVERDUE_MS))
            told = self.describe(each.transactional_id for each in listed)
        except OperatorError:  # a coordinator has died since, or the release knows no filter by duration
            return []
        return [
            each for each in told.values() if isinstance(each, KnownTransaction) and each.overdue_ms(now_ms) is not None
        ]


def _group_offsets(group: str, client: Any) -> dict[Any, Any]:
    return dict(client.list_group_offsets({group: None})[group])


def _eligible_leaders(topics: list[str], client: Any) -> dict[TopicPartition, tuple[int, ...]]:
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor = None
    while topics:
        try:
            told = client.describe_topic_partitions(topics, response_partition_limit=_PARTITIONS_AT_ONCE, cursor=cursor)
        except IncompatibleBrokerVersion:  # a release before 3.7
            return {}
        for topic in told["topics"]:
            for each in topic["partitions"]:
                if each["eligible_leader_replicas"]:
                    name = TopicPartition(topic["name"], each["partition_index"])
                    found[name] = tuple(each["eligible_leader_replicas"])
        cursor = told["next_cursor"]
        if cursor is None:
            break
    return found
