"""Looks at topics and changes them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from esp.cli.kafka.answers import TopicInfo, reassignments, topic_info
from esp.cli.kafka.client import ask_controller, check_code
from esp.cli.kafka.configs import ConfigsAdmin
from esp.cli.kafka.library import IncompatibleBrokerVersion, ListPartitionReassignmentsRequest, NewPartitions
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import Reassignment

_TIMEOUT_MS: Final = 60_000


class TopicsAdmin(ConfigsAdmin):
    """The topics of a cluster, with their settings; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def topics(self) -> list[TopicInfo]:
        """Return all topics, sorted by name."""
        told = self._ask(lambda client: client.describe_topics())
        return sorted(topic_info(topic) for topic in told if topic["error_code"] == 0)

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """All partitions that are moving now; none on brokers before Kafka 2.4, which cannot be asked.

        Raises:
            NoControllerError: no controller answers.
        """
        request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None)

        def ask(client: Any) -> dict[TopicPartition, Reassignment]:
            try:
                return reassignments(ask_controller(request, client))
            except IncompatibleBrokerVersion:
                return {}

        found: dict[TopicPartition, Reassignment] = self._ask(ask)
        return found

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        """Create a topic; -1 leaves a number to the broker.

        Raises:
            RefusedError: the broker refused.
        """
        wanted = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": dict(configs)}
        told = self._change_once(lambda client: client.create_topics({name: wanted}, raise_errors=False))
        _check(told["topics"])

    def delete_topic(self, name: str) -> None:
        """Delete a topic.

        Raises:
            RefusedError: the broker refused.
        """
        told = self._change_once(lambda client: client.delete_topics([name], raise_errors=False))
        _check(told["topics"])

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, ``partitions`` in all.

        Raises:
            RefusedError: the broker refused.
        """
        told = self._change_once(
            lambda client: client.create_partitions({name: NewPartitions(partitions)}, raise_errors=False)
        )
        _check(told["results"] if isinstance(told, dict) else told.to_dict()["results"])


def _check(answers: Sequence[Mapping[str, object]]) -> None:
    for answer in answers:
        code, message = answer["error_code"], answer.get("error_message")
        assert isinstance(code, int), "as the protocol has it"
        check_code(code, None if message is None else str(message))
