"""Requests about the states of share partitions that come over the wire, answered by the coordinators of this node."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from esp.broker.share_states.coordinators import ShareCoordinators
from esp.broker.share_states.messages import build_response, kind_of, read_request_message
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.requests import Refused, Request, Result

_Asked = Sequence[tuple[ShareStateKey, Refused | asyncio.Future[Result]]]


def answer(coordinators: ShareCoordinators, message: Any) -> Any | Coroutine[Any, Any, Any]:
    """The answer to a message, from memory if nothing has to be written; each share partition is asked about in the message's order.

    A message that names no group is about no share partition, and is answered without any, as by Kafka.
    """
    if not message.group_id:
        return build_response(kind_of(message), ())
    asked = [
        (key, request if isinstance(request, Refused) else coordinators.ask(request))
        for key, request in read_request_message(message)
    ]
    waits = any(isinstance(each, asyncio.Future) and not each.done() for _, each in asked)
    return _later(kind_of(message), asked) if waits else build_response(kind_of(message), _results(asked))


async def _later(kind: type[Request], asked: _Asked) -> Any:
    for _, each in asked:
        if isinstance(each, asyncio.Future):
            await each
    return build_response(kind, _results(asked))


def _results(asked: _Asked) -> list[tuple[ShareStateKey, Result]]:
    return [(key, each.result() if isinstance(each, asyncio.Future) else each) for key, each in asked]
