"""Looks at transactions, at their coordinators and in partitions, and writes the marker of one that hangs (KIP-664)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from esp.cli.kafka.answers import PartitionInfo, RefusedError, topic_info
from esp.cli.kafka.brokers import broker_address
from esp.cli.kafka.client import AdminConnection, ask_again, check_code
from esp.cli.kafka.connections import NO_ANSWER
from esp.cli.kafka.library import (
    CoordinatorNotAvailableError,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    IncompatibleBrokerVersion,
    KafkaError,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from esp.cli.kafka.transaction_clients import TransactionClient, find_clients
from esp.doctor.open_transactions import KnownTransaction, OpenTransaction, find_hanging
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import NO_NODE, TRANSACTIONS_TOPIC, TopicPartition

_TRANSACTION_KEY: Final = 1
"""The key type of FindCoordinator for a transactional id."""
_ABORT: Final = False
_LOADING: Final = frozenset((ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available))


class ListedTransaction(NamedTuple):
    """A transactional id in a list; ``state`` in Kafka's word."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class ListFilter(NamedTuple):
    """The transactional ids that a list is limited to. Empty, None or negative: not by that."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    """Transactions that run for longer; ids without one are not left out."""
    pattern: str | None = None
    """A regular expression for the whole id."""


class ProducerState(NamedTuple):
    """A producer that a replica knows. Kafka's words; ``current_txn_start_offset`` is -1 without an open transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    current_txn_start_offset: int


class AbortMarker(NamedTuple):
    """The marker that ends a transaction in one partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class TransactionsAdmin(AdminConnection):
    """The transactions of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    asks_all: ClassVar = True

    def partitions(self, topics: Iterable[str] | None = None) -> dict[TopicPartition, PartitionInfo]:
        """Return the partitions of those topics that exist; of all topics without names."""
        wanted = None if topics is None else sorted(set(topics))
        if wanted == []:
            return {}
        told = self._ask(lambda client: client.describe_topics(wanted))
        found = (topic_info(each) for each in told if each["error_code"] == ErrorCode.none)
        return {TopicPartition(topic.name, each.partition): each for topic in found for each in topic.partitions}

    def list_transactions(self, wanted: ListFilter) -> tuple[list[ListedTransaction], list[int]]:
        """Return the transactional ids of all coordinators, sorted, and the brokers that did not tell of theirs.

        Fenced brokers are not asked: they lead no partition of ``__transaction_state``.

        Raises:
            RefusedError: a filter is refused.
        """

        def ask(client: Any) -> tuple[list[ListedTransaction], list[int]]:
            brokers = client.describe_cluster()["brokers"]
            nodes = [broker["broker_id"] for broker in brokers if not broker.get("is_fenced")]
            found: list[ListedTransaction] = []
            silent: list[int] = []
            for node, told in client.send_to_each(partial(_list_request, wanted), nodes).items():
                if isinstance(told, IncompatibleBrokerVersion):
                    raise told
                if isinstance(told, KafkaError) or told["error_code"] in _LOADING:
                    silent.append(node)
                    continue
                check_code(told["error_code"])
                found += [
                    ListedTransaction(
                        each["transactional_id"], node, each["producer_id"], str(each["transaction_state"])
                    )
                    for each in told["transaction_states"]
                ]
            return sorted(found), sorted(silent)

        found, silent = self._ask(ask)
        return found, silent

    def unled_coordinators(self) -> list[int]:
        """The partitions of ``__transaction_state`` without a leader: the transactions of their ids are unknown."""
        return [number for (_, number), each in self.partitions([TRANSACTIONS_TOPIC]).items() if each.leader == NO_NODE]

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, KnownTransaction | RefusedError]:
        """Return the last transaction of each id, or the coordinator's error.

        Raises:
            OperatorError: an id has no coordinator, or the coordinator does not answer.
        """
        wanted = sorted(set(transactional_ids))
        found: dict[str, KnownTransaction | RefusedError] = {}
        by_coordinator: dict[int, list[str]] = {}
        for each, node in self._coordinators(wanted).items() if wanted else ():
            by_coordinator.setdefault(node, []).append(each)
        for node, ids in sorted(by_coordinator.items()):

            def ask(client: Any, node: int = node, ids: Sequence[str] = ids) -> Any:
                request = DescribeTransactionsRequest(transactional_ids=list(ids))
                try:
                    told = ask_again(partial(client.send, request, node), until_s=self._until_s)
                except NO_ANSWER as error:
                    raise OperatorError(
                        f"the coordinator of {', '.join(ids)}, broker {node}, does not answer: the transactions are unknown",
                        f"Start broker {node}; or wait until another broker has taken over.",
                    ) from error
                return told.to_dict()["transaction_states"]

            for told in self._ask(ask):
                code = ErrorCode(told["error_code"])
                found[told["transactional_id"]] = _known(told, node) if code is ErrorCode.none else RefusedError(code)
        return found

    def _coordinators(self, transactional_ids: Sequence[str]) -> dict[str, int]:
        def ask(client: Any) -> dict[str, int]:
            try:
                found: dict[str, int] = ask_again(
                    partial(_find_coordinators, transactional_ids, client), until_s=self._until_s
                )
            except CoordinatorNotAvailableError as error:
                raise OperatorError(
                    f"no broker coordinates the transactions of {', '.join(transactional_ids)}",
                    f"Start brokers until each partition has a leader: esp topics --describe --topic {TRANSACTIONS_TOPIC}",
                ) from error
            return found

        found: dict[str, int] = self._ask(ask)
        return found

    def producers(
        self, by_broker: Mapping[int, Iterable[TopicPartition]]
    ) -> tuple[dict[TopicPartition, list[ProducerState]], dict[TopicPartition, str]]:
        """Ask replicas for the producers that they know.

        Args:
            by_broker: the partitions to ask each broker for; NO_NODE: there is none to ask.

        Returns:
            The producers of each partition, sorted; and the reason for each partition of which nothing is known.
        """
        found: dict[TopicPartition, list[ProducerState]] = {}
        unknown: dict[TopicPartition, str] = {}
        for node, partitions in sorted(by_broker.items()):
            wanted = sorted(partitions)
            if node == NO_NODE:
                unknown |= dict.fromkeys(wanted, "it has no leader")
                continue
            try:
                told = self._ask(partial(_producers_of, node, wanted))
            except OperatorError as error:
                unknown |= dict.fromkeys(wanted, error.problem)
                continue
            for topic in told["topics"]:
                for each in topic["partitions"]:
                    name = TopicPartition(topic["name"], each["partition_index"])
                    code = ErrorCode(each["error_code"])
                    if code is ErrorCode.none:
                        found[name] = sorted(map(_producer, each["active_producers"]))
                    else:
                        unknown[name] = each["error_message"] or code.name.upper()
        return found, unknown

    def clients(
        self, by_broker: Mapping[int, Iterable[TopicPartition]]
    ) -> dict[tuple[TopicPartition, int], TransactionClient]:
        """Return the clients of open transactions by partition and producer id, as far as the leaders tell them."""
        brokers = self._ask(lambda client: client.describe_cluster()["brokers"])
        addresses = {each["broker_id"]: broker_address(each["host"], each["port"]) for each in brokers}
        return find_clients(addresses, by_broker)

    def owners(self, opened: Iterable[OpenTransaction]) -> tuple[dict[int, KnownTransaction], str | None]:
        """Return the transactions of the producers by producer id, and the reason for which some may be missing; None if there is none."""
        problem = None
        listed, silent = self.list_transactions(ListFilter(producer_ids=tuple({each.producer_id for each in opened})))
        if silent:
            problem = f"brokers do not tell of the transactions that they coordinate: {', '.join(map(str, silent))}"
        elif unled := self.unled_coordinators():
            problem = f"partitions of {TRANSACTIONS_TOPIC} have no leader: {', '.join(map(str, unled))}"
        found: dict[int, KnownTransaction] = {}
        for each in self.describe(each.transactional_id for each in listed).values():
            if isinstance(each, RefusedError):
                problem = problem or f"a coordinator refused to describe a transaction: {each.message}"
            else:
                found[each.producer_id] = each
        return found, problem

    def still_hanging(
        self, by_broker: Mapping[int, Iterable[TopicPartition]], opened: Sequence[OpenTransaction]
    ) -> tuple[list[OpenTransaction], str | None]:
        """Return the transactions that hang, and the reason for which that cannot be told of all; None if there is none.

        The partitions are asked again after the coordinators: a marker may have been on its way.

        Args:
            by_broker: the partitions, as for :meth:`producers`.
            opened: their open transactions that are old enough to be in question.
        """
        if not opened:
            return [], None
        owners, problem = self.owners(opened)
        sure = opened if problem is None else [each for each in opened if each.producer_id in owners]
        hanging = find_hanging(sure, owners)
        names = {each.partition for each in hanging}
        again = {node: [name for name in some if name in names] for node, some in by_broker.items()}
        now_open = open_transactions(self.producers({node: some for node, some in again.items() if some})[0])
        present = {(each.partition, each.producer_id, each.start_offset) for each in now_open}
        return [each for each in hanging if (each.partition, each.producer_id, each.start_offset) in present], problem

    def abort(self, marker: AbortMarker) -> None:
        """Have the partition's leader write the marker. To write it twice does no harm.

        Raises:
            OperatorError: there is no leader, or it refuses.
        """
        topic, number = marker.partition
        kind = WriteTxnMarkersRequest.WritableTxnMarker
        request = WriteTxnMarkersRequest(
            markers=[
                kind(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=_ABORT,
                    topics=[kind.WritableTxnMarkerTopic(name=topic, partition_indexes=[number])],
                    coordinator_epoch=marker.coordinator_epoch,
                )
            ]
        )

        def ask(client: Any) -> None:
            [told] = client.describe_topics([topic])
            leaders = {each["partition_index"]: each["leader_id"] for each in told["partitions"]}
            leader = leaders.get(number, NO_NODE)
            if leader == NO_NODE:
                raise OperatorError(
                    f"{marker.partition} has no leader: nothing was written",
                    f"Start a broker that has a replica: esp topics --describe --topic {topic}",
                )
            [answer] = client.send(request, leader).to_dict()["markers"]
            check_code(answer["topics"][0]["partitions"][0]["error_code"])

        self._change(ask)


def open_transactions(found: Mapping[TopicPartition, Iterable[ProducerState]]) -> list[OpenTransaction]:
    """The transactions that are open among the producers of partitions, sorted."""
    return sorted(
        OpenTransaction(
            partition,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.current_txn_start_offset,
            each.last_timestamp,
        )
        for partition, producers in found.items()
        for each in producers
        if each.current_txn_start_offset >= 0
    )


def by_leader(partitions: Mapping[TopicPartition, PartitionInfo]) -> dict[int, list[TopicPartition]]:
    """The partitions of each leader; those without one under NO_NODE."""
    found: dict[int, list[TopicPartition]] = {}
    for name, each in partitions.items():
        found.setdefault(each.leader, []).append(name)
    return found


def _list_request(wanted: ListFilter) -> Any:
    fields: dict[str, Any] = {
        "state_filters": list(wanted.states),
        "producer_id_filters": list(wanted.producer_ids),
        "min_version": 0,
    }
    if wanted.duration_ms >= 0:
        fields |= {"duration_filter": wanted.duration_ms, "min_version": 1}
    if wanted.pattern is not None:
        fields |= {"transactional_id_pattern": wanted.pattern, "min_version": 2}
    return ListTransactionsRequest(**fields)


def _find_coordinators(transactional_ids: Sequence[str], client: Any) -> dict[str, int]:
    request = FindCoordinatorRequest(key_type=_TRANSACTION_KEY, coordinator_keys=list(transactional_ids), min_version=4)
    found = {}
    for told in client.send(request, None).to_dict()["coordinators"]:
        check_code(told["error_code"], told["error_message"])
        found[told["key"]] = told["node_id"]
    return found


def _known(told: Mapping[str, Any], coordinator: int) -> KnownTransaction:
    return KnownTransaction(
        told["transactional_id"],
        coordinator,
        told["producer_id"],
        told["producer_epoch"],
        str(told["transaction_state"]),
        told["transaction_timeout_ms"],
        told["transaction_start_time_ms"],
        frozenset(TopicPartition(topic["topic"], number) for topic in told["topics"] for number in topic["partitions"]),
    )


def _producers_of(node: int, partitions: Sequence[TopicPartition], client: Any) -> Any:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    kind = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[kind(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()]
    )
    return client.send(request, node).to_dict()


def _producer(told: Mapping[str, Any]) -> ProducerState:
    return ProducerState(
        told["producer_id"],
        told["producer_epoch"],
        told["coordinator_epoch"],
        told["last_sequence"],
        told["last_timestamp"],
        told["current_txn_start_offset"],
    )
