"""From a request's API key and version to its handler.

Produce and Fetch get the body's bytes: their codecs are their own. All other handlers get a decoded message and return one; their
modules are imported on first use, so that a node starts without them. A handler that has to wait is a coroutine function.
"""

import importlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.tasks import Tasks
from esp.ports.network import Buffer
from esp.protocol import messages
from esp.protocol.registry import SERVED, ApiKey

log = logging.getLogger(__name__)

HotHandler = Callable[[Request, memoryview], Sequence[Buffer] | None]
ColdHandler = Callable[[Services, Request, Any], Any]


class Dispatcher:
    """Knows the handlers of all served APIs.

    Args:
        services: what handlers work with.
        tasks: where handlers that wait live.
        produce: handler of Produce.
        fetch: handler of Fetch.
    """

    def __init__(self, services: Services, tasks: Tasks, produce: HotHandler, fetch: HotHandler) -> None:
        self._services = services
        self._tasks = tasks
        self._hot: dict[int, HotHandler] = {ApiKey.PRODUCE: produce, ApiKey.FETCH: fetch}
        self._cold: dict[int, ColdHandler] = {}

    def dispatch(self, request: Request, body: memoryview) -> Sequence[Buffer] | None:
        """Return the answer's buffers, NO_REPLY if there is none to send, or None if the request will be answered later.

        Raises:
            DecodeError: the body is none of that API and version; the connection ends, as Kafka ends it.
        """
        hot = self._hot.get(request.api_key)
        if hot is not None:
            return hot(request, body)
        served = SERVED[request.api_key]
        if not served.serves(request.api_version):  # only ApiVersions comes this far
            return (messages.encode_unsupported_api_versions(request.correlation_id),)
        handler = self._cold.get(request.api_key) or self._load(request.api_key)
        message = messages.decode_request(request.api_key, request.api_version, body)
        answer = handler(self._services, request, message)
        if isinstance(answer, Coroutine):
            self._tasks.start(self._finish(request, answer), name=served.name)
            return None
        return (messages.encode_response(request.api_key, request.api_version, request.correlation_id, answer),)

    async def _finish(self, request: Request, answer: Coroutine[Any, Any, Any]) -> None:
        message = await answer
        request.reply(
            (messages.encode_response(request.api_key, request.api_version, request.correlation_id, message),)
        )

    def _load(self, api_key: int) -> ColdHandler:
        module = importlib.import_module(f"esp.broker.handlers.{SERVED[api_key].key.name.lower()}")
        handler: ColdHandler = module.handle
        self._cold[api_key] = handler
        return handler
