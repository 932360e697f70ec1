"""ListTransactions (66), versions 0-2: there are none (KIP-664, KIP-994, KIP-1152)."""

import re
from typing import Final

from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode

_STATES: Final = frozenset(
    (
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Empty",
        "Dead",
        "PrepareEpochFence",
    )
)
"""States that a transaction may have, as Kafka names them in filters."""

_PATTERN_LENGTH_MAX: Final = 1000
"""Compiling a pattern takes the loop's time; transactional ids that need a longer one are unlikely."""


def handle(_services: Services, _request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse:
    """An empty list, with the states of the filter that do not exist."""
    pattern = message.transactional_id_pattern
    if pattern:
        _check_pattern(pattern)
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(state for state in message.state_filters if state not in _STATES),
        transaction_states=(),
    )


def _check_pattern(pattern: str) -> None:
    if len(pattern) > _PATTERN_LENGTH_MAX:
        raise ApiError(ErrorCode.invalid_regular_expression)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ApiError(ErrorCode.invalid_regular_expression) from error
