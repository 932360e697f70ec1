"""InitializeShareGroupState (83), version 0: the coordinators of groups begin the states of share partitions."""

from collections.abc import Coroutine
from typing import Any

from kio.schema.initialize_share_group_state.v0.request import InitializeShareGroupStateRequest
from kio.schema.initialize_share_group_state.v0.response import InitializeShareGroupStateResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share_states.answering import answer


def handle(
    services: Services, _request: Request, message: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse | Coroutine[Any, Any, InitializeShareGroupStateResponse]:
    """Ask the coordinators of this node."""
    found: InitializeShareGroupStateResponse | Coroutine[Any, Any, InitializeShareGroupStateResponse]
    found = answer(services.share_states, message)
    return found
