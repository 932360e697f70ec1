"""Answers requests that may take long on the loop: read, handled and answered in slices, in turns with others of their kind.

Kafka has threads for that. Here a request of more than a few hundred bytes, of which some name a hundred thousand things, waits for its
turn before each slice (:mod:`esp.broker.turns.turns`); its connection is held until all of it is handled, so that nothing overtakes
it. A decoded request takes far more memory than its bytes, so only a limited number of them is worked at. A request that only waits for
other clients, as the members of a group do for one another, does not count among these.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final

from esp.broker.request import Request
from esp.broker.tasks import Tasks
from esp.broker.turns.request_memory import FREE_BYTES, RequestMemory
from esp.broker.turns.request_parts import JoinedAnswer, Part, lists_of, split
from esp.broker.turns.turns import Turns
from esp.protocol import messages
from esp.protocol.errors import DecodeError, UnwritableError
from esp.protocol.progress import SlicedWork, whole
from esp.protocol.registry import ApiKey

SHORT_BYTES: Final = 256
"""Bodies up to this size are handled at once: they name fewer than a hundred things, most of them a few."""

WORKED_AT_BYTES: Final = 1024 * 1024
"""Bytes of the bodies that are worked at, together; a larger body is worked at alone."""

LONG_ANSWER_BYTES: Final = WORKED_AT_BYTES // 8
"""The bytes that the long answer of a short request counts for there."""

Handle = Callable[[Request, Any], Any]
"""Returns a decoded request's answer, or the coroutine that makes it, or the generator that does so in slices."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Answers one request, and ends the hold of its connection."""


def done(answer: Any) -> Any:
    """An answer, or what a generator makes of a short request without others having their turn."""
    return whole(answer) if isinstance(answer, Generator) else answer


def refuse_unreadable(request: Request) -> Coroutine[Any, Any, Any] | None:
    """Return the answer to a request whose body cannot be read; None if its connection ends without one, as is the rule.

    A log-in that cannot be read is answered as a failure, also where it renews another one (AUTHN-6).
    """
    log_in = request.client.sasl
    return log_in.refuse_unreadable() if log_in is not None and request.api_key == ApiKey.SASL_AUTHENTICATE else None


class LongRequests:
    """Works at all long requests of one kind of listener.

    Args:
        tasks: the tasks in which its coroutines run.
        turns: gives requests their turns.
        handle: handles a message, or a part of one.
    """

    def __init__(self, tasks: Tasks, turns: Turns, handle: Handle) -> None:
        self.turns = turns
        self._tasks = tasks
        self._handle = handle
        self._memory = RequestMemory(WORKED_AT_BYTES)

    @property
    def worked_at_bytes(self) -> int:
        """The bytes of the bodies of requests that are worked at now."""
        return self._memory.taken_bytes

    def begin(self, request: Request, body: memoryview) -> None:
        """Answer a request, later. Its body stays where it was received: a connection that is held receives nothing."""
        room = _Room(self._memory, len(body))
        long = _LongRequest(self.turns, self._handle, request, room)
        self._begin(request, room, partial(long.answer, body))

    def work(self, request: Request, size: int, do: Work) -> None:
        """Do long work for a request with a body of ``size`` bytes, within what memory there is.

        Its connection is held, until ``do`` ends that.
        """
        self._begin(request, _Room(self._memory, size), do)

    def go_on(self, request: Request, answer: SlicedWork[Any]) -> None:
        """Answer a short request later, with what the rest of ``answer`` returns: it changes nothing, so its connection is not held."""
        room = _Room(self._memory, LONG_ANSWER_BYTES)
        self._tasks.start(_within(room, partial(self._finish, request, answer)), name="long answer", for_request=True)

    def _begin(self, request: Request, room: "_Room", do: Work) -> None:
        request.client.hold.begin()
        self._tasks.start(_within(room, do), name="long request", for_request=True)

    async def _finish(self, request: Request, answer: SlicedWork[Any]) -> None:
        if request.is_abandoned:
            return
        message = await self.turns.run(answer)
        await _reply(self.turns, request, message)


class _Room:
    """One request's share of the memory for requests that are worked at."""

    def __init__(self, memory: RequestMemory, size: int) -> None:
        self.size = size
        self._memory = memory
        self._is_taken = False

    async def take(self) -> None:
        """Return when there is room, and it has been taken."""
        has_room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._memory.take(self.size, lambda: None if has_room.done() else has_room.set_result(None)):
            await has_room
        self._is_taken = True

    def give_back(self) -> None:
        """The request is worked at no more; does nothing a second time."""
        if self._is_taken:
            self._is_taken = False
            self._memory.give_back(self.size)


async def _within(room: _Room, do: Work) -> None:
    await room.take()
    try:
        await do()
    finally:
        room.give_back()


class _LongRequest:
    """One of them. If its client goes away it is finished all the same, as by Kafka, unless it is large or has not been begun."""

    def __init__(self, turns: Turns, handle: Handle, request: Request, room: _Room) -> None:
        self._turns = turns
        self._handle = handle
        self._request = request
        self._room = room
        self._is_large = room.size > FREE_BYTES

    async def answer(self, body: memoryview) -> None:
        """Do all of it."""
        if not self._request.is_abandoned:
            await self._answer(body)

    async def _answer(self, body: memoryview) -> None:
        request = self._request
        try:
            message = await self._turns.run(
                messages.decode_request_in_slices(request.api_key, request.api_version, body)
            )
        except DecodeError as error:
            refusal = refuse_unreadable(request)
            if refusal is None:
                request.client.hold.end(str(error))
                return
            self._let_go_on(refusal)
            self._room.give_back()  # the refusal is delayed
            answer = await refusal
        else:
            answer = await self._answer_in_parts(message)
        await _reply(self._turns, request, answer)

    async def _answer_in_parts(self, message: Any) -> Any:
        """The answer; the connection's next requests are handled as soon as all parts have been begun, as after any other request."""
        request = self._request
        lists = lists_of(request.api_key, message)
        if lists is None:
            await self._turns.wait()
            answer = await self._in_slices(self._handle(request, message))
            self._let_go_on(answer)
            if isinstance(answer, Coroutine):
                self._room.give_back()  # a request that waits for a group's other members may wait for requests that need this room
                answer = await self._in_slices(await answer)
            return answer
        joined = JoinedAnswer(lists)
        parts = split(message, lists)
        part: Part | None = next(parts)
        while part is not None:
            await self._turns.wait()
            if request.is_abandoned and self._is_large:
                return None
            answer = await self._in_slices(self._handle(request, part.message))
            following = next(parts, None)
            if following is None:
                self._let_go_on(answer)
            if isinstance(answer, Coroutine):
                answer = await self._in_slices(await answer)
            if not joined.add(part, answer) and following is not None:
                request.client.hold.end()
                break
            part = following
        return joined.result()

    async def _in_slices(self, answer: Any) -> Any:
        """An answer, or what a generator makes of it in slices."""
        return await self._turns.run(answer) if isinstance(answer, Generator) else answer

    def _let_go_on(self, answer: Any) -> None:
        """Let the connection's next requests be handled; should one of them end the node, an answer that is still to be made is dropped."""
        try:
            self._request.client.hold.end()
        except BaseException:
            if isinstance(answer, Coroutine):
                answer.close()
            raise


async def _reply(turns: Turns, request: Request, answer: Any) -> None:
    """Answer a request, or end its connection if its version has no room for the answer."""
    if request.is_abandoned:
        return
    encoding = messages.encode_response_in_slices(request.api_key, request.api_version, request.correlation_id, answer)
    try:
        frame = await turns.run(encoding)
    except UnwritableError as error:
        request.client.hold.end(str(error))
    else:
        request.reply(frame)
