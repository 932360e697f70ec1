"""Brokers that play a cluster with transactions, over sockets: the tools reach them through their own client library."""

import re
from collections.abc import Iterable
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_transactions.v0 import response as transactions_v0
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.list_transactions.v2 import response as list_v2
from kio.schema.metadata.v13 import response as metadata_v13
from kio.schema.write_txn_markers.v2 import response as markers_v2
from kio.static.primitive import i32Timedelta

from esp.broker.answer_fields import NO_THROTTLE
from esp.cli.kafka.transactions import ProducerState
from esp.doctor.open_transactions import KnownTransaction
from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, TRANSACTIONS_TOPIC, TopicPartition
from esp.protocol import own_fields
from esp.protocol.registry import ApiKey
from tests.unit.cli.kafka.played_broker import PlayedBroker

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WrittenMarker(NamedTuple):
    """A marker that a leader took."""

    leader: int
    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool


class PlayedCluster:
    """A cluster whose brokers are 0, 1 and so on. A context manager.

    Args:
        brokers: their number.
        down: brokers that are registered and unfenced, and refuse connections.
        fenced: brokers that are down and fenced.
        silent: brokers that take connections and do not answer.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        down: Iterable[int] = (),
        fenced: Iterable[int] = (),
        silent: Iterable[int] = (),
    ) -> None:
        self.leaders: dict[TopicPartition, int] = {TopicPartition(TRANSACTIONS_TOPIC, 0): 0}
        self.producers: dict[TopicPartition, list[ProducerState]] = {}
        self.clients: dict[int, dict[str, str]] = {}
        """The client that began the open transaction of a producer, as the fields of an answer."""
        self.transactions: dict[str, KnownTransaction] = {}
        self.homeless: set[str] = set()
        """Transactional ids without a coordinator."""
        self.loading: set[int] = set()
        """Brokers that load the transactions that they coordinate."""
        self.refusal = ErrorCode.none
        """The answer to each marker."""
        self.markers: list[WrittenMarker] = []
        self.is_described = lambda: None
        """Called after the answer of a coordinator about a transaction is made."""
        self._fenced = frozenset(fenced)
        self._down = frozenset(down) | self._fenced
        self._silent = frozenset(silent)
        self._brokers: list[PlayedBroker] = []
        self._stack = ExitStack()
        self._count = brokers

    def __enter__(self) -> Self:
        for node in range(self._count):

            def answer(key: int, request: Any, node: int = node) -> Any:
                return _ANSWERS[ApiKey(key)](self, node, request)

            broker = PlayedBroker(answers=node not in self._silent, answer=answer)
            self._stack.enter_context(closing(broker))
            self._brokers.append(broker)
        for node in self._down:
            self._brokers[node].close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The address of a broker that answers."""
        return next(each.address for node, each in enumerate(self._brokers) if node not in self._down | self._silent)

    def open(
        self,
        name: TopicPartition,
        producer_id: int,
        offset: int,
        *,
        age_ms: int,
        now_ms: int,
        coordinator_epoch: int = -1,
        leader: int = 0,
    ) -> None:
        """Let a partition have an open transaction, whose last record has an age."""
        self.leaders.setdefault(name, leader)
        state = ProducerState(producer_id, 3, coordinator_epoch, 7, now_ms - age_ms, offset)
        self.producers.setdefault(name, []).append(state)

    def know(self, transactional_id: str, producer_id: int, *partitions: TopicPartition, **more: Any) -> None:
        """Let a coordinator have a transaction; it is broker 0 and ``Ongoing`` unless ``more`` says otherwise."""
        facts = {"coordinator": 0, "producer_epoch": 3, "state": "Ongoing", "timeout_ms": 60_000, "start_ms": -1} | more
        self.transactions[transactional_id] = KnownTransaction(
            transactional_id=transactional_id, producer_id=producer_id, partitions=frozenset(partitions), **facts
        )

    def metadata(self, _node: int, request: Any) -> Any:
        names = {name.topic for name in self.leaders}
        wanted = names if request.topics is None else {each.name for each in request.topics}
        return metadata_v13.MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                metadata_v13.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=each.port, rack=None)
                for node, each in enumerate(self._brokers)
                if node not in self._fenced
            ),
            cluster_id="played",
            controller_id=next(node for node in range(self._count) if node not in self._down),
            topics=tuple(self._topic(topic, topic in names) for topic in sorted(wanted)),
            error_code=ErrorCode.none,
        )

    def _topic(self, topic: str, is_there: bool) -> Any:
        return metadata_v13.MetadataResponseTopic(
            error_code=ErrorCode.none if is_there else ErrorCode.unknown_topic_or_partition,
            name=topic,
            topic_id=None,
            partitions=tuple(
                metadata_v13.MetadataResponsePartition(
                    error_code=ErrorCode.none,
                    partition_index=name.partition,
                    leader_id=leader,
                    replica_nodes=tuple(range(self._count)),
                )
                for name, leader in sorted(self.leaders.items())
                if name.topic == topic
            ),
        )

    def describe_cluster(self, _node: int, _request: Any) -> Any:
        return DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            cluster_id="played",
            brokers=tuple(
                DescribeClusterBroker(
                    broker_id=node, host="127.0.0.1", port=each.port, rack=None, is_fenced=node in self._fenced
                )
                for node, each in enumerate(self._brokers)
            ),
        )

    def list_transactions(self, node: int, request: Any) -> Any:
        code, found = ErrorCode.none, []
        pattern = request.transactional_id_pattern
        if node in self.loading:
            code = ErrorCode.coordinator_load_in_progress
        elif pattern == "[":
            code = ErrorCode.invalid_regular_expression
        else:
            found = [each for each in self.transactions.values() if each.coordinator == node]
        now = datetime.now(UTC).timestamp() * 1000
        return list_v2.ListTransactionsResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            transaction_states=tuple(
                list_v2.TransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state,
                )
                for each in found
                if (not request.state_filters or each.state in request.state_filters)
                and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
                and (not pattern or re.fullmatch(pattern, each.transactional_id))
                and (request.duration_filter < 0 or each.start_ms < now - request.duration_filter)
            ),
        )

    def find_coordinator(self, _node: int, request: Any) -> Any:
        assert request.key_type == 1
        found = []
        for key in request.coordinator_keys:
            is_homeless = key in self.homeless
            coordinator = self.transactions[key].coordinator if key in self.transactions else 0
            found.append(
                Coordinator(
                    key=key,
                    node_id=NO_NODE if is_homeless else coordinator,
                    host="127.0.0.1",
                    port=self._brokers[coordinator].port,
                    error_code=ErrorCode.coordinator_not_available if is_homeless else ErrorCode.none,
                    error_message=None,
                )
            )
        return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found))

    def describe_transactions(self, node: int, request: Any) -> Any:
        answer = transactions_v0.DescribeTransactionsResponse(
            throttle_time=NO_THROTTLE,
            transaction_states=tuple(self._described(node, each) for each in request.transactional_ids),
        )
        self.is_described()
        return answer

    def _described(self, node: int, transactional_id: str) -> Any:
        known = self.transactions.get(transactional_id)
        code = ErrorCode.transactional_id_not_found
        if known is not None:
            code = ErrorCode.none if known.coordinator == node else ErrorCode.not_coordinator
        topics: dict[str, list[int]] = {}
        for name in known.partitions if known else ():
            topics.setdefault(name.topic, []).append(name.partition)
        start_ms: Any = EPOCH + timedelta(milliseconds=known.start_ms if known else -1)
        return transactions_v0.TransactionState(
            error_code=code,
            transactional_id=transactional_id,
            transaction_state=known.state if known else "",
            transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=known.timeout_ms if known else 0)),
            transaction_start_time=start_ms,
            producer_id=known.producer_id if known else -1,
            producer_epoch=known.producer_epoch if known else -1,
            topics=tuple(
                transactions_v0.TopicData(topic=topic, partitions=tuple(numbers)) for topic, numbers in topics.items()
            ),
        )

    def describe_producers(self, _node: int, request: Any) -> Any:
        return own_fields.DescribeProducersResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                own_fields.TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        own_fields.PartitionResponse(
                            partition_index=number,
                            error_code=ErrorCode.none,
                            error_message=None,
                            active_producers=tuple(
                                own_fields.ProducerState(
                                    **each._asdict(),
                                    **(self.clients.get(each.producer_id, {}) if request.with_clients else {}),
                                )
                                for each in self.producers.get(TopicPartition(topic.name, number), ())
                            ),
                        )
                        for number in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            ),
        )

    def write_markers(self, node: int, request: Any) -> Any:
        [marker] = request.markers
        [topic] = marker.topics
        [number] = topic.partition_indexes
        name = TopicPartition(topic.name, number)
        if self.refusal is ErrorCode.none:
            self.markers.append(
                WrittenMarker(
                    *(node, name, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch),
                    marker.transaction_result,
                )
            )
        result = markers_v2.WritableTxnMarkerPartitionResult(partition_index=number, error_code=self.refusal)
        topics = (markers_v2.WritableTxnMarkerTopicResult(name=topic.name, partitions=(result,)),)
        return markers_v2.WriteTxnMarkersResponse(
            markers=(markers_v2.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics),)
        )


_ANSWERS: Final = {
    ApiKey.METADATA: PlayedCluster.metadata,
    ApiKey.DESCRIBE_CLUSTER: PlayedCluster.describe_cluster,
    ApiKey.LIST_TRANSACTIONS: PlayedCluster.list_transactions,
    ApiKey.FIND_COORDINATOR: PlayedCluster.find_coordinator,
    ApiKey.DESCRIBE_TRANSACTIONS: PlayedCluster.describe_transactions,
    ApiKey.DESCRIBE_PRODUCERS: PlayedCluster.describe_producers,
    ApiKey.WRITE_TXN_MARKERS: PlayedCluster.write_markers,
}
