"""DescribeTransactions (65), version 0: the state of transactional ids, and the partitions that take part (KIP-664)."""

from datetime import timedelta
from typing import cast

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TopicData, TransactionState
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import TZAware, i16, i32, i32Timedelta

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.entity_fields import EPOCH
from esp.transactions.responses import DescribedTransaction


def handle(services: Services, _request: Request, message: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """NOT_COORDINATOR for the ids of other brokers, and for all of them while there are no transactions; no id may be empty."""
    return DescribeTransactionsResponse(
        throttle_time=NO_THROTTLE,
        transaction_states=tuple(
            _state(transactional_id, _describe(services, transactional_id))
            for transactional_id in message.transactional_ids
        ),
    )


def _describe(services: Services, transactional_id: str) -> DescribedTransaction:
    try:
        if services.transactions.feature_level == 0 and transactional_id:
            return DescribedTransaction(ErrorCode.not_coordinator)
        return services.transactions.coordinator_of(transactional_id).core.describe(transactional_id)
    except ApiError as error:
        return DescribedTransaction(error.code)


def _state(transactional_id: TransactionalId, described: DescribedTransaction) -> TransactionState:
    topics: dict[str, list[i32]] = {}
    for topic, partition in described.partitions:
        topics.setdefault(topic, []).append(i32(partition))
    return TransactionState(
        error_code=described.error,
        transactional_id=transactional_id,
        transaction_state=described.state,
        transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=described.timeout_ms)),
        # The type takes whole seconds only, and no time before 1970, such as the -1 of an id without a transaction.
        transaction_start_time=cast("TZAware", EPOCH + timedelta(milliseconds=described.start_ms)),
        producer_id=ProducerId(described.producer.producer_id),
        producer_epoch=i16(described.producer.epoch),
        topics=tuple(TopicData(topic=TopicName(topic), partitions=tuple(numbers)) for topic, numbers in topics.items()),
    )
