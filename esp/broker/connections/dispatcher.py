"""From a request's API key and version to its handler: the dispatch of requests on one kind of listener.

This is the contract of all handlers. Each API has a module in :mod:`esp.broker.apis`, with *cold* handlers: ``handle`` for the listeners
of brokers, ``handle_at_controller`` for those of controllers. Produce and Fetch have *hot* ones for brokers.

A cold handler gets the services of its kind of listener (:class:`~esp.broker.services.Services` or
:class:`~esp.broker.controller.services.ControllerServices`), the request and the decoded message. It returns the message that answers it,
or, called the same way,

* a coroutine that returns that message, if it has to wait: the handler is a coroutine function;
* a generator that returns it and yields after each slice of its work, if the answer may be long and cannot be divided by dividing the
  request (:mod:`esp.broker.turns.request_parts`): unless the connection is held, nothing is changed after the first slice;
* a coroutine that returns such a generator;
* while the connection is held, a generator that returns such a coroutine, if what has to be done before the connection's next request may
  take long.

Coroutines and generators are those of functions: to ask for the abstract types takes several times as long, for each request.

A handler that has answered at once may offer that its answer is kept for requests that are the same (:mod:`esp.broker.kept_answer`).

In any of these forms it raises ApiError to refuse the whole request. Every request that it sees wants an answer. Its module is imported on
first use, so that a node starts without it (:mod:`esp.broker.warm_up` comes later).

A hot handler gets the request and the bytes of its body, since its codec is its own. It returns the buffers of the answer; or LATER,
having seen to it that :meth:`~esp.broker.request.Request.reply` is called exactly once, if need be before the handler returns; or NEVER,
for a request that wants no answer. It raises DecodeError to end the connection. What must be done before the connection's next request is
done before the handler returns, or the connection is held (:class:`~esp.broker.request.ConnectionHold`).

A session gets of :meth:`Dispatcher.dispatch` what a hot handler returns, whichever kind of handler answers.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from functools import partial
from types import CoroutineType, GeneratorType
from typing import Any, Final, Protocol

from esp.broker.kept_answer import keep_answer
from esp.broker.request import LATER, NEVER, Answer, ClientContext, Request
from esp.broker.tasks import Tasks
from esp.broker.turns.long_requests import SHORT_BYTES, LongRequests, done, refuse_unreadable
from esp.broker.turns.turns import Turns
from esp.model.errors import ApiError, ErrorCode
from esp.ports.clock import Clock
from esp.ports.network import Address
from esp.protocol import messages
from esp.protocol.error_responses import error_response, error_response_in_slices
from esp.protocol.errors import DecodeError, UnwritableError
from esp.protocol.headers import RequestHeader
from esp.protocol.progress import begin
from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind

log = logging.getLogger(__name__)

HotHandler = Callable[[Request, memoryview], Answer]
ColdHandler = Callable[[Any, Request, Any], Any]

_HANDLERS: Final = {ListenerKind.BROKER: "handle", ListenerKind.CONTROLLER: "handle_at_controller"}
"""The function of an API's module that answers on each kind of listener."""


_NOT_OFFERED: Final = ApiError(ErrorCode.unsupported_version, "The version of API is not supported.")


class Gate(Protocol):
    """Lets requests through as far as their clients may make them; see :mod:`esp.broker.authorization.gate`."""

    def handle(self, request: Request, message: Any, handle: Callable[[Any], Any]) -> Any:
        """Return what ``handle`` returns for as much of the message as is allowed, with the refusals of the rest.

        Raises:
            ApiError: nothing of it is allowed; or the handler's.
        """

    def rules_version(self) -> int:
        """A number that changes with the rules."""


class Dispatcher:
    """Knows the handlers of all APIs that one kind of listener serves.

    An API of a feature that the cluster does not have is refused here, whatever its handler would say.

    Args:
        kind: of the listeners.
        services: what their cold handlers work with, if that is known already; see :meth:`provide`.
        tasks: where handlers that wait live.
        clock: the node's.
        hot: the handlers that get bytes, by API.
    """

    def __init__(
        self, kind: ListenerKind, services: Any, tasks: Tasks, clock: Clock, hot: Mapping[int, HotHandler] | None = None
    ) -> None:
        self.served = SERVED_ON[kind]
        self._of_features = frozenset(key for key, api in self.served.items() if api.feature is not None)
        self._levels: Callable[[], Mapping[str, int]] = dict
        self._handler = _HANDLERS[kind]
        self._services = services
        self._tasks = tasks
        self._hot: dict[int, HotHandler] = {**(hot or {})}
        self._cold: dict[int, ColdHandler] = {}
        self.turns = Turns(clock)
        """The turns of long work for the clients of these listeners."""
        self.long_requests = LongRequests(tasks, self.turns, self._handle)
        """Handles requests that may take long; hot handlers, which are not called through it, take turns with them."""
        self._gate: Gate | None = None
        self._this_node = ClientContext("", Address("", 0), is_this_node=True)

    def provide(
        self,
        services: Any,
        hot: Mapping[int, HotHandler] | None = None,
        gate: Gate | None = None,
        levels: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Say what the handlers work with, before the first request comes.

        Args:
            services: what cold handlers get.
            hot: the handlers that get bytes, by API; they check themselves what their clients may do.
            gate: checks what clients may do before a cold handler sees a request; None where everything is allowed.
            levels: returns the levels of features that the cluster works at; hot handlers do without it.
        """
        self._services = services
        self._hot = {**(hot or {})}
        self._gate = gate
        self._levels = levels

    def preparations(self) -> Iterator[Callable[[], object]]:
        """The work that first requests would do otherwise, in steps of some milliseconds: import handlers, make readers and writers."""
        for api_key, api in self.served.items():
            if api_key in self._hot or not api.is_offered(self._levels()):
                continue
            for version in range(api.min_version, api.max_version + 1):
                yield partial(messages.prepare_to_serve, api_key, version)
            yield partial(self._load, api_key)  # what it imports of messages is there by now

    def dispatch(self, request: Request, body: memoryview) -> Answer:
        """Return the answer's buffers, or whether it comes later or never.

        Raises:
            DecodeError: the body is none of that API and version, or the version has no room for the answer; the connection ends, as Kafka
                ends it.
        """
        hot = self._hot.get(request.api_key)
        if hot is not None:
            return hot(request, body)
        api_key, version = request.api_key, request.api_version
        if not self.served[api_key].serves(version):  # only ApiVersions comes this far
            return (messages.encode_unsupported_api_versions(request.correlation_id),)
        if len(body) > SHORT_BYTES:
            self.long_requests.begin(request, body)
            return LATER
        if not self.turns.has_time():
            request.client.hold.begin()
            self.turns.put_off(partial(self._answer_later, request, body))
            return LATER
        return self._answer(request, body)

    def _answer_later(self, request: Request, body: memoryview) -> None:
        """Answer a short request that was put off, whose body is where it was received, as its connection has been held."""
        if request.is_abandoned:
            return
        hold = request.client.hold
        hold.is_held = False  # for handlers, which treat requests of a held connection in another way; the next request still waits
        try:
            # The client's log-in may have ended since the request was put off.
            answer = self._answer(request, body, may_be_kept=False)
        except DecodeError as error:
            hold.end(str(error))
            return
        if answer is not LATER and answer is not NEVER:
            request.reply(answer)
        if not hold.is_held:  # else the handler ends that
            hold.end()

    def _answer(self, request: Request, body: memoryview, *, may_be_kept: bool = True) -> Answer:
        """See :meth:`dispatch`; for a short request, at once."""
        api_key, version = request.api_key, request.api_version
        answer: Any
        try:
            message = messages.decode_request(api_key, version, body)
        except DecodeError:
            answer = refuse_unreadable(request)
            if answer is None:
                raise
        else:
            answer = self._handle(request, message)
        if isinstance(answer, CoroutineType):
            self._tasks.start(self._finish(request, answer), name=self.served[api_key].name, for_request=True)
            return LATER
        if isinstance(answer, GeneratorType):
            answer = begin(answer)
            if isinstance(answer, GeneratorType):
                self.long_requests.go_on(request, answer)
                return LATER
        encoded = messages.encode_response(api_key, version, request.correlation_id, answer)
        if request.repeat is not None and may_be_kept:
            keep_answer(request, body, encoded, self._terms_of(api_key))
        return (encoded,)

    async def call(
        self,
        api_key: ApiKey,
        message: Any,
        *,
        client_id: str | None,
        client: ClientContext | None = None,
        version: int | None = None,
    ) -> Any:
        """Answer a request of this node's own, or of a client on whose behalf it asks.

        Messages are instances of a version's classes, the newest if it is None, as they would come over the wire. The handler runs to its
        end also when the caller gives up.
        """
        api = self.served[api_key]
        request = Request(
            api_key,
            api.max_version if version is None else version,
            0,
            client_id,
            client or self._this_node,
            _nobody_waits,
        )
        answer = done(self._handle(request, message))
        if not isinstance(answer, CoroutineType):
            return answer
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._tasks.start(_settle(future, answer), name=api.name)
        return await future

    async def answer_enclosed(self, header: RequestHeader, body: memoryview, client: ClientContext) -> bytes:
        """The answer to a request that came within another one, which has passed the gate for itself: header and body, without a length.

        Args:
            header: the header.
            body: the bytes behind it.
            client: the client that has sent the enclosed request.

        Raises:
            DecodeError: the body is none of that API and version, or the version has no room for the answer.
        """
        request = Request(*header[:4], client, _nobody_waits)
        key, version = request.api_key, request.api_version
        message = await self.turns.run(messages.decode_request_in_slices(key, version, body))
        answer = self._handle(request, message)
        if isinstance(answer, CoroutineType):
            answer = await answer
        if isinstance(answer, GeneratorType):
            answer = await self.turns.run(answer)
        encoding = messages.encode_response_in_slices(key, version, request.correlation_id, answer)
        return b"".join(await self.turns.run(encoding))[messages.LENGTH_BYTES :]

    def _handle(self, request: Request, message: Any) -> Any:
        """The handler's answer, or the coroutine that makes it, or the generator that does so in slices."""
        if request.api_key in self._of_features and not self.served[request.api_key].is_offered(self._levels()):
            return error_response_in_slices(request.api_key, request.api_version, message, _NOT_OFFERED)
        handler = self._cold.get(request.api_key) or self._load(request.api_key)
        gate = self._gate
        try:
            if gate is None or request.client.is_this_node:
                answer = handler(self._services, request, message)
            else:
                answer = gate.handle(request, message, partial(handler, self._services, request))
        except ApiError as error:
            return error_response_in_slices(request.api_key, request.api_version, message, error)
        if isinstance(answer, CoroutineType):
            return _awaited(request, message, answer)
        return _in_slices(request, message, answer) if isinstance(answer, GeneratorType) else answer

    async def _finish(self, request: Request, answer: Coroutine[Any, Any, Any]) -> None:
        message = await answer
        if isinstance(message, GeneratorType):
            message = begin(message)
            if isinstance(message, GeneratorType):
                self.long_requests.go_on(request, message)
                return
        try:
            frame = messages.encode_response(request.api_key, request.api_version, request.correlation_id, message)
        except UnwritableError as error:
            request.client.hold.end(str(error))
        else:
            request.reply((frame,))

    def _terms_of(self, api_key: int) -> Callable[[], object]:
        """Return the function that says on what terms clients may use an API: the rules of access, and whether the cluster offers it."""
        rules_version = _no_rules if self._gate is None else self._gate.rules_version
        if api_key not in self._of_features:
            return rules_version
        api, levels = self.served[api_key], self._levels
        return lambda: (rules_version(), api.is_offered(levels()))

    def _load(self, api_key: int) -> ColdHandler:
        module = importlib.import_module(f"esp.broker.apis.{self.served[api_key].key.name.lower()}")
        handler: ColdHandler = getattr(module, self._handler)
        self._cold[api_key] = handler
        return handler


MakeDispatcher = Callable[[ListenerKind, Any, Tasks, Clock], Dispatcher]
"""Makes a dispatcher, whose arguments these are."""


async def _awaited(request: Request, message: Any, answer: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await answer
    except ApiError as error:
        return error_response(request.api_key, request.api_version, message, error)


def _in_slices(request: Request, message: Any, answer: Generator[None, None, Any]) -> Generator[None, None, Any]:
    try:
        found = yield from answer
    except ApiError as error:
        return (yield from error_response_in_slices(request.api_key, request.api_version, message, error))
    return _awaited(request, message, found) if isinstance(found, CoroutineType) else found


async def _settle(future: asyncio.Future[Any], answer: Coroutine[Any, Any, Any]) -> None:
    try:
        message = done(await answer)
    except asyncio.CancelledError:
        future.cancel()
        raise
    if not future.done():
        future.set_result(message)


def _no_rules() -> int:
    """The version of the rules where everything is allowed."""
    return 0


def _nobody_waits(_at_once: bool) -> None:
    """A request of this node's own is answered by its handler's return."""
