"""The admin API behind the tools that move partitions: :class:`~esp.rebalance.cluster.ReassignmentAdmin` by kafka-python."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from esp.cli.kafka.answers import reassignments
from esp.cli.kafka.client import AdminConnection, check_code
from esp.cli.kafka.library import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    KafkaError,
    ListPartitionReassignmentsRequest,
)
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import Broker, ConfigTarget, LogDir, Partition, Reassignment, Replica

_TOPIC: Final = 2
_BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
_OWN_SOURCES: Final = {(_TOPIC, False): 1, (_BROKER, False): 2, (_BROKER, True): 3}
"""The source of a resource's own setting, by the kind of resource and by True for the default of all (``ConfigEntry.ConfigSource``)."""
_MIN_ISR: Final = "min.insync.replicas"
_METRICS_LISTENER: Final = "metrics.listener"
_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_TIMEOUT_MS: Final = 60_000


class ReassignmentsAdmin(AdminConnection):
    """Moves partitions; see :class:`~esp.cli.kafka.client.AdminConnection`. Methods are those of the protocol."""

    def cluster_id(self) -> str:
        """The cluster's id."""
        return str(self._ask(lambda client: client.describe_cluster())["cluster_id"])

    def brokers(self) -> dict[int, Broker]:
        """Return the registered brokers by id. Brokers before Kafka 4.0 do not name fenced ones."""
        told = self._ask(lambda client: client.describe_cluster())["brokers"]
        return {
            each["broker_id"]: Broker(
                each["broker_id"], each["rack"], bool(each.get("is_fenced")), f"{each['host']}:{each['port']}"
            )
            for each in told
        }

    def topics(self, names: Iterable[str] | None = None) -> dict[str, dict[int, Partition]]:
        """The partitions of those topics that exist, by topic and number; of all topics without names."""
        wanted = None if names is None else sorted(set(names))
        if wanted == []:
            return {}
        told = self._ask(lambda client: client.describe_topics(wanted))
        return {
            topic["name"]: dict(sorted((each["partition_index"], _partition(each)) for each in topic["partitions"]))
            for topic in told
            if topic["error_code"] == ErrorCode.none
        }

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Return the partitions that are moving now, with the change of each."""
        request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None)
        told = self._ask(partial(_send, request, None)).to_dict()
        check_code(told["error_code"], told["error_message"])
        return reassignments(told)

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_replication_factor: bool = True
    ) -> dict[TopicPartition, str]:
        """Move partitions to other replicas; None cancels. Returns why those were refused that were."""
        by_topic: dict[str, list[tuple[int, list[int] | None]]] = {}
        for (topic, number), replicas in targets.items():
            by_topic.setdefault(topic, []).append((number, None if replicas is None else list(replicas)))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS,
            allow_replication_factor_change=may_change_replication_factor,
            topics=list(by_topic.items()),
            min_version=0 if may_change_replication_factor else 1,
        )
        told = self._change(partial(_send, request, None)).to_dict()
        check_code(told["error_code"], told["error_message"])
        return {
            TopicPartition(topic["name"], each["partition_index"]): _reason(each)
            for topic in told["responses"]
            for each in topic["partitions"]
            if each["error_code"] != ErrorCode.none
        }

    def log_dirs(self, brokers: Iterable[int]) -> dict[int, list[LogDir]]:
        """The log directories that work, of those brokers that answer."""
        answers = self._client.send_to_each(lambda: DescribeLogDirsRequest(topics=None), sorted(brokers))
        return {
            broker: [_log_dir(each) for each in told["results"] if each["error_code"] == ErrorCode.none]
            for broker, told in sorted(answers.items())
            if not isinstance(told, KafkaError)  # it is down, which the list of brokers may not say yet
            and told.get("error_code", 0) == ErrorCode.none
        }

    def move_replicas(self, directories: Mapping[Replica, str]) -> dict[Replica, str]:
        """Move replicas to other directories of their brokers. Returns why those were refused that were."""
        refused: dict[Replica, str] = {}
        for broker in sorted({replica.broker for replica in directories}):
            topics: dict[str, dict[str, list[int]]] = {}
            for replica, path in directories.items():
                if replica.broker == broker:
                    topics.setdefault(path, {}).setdefault(replica.partition.topic, []).append(
                        replica.partition.partition
                    )
            request = AlterReplicaLogDirsRequest(dirs=[(path, list(some.items())) for path, some in topics.items()])
            told = self._change(partial(_send, request, broker)).to_dict()
            for topic in told["results"]:
                for each in topic["partitions"]:
                    if each["error_code"] != ErrorCode.none:
                        partition = TopicPartition(topic["topic_name"], each["partition_index"])
                        refused[Replica(partition, broker)] = _reason(each)
        return refused

    def min_in_sync_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        """``min.insync.replicas`` as it holds for each of the topics, all of which exist."""
        request = DescribeConfigsRequest(
            resources=[(_TOPIC, topic, [_MIN_ISR]) for topic in topics],
            include_synonyms=False,
            include_documentation=False,
        )
        found: dict[str, int] = {}
        for result in self._ask(partial(_send, request, None)).to_dict()["results"]:
            check_code(result["error_code"], result["error_message"])
            found[result["resource_name"]] = int(result["configs"][0]["value"])
        return found

    def settings(self, targets: Iterable[ConfigTarget], names: Collection[str]) -> dict[ConfigTarget, dict[str, str]]:
        """The named settings that the targets have of their own, not by a default or by a file."""
        found: dict[ConfigTarget, dict[str, str]] = {}
        for node, some in _by_node(targets).items():
            request = DescribeConfigsRequest(
                resources=[(*_resource(target), list(names)) for target in some],
                include_synonyms=True,
                include_documentation=False,
                min_version=1,
            )
            told = self._ask(partial(_send, request, node)).to_dict()["results"]
            for target, result in zip(some, told, strict=True):
                check_code(result["error_code"], result["error_message"])
                kind, name = _resource(target)
                own = _OWN_SOURCES[kind, kind == _BROKER and not name]
                found[target] = {
                    each["name"]: each["value"]
                    for each in result["configs"]
                    if each["config_source"] == own and each["value"] is not None
                }
        return found

    def change_settings(self, changes: Mapping[ConfigTarget, Mapping[str, str | None]]) -> dict[ConfigTarget, str]:
        """Make settings; None takes one away. Returns why those were refused that were."""
        refused: dict[ConfigTarget, str] = {}
        for node, some in _by_node(changes).items():
            resources = [
                (
                    *_resource(target),
                    [(key, _DELETE if value is None else _SET, value) for key, value in wanted.items()],
                )
                for target, wanted in ((target, changes[target]) for target in some)
            ]
            request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
            told = self._change(partial(_send, request, node)).to_dict()
            targets = {_resource(target): target for target in some}
            for each in told["responses"]:
                if each["error_code"] != ErrorCode.none:
                    refused[targets[each["resource_type"], each["resource_name"]]] = _reason(each)
        return refused

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        """Let preferred leaders lead where they can; where they do already, or cannot, nothing happens."""
        self.elect(partitions, unclean=False)

    def elect(
        self, partitions: Collection[TopicPartition] | None, *, unclean: bool
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Elect leaders of partitions; return for each the error code and its message.

        Args:
            partitions: the partitions; None: all, of which only the ones that need an election are returned.
            unclean: elect out-of-sync replicas of partitions without a leader; else the preferred leaders.
        """
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(partitions or ()):
            by_topic.setdefault(topic, []).append(number)
        request = ElectLeadersRequest(
            election_type=_UNCLEAN if unclean else _PREFERRED,
            topic_partitions=None if partitions is None else list(by_topic.items()),
            timeout_ms=_TIMEOUT_MS,
        )
        told = self._change(partial(_send, request, None)).to_dict()
        check_code(told["error_code"])
        return {
            TopicPartition(topic["topic"], each["partition_id"]): (
                ErrorCode(each["error_code"]),
                each["error_message"] or "",
            )
            for topic in told["replica_election_results"]
            for each in topic["partition_result"]
        }

    def metrics_addresses(self, brokers: Iterable[int]) -> dict[int, str]:
        """The metrics addresses, ``host:port``, of the brokers that serve metrics. Kafka's brokers know no such setting."""
        found: dict[int, str] = {}
        for broker in sorted(brokers):
            request = DescribeConfigsRequest(
                resources=[(_BROKER, str(broker), [_METRICS_LISTENER])],
                include_synonyms=False,
                include_documentation=False,
            )
            try:
                [told] = self._client.send(request, broker).to_dict()["results"]
            except KafkaError:
                continue
            for each in told["configs"]:
                if each["name"] == _METRICS_LISTENER and each["value"]:
                    found[broker] = each["value"]
        return found


def _send(request: Any, node_id: int | None, client: Any) -> Any:
    return client.send(request, node_id)


def _reason(told: Mapping[str, Any]) -> str:
    return told.get("error_message") or ErrorCode(told["error_code"]).name.upper()


def _resource(target: ConfigTarget) -> tuple[int, str]:
    return (_TOPIC, target.topic) if target.topic is not None else (_BROKER, target.broker or "")


def _by_node(targets: Iterable[ConfigTarget]) -> dict[int | None, list[ConfigTarget]]:
    """Divide the targets by the broker to ask: a broker about itself, any broker (None) about all other targets."""
    divided: dict[int | None, list[ConfigTarget]] = {}
    for target in targets:
        divided.setdefault(int(target.broker) if target.broker else None, []).append(target)
    return divided


def _partition(told: Mapping[str, Any]) -> Partition:
    offline = frozenset(told.get("offline_replicas") or ())
    return Partition(tuple(told["replica_nodes"]), frozenset(told["isr_nodes"]), told["leader_id"], offline)


def _log_dir(told: Mapping[str, Any]) -> LogDir:
    sizes: dict[bool, dict[TopicPartition, int]] = {False: {}, True: {}}
    for topic in told["topics"]:
        for each in topic["partitions"]:
            partition = TopicPartition(topic["name"], each["partition_index"])
            sizes[bool(each["is_future_key"])][partition] = each["partition_size"]
    return LogDir(told["log_dir"], told.get("total_bytes", -1), told.get("usable_bytes", -1), sizes[False], sizes[True])
