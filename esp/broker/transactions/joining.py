"""Partitions that join a transaction, or are looked up in it, at a coordinator of this node: for clients, and for leaders of partitions.

The answers may be there already: they are if the coordinator's partition has no follower in sync that it must wait for.
"""

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.transactions.coordinators import TransactionCoordinators
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.transactions.requests import AddPartitions, Producer, VerifyPartitions
from esp.transactions.responses import PartitionsResult
from esp.transactions.transaction import BUMPING_VERSION


def ask_for_leader(
    coordinators: TransactionCoordinators,
    metadata: MetadataCache,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    *,
    adds: bool,
) -> asyncio.Future[PartitionsResult]:
    """Have partitions join for a client that leaves that to the brokers, or only look whether they have (KIP-890).

    Args:
        coordinators: this node's.
        metadata: as clients are told.
        transactional_id: of the transaction.
        producer: of the transaction.
        partitions: those that a leader has batches for.
        adds: whether they join.
    """
    ids = _topic_ids(metadata, partitions)
    if adds:
        return _add(coordinators, transactional_id, producer, ids, _unknown(ids), BUMPING_VERSION)
    try:
        core = coordinators.coordinator_of(transactional_id).core
    except ApiError as error:
        return _done(_same(partitions, error.code))
    refused = _unknown(ids)
    if refused:
        return _done(_refusal(partitions, refused))
    return _done(
        core.verify_partitions(
            VerifyPartitions(transactional_id=transactional_id, producer=producer, partitions=tuple(partitions))
        )
    )


def add_for_client(
    coordinators: TransactionCoordinators,
    metadata: MetadataCache,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    closed: Mapping[TopicPartition, ErrorCode],
) -> asyncio.Future[PartitionsResult]:
    """Have partitions join for a client that adds them itself.

    Args:
        coordinators: this node's.
        metadata: as clients are told.
        transactional_id: of the transaction.
        producer: of the transaction.
        partitions: those that the client names.
        closed: the errors of partitions that are closed to the client: then none joins.
    """
    ids = _topic_ids(metadata, partitions)
    return _add(coordinators, transactional_id, producer, ids, {**_unknown(ids), **closed}, 0)


def _add(
    coordinators: TransactionCoordinators,
    transactional_id: str,
    producer: Producer,
    ids: Mapping[TopicPartition, uuid.UUID | None],
    refused: Mapping[TopicPartition, ErrorCode],
    client_version: int,
) -> asyncio.Future[PartitionsResult]:
    try:
        coordinator = coordinators.coordinator_of(transactional_id)
        core = coordinator.core
    except ApiError as error:
        return _done(_same(ids, error.code))
    if refused:
        return _done(_refusal(ids, refused))
    return coordinator.ask(
        core.add_partitions,
        AddPartitions(
            transactional_id=transactional_id, producer=producer, partitions=ids, client_version=client_version
        ),
    )


def _topic_ids(metadata: MetadataCache, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, uuid.UUID | None]:
    """The ids of the partitions' topics; None where there is no such partition."""
    topics = metadata.image.topics_by_name
    return {
        partition: topics[partition.topic].topic_id if metadata.has_partition(*partition) else None
        for partition in partitions
    }


def _unknown(ids: Mapping[TopicPartition, uuid.UUID | None]) -> dict[TopicPartition, ErrorCode]:
    return {partition: ErrorCode.unknown_topic_or_partition for partition, topic_id in ids.items() if topic_id is None}


def _refusal(partitions: Iterable[TopicPartition], refused: Mapping[TopicPartition, ErrorCode]) -> PartitionsResult:
    """A transaction takes all partitions, or none."""
    others = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
    return PartitionsResult(ErrorCode.none, {**others, **refused})


def _same(partitions: Iterable[TopicPartition], error: ErrorCode) -> PartitionsResult:
    return PartitionsResult(error, dict.fromkeys(partitions, error))


def _done(result: PartitionsResult) -> asyncio.Future[PartitionsResult]:
    future: asyncio.Future[PartitionsResult] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
