"""ReadShareGroupState (84), version 0: leaders read the states of share partitions, and shut out those of older epochs (SHARE-20)."""

from collections.abc import Coroutine
from typing import Any

from kio.schema.read_share_group_state.v0.request import ReadShareGroupStateRequest
from kio.schema.read_share_group_state.v0.response import ReadShareGroupStateResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share_states.answering import answer


def handle(
    services: Services, _request: Request, message: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse | Coroutine[Any, Any, ReadShareGroupStateResponse]:
    """Ask the coordinators of this node."""
    found: ReadShareGroupStateResponse | Coroutine[Any, Any, ReadShareGroupStateResponse]
    found = answer(services.share_states, message)
    return found
