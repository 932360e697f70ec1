"""ListTransactions (66), versions 0-2: this node's share of the transactional ids (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Callable
from functools import partial

from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.linear_regex import compile_linear
from esp.transactions.lookups import STATE_NAMES
from esp.transactions.requests import ListTransactions


def handle(services: Services, request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse:
    """The ids that pass the filters and that the client may describe, with the states of the filter that do not exist.

    All coordinators have to be loaded.
    """
    known = tuple(state for state in message.state_filters if state in STATE_NAMES)
    asked = ListTransactions(
        states=known if known or not message.state_filters else ("",),
        producer_ids=tuple(message.producer_id_filters),
        duration_ms=message.duration_filter,
        matches=_pattern(message.transactional_id_pattern),
    )
    may_describe = partial(services.access.allows, request.client, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    states: list[TransactionState] = []
    for coordinator in services.transactions:
        if coordinator.has_ended:
            continue
        states += (
            TransactionState(
                transactional_id=TransactionalId(listed.transactional_id),
                producer_id=ProducerId(listed.producer_id),
                transaction_state=listed.state,
            )
            for listed in coordinator.core.list_transactions(asked, coordinator.now())
            if may_describe(listed.transactional_id)
        )
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(state for state in message.state_filters if state not in STATE_NAMES),
        transaction_states=tuple(states),
    )


def _pattern(text: str | None) -> Callable[[str], bool] | None:
    """The test of a client's regular expression, in Kafka's syntax (RE2), which takes time in proportion to the text."""
    if not text:
        return None
    try:
        pattern = compile_linear(text)
    except ValueError as error:
        raise ApiError(ErrorCode.invalid_regular_expression) from error
    return lambda transactional_id: pattern.fullmatch(transactional_id) is not None
