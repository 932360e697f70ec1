"""AddPartitionsToTxn (24), versions 0-5: partitions join a transaction, or their leader asks if they have (KIP-98, KIP-890).

Versions up to 3 are for clients and name one transaction. Versions 4 and 5 are for partition leaders, and name several; one that is not for
verification alone adds what it names for a client that leaves that to the brokers.
"""

import asyncio
import uuid
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as RequestUpTo3
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnPartitionResult as PartitionResultUpTo3
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse as ResponseUpTo3
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnTopicResult as TopicResultUpTo3
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import all_answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.wire import for_version
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.transactions.requests import AddPartitions, Producer, VerifyPartitions
from esp.transactions.responses import PartitionsResult
from esp.transactions.transaction import BUMPING_VERSION

AnyRequest = AddPartitionsToTxnRequest | RequestUpTo3
AnyResponse = AddPartitionsToTxnResponse | ResponseUpTo3
Errors = Mapping[TopicPartition, ErrorCode]


def handle(services: Services, request: Request, message: AnyRequest) -> AnyResponse | Coroutine[Any, Any, AnyResponse]:
    """The answer comes when what joins is committed."""
    if isinstance(message, RequestUpTo3):
        asked = AddPartitionsToTxnTransaction(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=message.v3_and_below_topics,  # type: ignore[arg-type]  # of the same fields
        )
        return all_answered(
            [_ask(services, asked, denied=_denied(services, request, asked), is_from_broker=False)],
            lambda results: _response_up_to_3(asked, results[0], request.api_version),
        )
    futures = [
        _ask(services, transaction, denied=frozenset(), is_from_broker=True) for transaction in message.transactions
    ]
    return all_answered(futures, lambda results: _response(message.transactions, results))


def _ask(
    services: Services, asked: AddPartitionsToTxnTransaction, *, denied: frozenset[str], is_from_broker: bool
) -> asyncio.Future[PartitionsResult]:
    """The answer for one transaction, which may be there already; clients may not add partitions of ``denied`` topics."""
    partitions = [TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partitions]
    ids = {partition: _topic_id(services, partition) for partition in partitions}
    refused = {
        partition: ErrorCode.unknown_topic_or_partition for partition, topic_id in ids.items() if topic_id is None
    }
    if not is_from_broker:
        closed = [
            partition
            for partition in partitions
            if partition.topic in denied or services.metadata.is_internal(partition.topic)
        ]
        refused |= dict.fromkeys(closed, ErrorCode.topic_authorization_failed)
    producer = Producer(asked.producer_id, asked.producer_epoch)
    try:
        coordinator = services.transactions.coordinator_of(asked.transactional_id)
        core = coordinator.core
    except ApiError as error:
        return _done(_same(partitions, error.code))
    if refused:
        return _done(PartitionsResult(ErrorCode.none, {**_not_attempted(partitions), **refused}))
    if asked.verify_only:
        return _done(
            core.verify_partitions(
                VerifyPartitions(
                    transactional_id=asked.transactional_id, producer=producer, partitions=tuple(partitions)
                )
            )
        )
    return coordinator.ask(
        core.add_partitions,
        AddPartitions(
            transactional_id=asked.transactional_id,
            producer=producer,
            partitions=ids,
            client_version=BUMPING_VERSION if is_from_broker else 0,
        ),
    )


def _denied(services: Services, request: Request, asked: AddPartitionsToTxnTransaction) -> frozenset[str]:
    """The topics to which the client may not write."""
    access, client = services.access, request.client
    return frozenset(
        topic.name
        for topic in asked.topics
        if access.refuses(client, Permission(AclOperation.WRITE, ResourceType.TOPIC, topic.name))
    )


def _topic_id(services: Services, partition: TopicPartition) -> uuid.UUID | None:
    """The id of the partition's topic; None if there is no such partition."""
    if not services.metadata.has_partition(*partition):
        return None
    return services.metadata.image.topics_by_name[partition.topic].topic_id


def _same(partitions: Iterable[TopicPartition], error: ErrorCode) -> PartitionsResult:
    return PartitionsResult(error, dict.fromkeys(partitions, error))


def _not_attempted(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """The partitions beside those that are refused: a transaction takes all, or none."""
    return dict.fromkeys(partitions, ErrorCode.operation_not_attempted)


def _done(result: PartitionsResult) -> asyncio.Future[PartitionsResult]:
    future: asyncio.Future[PartitionsResult] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def _response(
    transactions: Iterable[AddPartitionsToTxnTransaction], results: list[PartitionsResult]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=tuple(
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            AddPartitionsToTxnPartitionResult(
                                partition_index=number,
                                partition_error_code=result.errors[TopicPartition(topic.name, number)],
                            )
                            for number in numbers
                        ),
                    )
                    for topic, numbers in _answered(transaction)
                ),
            )
            for transaction, result in zip(transactions, results, strict=True)
        ),
    )


def _answered(
    transaction: AddPartitionsToTxnTransaction,
) -> Iterator[tuple[AddPartitionsToTxnTopic, Iterable[i32]]]:
    """The topics and partitions that an answer names: those that the request names, each once if it only asks, as in Kafka."""
    for topic in transaction.topics:
        if not transaction.verify_only:
            yield topic, topic.partitions
        elif topic.partitions:
            yield topic, dict.fromkeys(topic.partitions)


def _response_up_to_3(asked: AddPartitionsToTxnTransaction, result: PartitionsResult, version: int) -> ResponseUpTo3:
    return ResponseUpTo3(
        throttle_time=NO_THROTTLE,
        results_by_topic_v3_and_below=tuple(
            TopicResultUpTo3(
                name=topic.name,
                results_by_partition=tuple(
                    PartitionResultUpTo3(
                        partition_index=number,
                        partition_error_code=for_version(result.errors[TopicPartition(topic.name, number)], version),
                    )
                    for number in topic.partitions
                ),
            )
            for topic in asked.topics
        ),
    )
