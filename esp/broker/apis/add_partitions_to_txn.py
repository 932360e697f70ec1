"""AddPartitionsToTxn (24), versions 0-5: partitions join a transaction, or their leader asks if they have (KIP-98, KIP-890).

Versions up to 3 are for clients and name one transaction. Versions 4 and 5 are for partition leaders, and name several; one that is not for
verification alone adds what it names for a client that leaves that to the brokers.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as RequestUpTo3
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic as TopicUpTo3
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
from esp.broker.groups.wire import all_answered, answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.joining import add_for_client, ask_for_leader
from esp.broker.transactions.wire import for_version
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.transactions.requests import Producer
from esp.transactions.responses import PartitionsResult

Topic = AddPartitionsToTxnTopic | TopicUpTo3
AnyRequest = AddPartitionsToTxnRequest | RequestUpTo3
AnyResponse = AddPartitionsToTxnResponse | ResponseUpTo3


def handle(services: Services, request: Request, message: AnyRequest) -> AnyResponse | Coroutine[Any, Any, AnyResponse]:
    """The answer comes when what joins is committed."""
    if isinstance(message, RequestUpTo3):
        return _add_for_client(services, request, message)
    futures = [_ask_for_leader(services, transaction) for transaction in message.transactions]
    return all_answered(futures, lambda results: _response(message.transactions, results))


def _add_for_client(
    services: Services, request: Request, message: RequestUpTo3
) -> AnyResponse | Coroutine[Any, Any, AnyResponse]:
    partitions = _partitions(message.v3_and_below_topics)
    denied = _denied(services, request, message.v3_and_below_topics)
    closed = [each for each in partitions if each.topic in denied or services.metadata.is_internal(each.topic)]
    future = add_for_client(
        services.transactions,
        services.metadata,
        message.v3_and_below_transactional_id,
        Producer(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch),
        partitions,
        dict.fromkeys(closed, ErrorCode.topic_authorization_failed),
    )
    return answered(future, lambda result: _response_up_to_3(message, result, request.api_version))


def _ask_for_leader(services: Services, asked: AddPartitionsToTxnTransaction) -> asyncio.Future[PartitionsResult]:
    return ask_for_leader(
        services.transactions,
        services.metadata,
        asked.transactional_id,
        Producer(asked.producer_id, asked.producer_epoch),
        _partitions(asked.topics),
        adds=not asked.verify_only,
    )


def _partitions(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _denied(services: Services, request: Request, topics: Iterable[Topic]) -> frozenset[str]:
    """The topics to which the client may not write."""
    access, client = services.access, request.client
    return frozenset(
        topic.name
        for topic in topics
        if access.refuses(client, Permission(AclOperation.WRITE, ResourceType.TOPIC, topic.name))
    )


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


def _response_up_to_3(asked: RequestUpTo3, result: PartitionsResult, version: int) -> ResponseUpTo3:
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
            for topic in asked.v3_and_below_topics
        ),
    )
