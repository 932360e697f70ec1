"""TxnOffsetCommit (28), versions 0-5: offsets of a group that count if a transaction commits (TXN-10; KIP-98, KIP-447).

The order is Kafka's: first the transaction's coordinator confirms that the group's partition of ``__consumer_offsets`` belongs to the
transaction, or adds it for clients of version 5 (KIP-890), then the group is asked about its member.
"""

from collections.abc import Coroutine, Mapping
from typing import Any, Final

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.driver import GroupCoordinatorDriver
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.level import require_transactions
from esp.broker.transactions.verifier import UNANSWERED, Producer, Protocol, Unverified
from esp.groups.effects import Transaction
from esp.groups.requests import CommittedOffset, TxnOffsetCommit
from esp.groups.responses import OffsetCommitResult
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.records.batch_header import NO_SEQUENCE
from esp.replication.transaction_clients import TransactionClient

ABORTABLE_FROM: Final = 4
"""The first version that knows TRANSACTION_ABORTABLE (KIP-890)."""
IMPLICIT_FROM: Final = 5

_AGAIN: Final = ErrorCode.coordinator_load_in_progress
"""The answer to a commit that could not be verified now: every client sends it again, to the same coordinator."""


def handle(
    services: Services, request: Request, message: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Coroutine[Any, Any, TxnOffsetCommitResponse]:
    """Commit the offsets of the partitions that exist; the answer comes when they are in the log.

    Raises:
        ApiError: transactions are not served.
    """
    require_transactions(services.metadata.image)
    offsets = tuple(
        CommittedOffset(
            TopicPartition(topic.name, partition.partition_index),
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        for topic in message.topics
        for partition in topic.partitions
        if services.metadata.has_partition(topic.name, partition.partition_index)
    )
    if not offsets:
        return _response(message, {}, ErrorCode.unknown_topic_or_partition)
    return _commit(services, request, message, offsets)


async def _commit(
    services: Services, request: Request, message: TxnOffsetCommitRequest, offsets: tuple[CommittedOffset, ...]
) -> TxnOffsetCommitResponse:
    try:
        result = await _ask(services, request, message, offsets)
    except ApiError as error:
        codes = dict.fromkeys((each.partition for each in offsets), error.code)
    else:
        codes = {each.partition: each.error for each in result.partitions}
    return _response(message, codes, ErrorCode.unknown_topic_or_partition)


async def _ask(
    services: Services, request: Request, message: TxnOffsetCommitRequest, offsets: tuple[CommittedOffset, ...]
) -> OffsetCommitResult:
    """Commit, in the coordinator of the group.

    Raises:
        ApiError: the group is not coordinated here, or the transaction is refused.
    """
    coordinator = services.groups.coordinator_of(message.group_id)
    _ = coordinator.core  # refuses while it is loading, before the transaction's coordinator is asked
    transaction = await _verify(services, coordinator, request, message)
    result: OffsetCommitResult = await coordinator.ask(
        coordinator.core.commit_transactional_offsets,
        TxnOffsetCommit(
            group_id=message.group_id,
            transaction=transaction,
            generation_id=message.generation_id,
            member_id=message.member_id,
            group_instance_id=message.group_instance_id,
            offsets=offsets,
        ),
    )
    return result


async def _verify(
    services: Services, coordinator: GroupCoordinatorDriver, request: Request, message: TxnOffsetCommitRequest
) -> Transaction:
    protocol, version = Protocol.OLD, request.api_version
    if version >= ABORTABLE_FROM:
        protocol = Protocol.IMPLICIT if version >= IMPLICIT_FROM else Protocol.ABORTABLE
    producer = Producer(message.transactional_id, message.producer_id, message.producer_epoch)
    client = TransactionClient(request.client_id, request.client.address.host)
    batch = Unverified(coordinator.hosted, coordinator.leader, NO_SEQUENCE, client)
    (guard,) = await services.verifier.verify(producer, (batch,), protocol)
    if isinstance(guard, ApiError):
        if guard.code in UNANSWERED and guard.code is not ErrorCode.concurrent_transactions:
            raise ApiError(_AGAIN, guard.message)
        raise guard
    return Transaction(producer.producer_id, producer.producer_epoch, guard)


def _response(
    message: TxnOffsetCommitRequest, codes: Mapping[TopicPartition, ErrorCode], otherwise: ErrorCode
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=codes.get(TopicPartition(topic.name, partition.partition_index), otherwise),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
            if topic.partitions
        ),
    )
