"""ReadShareGroupStateSummary (87), versions 0-1: the states of share partitions without their batches, for those that describe a group.

Version 1 says how many records behind the start are done with.
"""

from collections.abc import Coroutine
from typing import Any

from kio.schema.read_share_group_state_summary.v1.request import ReadShareGroupStateSummaryRequest
from kio.schema.read_share_group_state_summary.v1.response import ReadShareGroupStateSummaryResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share_states.answering import answer


def handle(
    services: Services, _request: Request, message: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse | Coroutine[Any, Any, ReadShareGroupStateSummaryResponse]:
    """Ask the coordinators of this node."""
    found: ReadShareGroupStateSummaryResponse | Coroutine[Any, Any, ReadShareGroupStateSummaryResponse]
    found = answer(services.share_states, message)
    return found
