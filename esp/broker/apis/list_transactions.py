"""ListTransactions (66), versions 0-2: this node's share of the transactional ids (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

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


def handle(
    services: Services, request: Request, message: ListTransactionsRequest
) -> ListTransactionsResponse | Coroutine[Any, Any, ListTransactionsResponse]:
    """The ids that pass the filters and that the client may describe, with the states of the filter that do not exist.

    All coordinators have to be loaded.
    """
    pattern = message.transactional_id_pattern
    return _matching(services, request, message, pattern) if pattern else _listed(services, request, message, None)


async def _matching(
    services: Services, request: Request, message: ListTransactionsRequest, pattern: str
) -> ListTransactionsResponse:
    """The answer when the client's regular expression is compiled, which is done beside the loop: it may take most of a second.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        compiled = await services.env.cpu.run(compile_linear, pattern)
    except ValueError as error:
        raise ApiError(ErrorCode.invalid_regular_expression) from error
    return _listed(
        services, request, message, lambda transactional_id: compiled.fullmatch(transactional_id) is not None
    )


def _listed(
    services: Services, request: Request, message: ListTransactionsRequest, matches: Callable[[str], bool] | None
) -> ListTransactionsResponse:
    known = tuple(state for state in message.state_filters if state in STATE_NAMES)
    asked = ListTransactions(
        states=known if known or not message.state_filters else ("",),
        producer_ids=tuple(message.producer_id_filters),
        duration_ms=message.duration_filter,
        matches=matches,
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
