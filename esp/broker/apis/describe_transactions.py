"""DescribeTransactions (65), version 0: no broker coordinates transactions (KIP-664)."""

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import TZAware, i16

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode
from esp.protocol.entity_fields import EPOCH


def handle(
    _services: Services, _request: Request, message: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """NOT_COORDINATOR, as Kafka says it of every id until the first transaction; no id may be empty."""
    return DescribeTransactionsResponse(
        throttle_time=NO_THROTTLE,
        transaction_states=tuple(_nothing(transactional_id) for transactional_id in message.transactional_ids),
    )


def _nothing(transactional_id: TransactionalId) -> TransactionState:
    return TransactionState(
        error_code=ErrorCode.not_coordinator if transactional_id else ErrorCode.invalid_request,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=NO_THROTTLE,
        transaction_start_time=TZAware.parse(EPOCH),
        producer_id=ProducerId(0),
        producer_epoch=i16(0),
        topics=(),
    )
