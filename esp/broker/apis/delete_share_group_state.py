"""DeleteShareGroupState (86), version 0: the coordinators of groups have the states of share partitions forgotten."""

from collections.abc import Coroutine
from typing import Any

from kio.schema.delete_share_group_state.v0.request import DeleteShareGroupStateRequest
from kio.schema.delete_share_group_state.v0.response import DeleteShareGroupStateResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share_states.answering import answer


def handle(
    services: Services, _request: Request, message: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse | Coroutine[Any, Any, DeleteShareGroupStateResponse]:
    """Ask the coordinators of this node."""
    found: DeleteShareGroupStateResponse | Coroutine[Any, Any, DeleteShareGroupStateResponse]
    found = answer(services.share_states, message)
    return found
