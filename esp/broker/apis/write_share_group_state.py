"""WriteShareGroupState (85), versions 0-1: leaders change the states of share partitions (SHARE-21).

Version 1 says how many records behind the start are done with; before it that is not known.
"""

from collections.abc import Coroutine
from typing import Any

from kio.schema.write_share_group_state.v1.request import WriteShareGroupStateRequest
from kio.schema.write_share_group_state.v1.response import WriteShareGroupStateResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share_states.answering import answer


def handle(
    services: Services, _request: Request, message: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse | Coroutine[Any, Any, WriteShareGroupStateResponse]:
    """Ask the coordinators of this node."""
    found: WriteShareGroupStateResponse | Coroutine[Any, Any, WriteShareGroupStateResponse]
    found = answer(services.share_states, message)
    return found
