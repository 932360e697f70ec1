"""EndTxn (26), versions 0-5: a transaction is committed or aborted (KIP-98). From version 5 on its epoch rises with that (KIP-890)."""

from collections.abc import Coroutine
from typing import Any, Final, cast

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.wire import for_version
from esp.transactions.requests import EndTransaction, Producer
from esp.transactions.responses import ProducerResult

BUMPS_EPOCH_FROM: Final = 5


def handle(
    services: Services, request: Request, message: EndTxnRequest
) -> EndTxnResponse | Coroutine[Any, Any, EndTxnResponse]:
    """The answer comes when the decision is committed; the markers follow."""
    coordinator = services.transactions.coordinator_of(message.transactional_id)
    asked = EndTransaction(
        transactional_id=message.transactional_id,
        producer=Producer(message.producer_id, message.producer_epoch),
        is_commit=message.committed,
        bumps_epoch=request.api_version >= BUMPS_EPOCH_FROM,
    )

    def translate(result: ProducerResult) -> EndTxnResponse:
        return EndTxnResponse(
            throttle_time=NO_THROTTLE,
            error_code=for_version(result.error, request.api_version),
            # the coordinator's own numbers are in range; to look at each takes longer than the rest of the answer
            producer_id=cast("ProducerId", result.producer.producer_id),
            producer_epoch=cast("i16", result.producer.epoch),
        )

    return answered(coordinator.ask(coordinator.core.end_transaction, asked), translate)
