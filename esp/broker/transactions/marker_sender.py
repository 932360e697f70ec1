"""Sends the markers of ended transactions to the leaders of their partitions (WriteTxnMarkers), until each has been written.

One request at a time goes to each broker, with all the markers that have gathered for it, of any number of transactions. Markers that were
not written, or whose answer was lost, are sent again after a pause, to the leader that the partition has by then: to write a marker twice
does no harm (TXN-7). A partition that is deleted needs none; it counts as deleted if the metadata here, which is as new as the coordinator
is, does not have it, or has its name for another topic.
"""

import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kio.schema.types import ProducerId, TopicName
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.static.primitive import i8, i16, i32

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.broker.tasks import Tasks
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.replication.end_marker import EndMarker
from esp.transactions.markers import MarkerOutcome, outcome_of
from esp.transactions.requests import Producer

log = logging.getLogger(__name__)

RETRY_MIN_US: Final = 20_000
"""The pause before the first repetition; it doubles with each up to RETRY_MAX_US."""
RETRY_MAX_US: Final = 1_000_000

CALL_TIMEOUT_MS: Final = 30_000
"""The time for an answer, in which the leader waits for its followers: the default of Kafka's ``request.timeout.ms``."""

MARKERS_PER_REQUEST: Final = 500
"""Transactions in one request: an answer to more would hold up others."""

Outcomes = dict[TopicPartition, tuple[MarkerOutcome, ErrorCode]]


Errors = Mapping[TopicPartition, ErrorCode]
"""The answers for the partitions of one decision."""

WriteMarkers = Callable[
    [Sequence[tuple[EndMarker, Sequence[TopicPartition]]]], "list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]"
]
"""Has this node, as a leader, write markers; see :func:`esp.broker.data_path.marker_writer.write_markers`."""


class MarkerOwner(Protocol):
    """A coordinator, as its markers know it."""

    def on_markers(
        self,
        transactional_id: str,
        decision: int,
        outcomes: Mapping[TopicPartition, tuple[MarkerOutcome, ErrorCode]],
    ) -> None:
        """Partitions have answered for good."""


@dataclass(slots=True, eq=False)
class MarkerWork:
    """The markers of one decision that are not written yet."""

    owner: MarkerOwner
    transactional_id: str
    decision: int
    producer: Producer
    is_commit: bool
    transaction_version: int
    coordinator: TopicPartition
    """The partition of the coordinator."""
    coordinator_epoch: int
    """Its leader epoch."""
    left: dict[TopicPartition, uuid.UUID | None]
    """With the ids of their topics, as far as they are known."""
    is_forgotten: bool = False
    retry_us: int = field(default=RETRY_MIN_US)


@dataclass(slots=True)
class _Destination:
    """A broker, the work that waits for it, and whether a request is under way. This node itself has no connection."""

    address: Address
    peer: Peer | None
    queue: list[tuple[MarkerWork, list[TopicPartition]]] = field(default_factory=list)
    is_busy: bool = False


_Batch = Sequence[tuple[MarkerWork, Sequence[TopicPartition]]]


class MarkerSender:
    """The markers of all coordinators of this node.

    Args:
        env: the outside.
        node_id: this node.
        metadata: as clients are told: the leaders of partitions.
        address_of: the address of a broker for other brokers; None if that is not known.
        write_markers: writes markers that are for this node.
        tasks: where requests wait for their answers.
        terms: the terms of connections to brokers.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        metadata: MetadataCache,
        address_of: Callable[[NodeId], Address | None],
        write_markers: WriteMarkers,
        tasks: Tasks,
        *,
        terms: PeerTerms,
    ) -> None:
        self._env = env
        self._terms = terms
        self._node_id = node_id
        self._write_markers = write_markers
        self._client_id = f"broker-{node_id}-txn-marker-sender"
        self._metadata = metadata
        self._address_of = address_of
        self._tasks = tasks
        self._destinations: dict[NodeId, _Destination] = {}
        self._work: dict[MarkerWork, None] = {}

    def send(self, work: MarkerWork) -> None:
        """Have the markers written; the owner is told of each partition's outcome, never before this returns."""
        self._work[work] = None
        self._later(work, work.left, 0)

    def forget(self, owner: MarkerOwner) -> None:
        """A coordinator has ended: its markers are sent no more."""
        for work in [work for work in self._work if work.owner is owner]:
            self._drop(work)

    def close(self) -> None:
        """Send nothing any more."""
        for work in tuple(self._work):
            self._drop(work)
        for destination in self._destinations.values():
            if destination.peer is not None:
                destination.peer.close()
        self._destinations.clear()

    def _drop(self, work: MarkerWork) -> None:
        work.is_forgotten = True
        del self._work[work]

    def _later(self, work: MarkerWork, partitions: Iterable[TopicPartition], pause_us: int) -> None:
        chosen = tuple(partitions)
        self._env.clock.call_later_us(pause_us, lambda: self._route(work, chosen))

    def _again(self, work: MarkerWork, partitions: Iterable[TopicPartition]) -> None:
        pause_us, work.retry_us = work.retry_us, min(2 * work.retry_us, RETRY_MAX_US)
        self._later(work, partitions, pause_us)

    def _route(self, work: MarkerWork, partitions: Iterable[TopicPartition]) -> None:
        """Queue markers for the leaders that the partitions have now."""
        if work.is_forgotten:
            return
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        without_leader: list[TopicPartition] = []
        deleted: Outcomes = {}
        knows_all = self._knows_all(work)
        for partition in partitions:
            leader = self._leader(partition, work.left.get(partition))
            if leader is None and knows_all:
                deleted[partition] = (MarkerOutcome.WRITTEN, ErrorCode.none)
            elif leader is None or self._address_of(leader) is None:
                without_leader.append(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        if without_leader:
            self._again(work, without_leader)
        if deleted:
            log.info("no markers of %r for deleted partitions: %s", work.transactional_id, ", ".join(map(str, deleted)))
            self._settle(work, deleted)
        for leader, found in by_leader.items():
            destination = self._destination(leader)
            destination.queue.append((work, found))
            self._start(destination)

    def _knows_all(self, work: MarkerWork) -> bool:
        """True if the metadata here is as new as the coordinator: then it knows every partition that has joined a transaction, unless it
        is deleted. A partition joins only if this node's metadata, or that of a coordinator before, has it.
        """
        topic = self._metadata.image.topics_by_name.get(work.coordinator.topic)
        if topic is None or work.coordinator.partition >= len(topic.partitions):
            return False
        return topic.partitions[work.coordinator.partition].leader_epoch >= work.coordinator_epoch

    def _leader(self, partition: TopicPartition, topic_id: uuid.UUID | None) -> NodeId | None:
        """The leader, which may be none; None if the metadata does not have the partition."""
        topic = self._metadata.image.topics_by_name.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        if topic_id is not None and topic.topic_id != topic_id:
            return None
        return self._metadata.leader(topic.partitions[partition.partition])

    def _destination(self, node_id: NodeId) -> _Destination:
        address = self._address_of(node_id)
        assert address is not None, "markers are queued for brokers with an address"
        destination = self._destinations.get(node_id)
        if destination is None or destination.address != address:
            queue = []
            if destination is not None:
                queue = destination.queue
                if destination.peer is not None:
                    destination.peer.close()
            peer = (
                None
                if node_id == self._node_id
                else Peer(self._env, address, client_id=self._client_id, terms=self._terms)
            )
            destination = self._destinations[node_id] = _Destination(address, peer, queue)
        return destination

    def _start(self, destination: _Destination) -> None:
        """Send what has gathered, unless that is under way. Without a wait for followers this node's own markers are written at once."""
        if destination.is_busy:
            return
        destination.is_busy = True
        waiting = None
        if destination.peer is None:
            waiting = self._write_here(_take_batch(destination))
            if waiting is None:
                destination.is_busy = False
                return
        self._tasks.start(self._run(destination, waiting), name=f"markers for {destination.address}")

    async def _run(self, destination: _Destination, waiting: Coroutine[Any, Any, None] | None) -> None:
        """Send what has gathered, until the queue is empty, once what is ``waiting`` is done."""
        if waiting is not None:
            await waiting
        while destination.queue:
            batch = _take_batch(destination)
            if destination.peer is None:
                waiting = self._write_here(batch)
                if waiting is not None:
                    await waiting
            elif batch:
                self._take_all(batch, await _write_there(destination.peer, batch))
        destination.is_busy = False

    def _write_here(self, batch: _Batch) -> Coroutine[Any, Any, None] | None:
        """Have this node write markers, as the leader; return what is left to do if followers have to be waited for."""
        if not batch:
            return None
        written = self._write_markers([(_end_marker(work), partitions) for work, partitions in batch])
        if not isinstance(written, list):
            return self._wait_here(batch, written)
        self._take_all(batch, _errors(batch, written))
        return None

    async def _wait_here(self, batch: _Batch, written: Coroutine[Any, Any, list[ErrorCode]]) -> None:
        self._take_all(batch, _errors(batch, await written))

    def _take_all(self, batch: _Batch, errors: Iterable[Errors]) -> None:
        for (work, partitions), found in zip(batch, errors, strict=True):
            self._take(work, partitions, found)

    def _take(self, work: MarkerWork, partitions: Iterable[TopicPartition], errors: Errors) -> None:
        """Look at the answer for one decision; a partition that the answer does not have is asked again."""
        if work.is_forgotten:
            return
        outcomes: Outcomes = {}
        again: list[TopicPartition] = []
        for partition in partitions:
            error = errors.get(partition, ErrorCode.network_exception)
            outcome = outcome_of(error)
            if outcome is MarkerOutcome.AGAIN:
                again.append(partition)
            else:
                outcomes[partition] = (outcome, error)
        if again:
            self._again(work, again)
        if outcomes:
            self._settle(work, outcomes)

    def _settle(self, work: MarkerWork, outcomes: Outcomes) -> None:
        for partition in outcomes:
            work.left.pop(partition, None)
        if not work.left:
            del self._work[work]
            work.is_forgotten = True
        work.owner.on_markers(work.transactional_id, work.decision, outcomes)


def _take_batch(destination: _Destination) -> _Batch:
    """Take the work that goes into the next request; work that was forgotten meanwhile is left out."""
    taken = destination.queue[:MARKERS_PER_REQUEST]
    del destination.queue[:MARKERS_PER_REQUEST]
    return [(work, partitions) for work, partitions in taken if not work.is_forgotten]


def _errors(batch: _Batch, codes: Iterable[ErrorCode]) -> Iterator[Errors]:
    """The answers by partition for each piece of work, of the codes in their order."""
    rest = iter(codes)
    return ({partition: next(rest) for partition in partitions} for _, partitions in batch)


async def _write_there(peer: Peer, batch: _Batch) -> list[Errors]:
    """Have another broker write markers; a partition of which it has not answered has no error."""
    request = WriteTxnMarkersRequest(markers=tuple(_marker(work, partitions) for work, partitions in batch))
    try:
        answer = await peer.call(ApiKey.WRITE_TXN_MARKERS, request, timeout_ms=CALL_TIMEOUT_MS)
    except PeerUnavailableError as error:
        log.debug("markers are sent again: %s", error)
        return [{}] * len(batch)
    # Markers of one producer with two decisions in one request are answered in their order.
    answers = [*answer.markers]
    errors: list[Errors] = []
    for work, _ in batch:
        found = next((marker for marker in answers if marker.producer_id == work.producer.producer_id), None)
        if found is None:
            errors.append({})
            continue
        answers.remove(found)
        errors.append(
            {
                TopicPartition(topic.name, result.partition_index): result.error_code
                for topic in found.topics
                for result in topic.partitions
            }
        )
    return errors


def _end_marker(work: MarkerWork) -> EndMarker:
    return EndMarker(
        work.producer.producer_id,
        work.producer.epoch,
        work.is_commit,
        work.coordinator_epoch,
        work.transaction_version,
    )


def _marker(work: MarkerWork, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=ProducerId(work.producer.producer_id),
        producer_epoch=i16(work.producer.epoch),
        transaction_result=work.is_commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=tuple(map(i32, numbers)))
            for topic, numbers in topics.items()
        ),
        coordinator_epoch=i32(work.coordinator_epoch),
        transaction_version=i8(work.transaction_version),
    )
