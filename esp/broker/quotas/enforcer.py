"""Quotas in force at a node: each request of a client is counted, and its answer says for how long the client is throttled (KIP-219).

The work is done and answered at once; then the connection is read no further until the throttle ends. So a client that ignores throttle
times is held as well, and costs nothing meanwhile. Quotas that change let every muted connection go on: what counts is what they say now.

Brokers among themselves are not throttled, nor is what a node asks of itself.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from types import coroutine as awaitable
from typing import Any, Final

from esp.broker.quotas.client_meter import ClientMeter
from esp.broker.quotas.held_clients import HeldClient, find_held
from esp.broker.quotas.uses import QuotaUses
from esp.broker.request import LATER, Answer, ClientContext, Request, Unanswered
from esp.broker.shortcut_counter import ShortcutCounter
from esp.broker.tasks import Tasks
from esp.model.buffers import Buffer
from esp.model.client_quotas import QuotaEntity
from esp.ports.clock import Clock
from esp.protocol.registry import ApiKey
from esp.protocol.throttle_time import with_throttle_time
from esp.settings.broker import BrokerSettings

_OF_BROKERS: Final[Mapping[int, int]] = {
    ApiKey.WRITE_TXN_MARKERS: 0,
    ApiKey.ADD_PARTITIONS_TO_TXN: 4,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE: 0,
    ApiKey.WRITE_SHARE_GROUP_STATE: 0,
    ApiKey.DELETE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 0,
}
"""The APIs that brokers ask of one another, with the version from which on they do."""

_NO_VERSION: Final = 1 << 15

Dispatch = Callable[[Request, memoryview], Answer]


class QuotaEnforcer:
    """Holds every request of a node's clients against their quotas.

    Args:
        clock: the node's.
        settings: the node's own.
        tasks: those that handlers start.
        clients: returns the clients that are connected.
    """

    def __init__(
        self,
        clock: Clock,
        settings: BrokerSettings,
        tasks: Tasks,
        clients: Callable[[], Iterable[ClientContext]],
    ) -> None:
        self._now_us = clock.monotonic_us
        self._tasks = tasks
        self._clients = clients
        self.uses = QuotaUses(clock, settings, self._drop_shortcuts)
        """The use that clients make of their quotas."""

    def change(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Put other quotas in force for all that is asked from now on (QUOTA-1)."""
        self.uses.change(quotas)
        self._drop_shortcuts()
        for client in self._clients():
            client.hold.unmute()

    def _drop_shortcuts(self) -> None:
        """Let the next request of each connection go the ordinary way, on which its quotas are looked up."""
        for client in self._clients():
            client.shortcut = None
            _count_repeated(client, None)

    def find_held(self) -> Generator[None, None, list[HeldClient]]:
        """As :func:`~esp.broker.quotas.held_clients.find_held`."""
        return find_held(self.uses, self._clients())

    def admits_connection(self, address: str) -> bool:
        """True if an address may open a connection now; it is counted."""
        return self.uses.admits_connection(address)

    def handle(self, request: Request, size: int, body: memoryview, dispatch: Dispatch) -> Answer:
        """Have a request of ``size`` bytes handled, and count it.

        Raises:
            DecodeError: the bytes make no sense.
        """
        client = request.client
        meter = client.meter
        if (
            not isinstance(meter, ClientMeter)
            or meter.client_id != request.client_id
            or meter.principal != client.principal
        ):
            meter = client.meter = ClientMeter(self.uses, client, request.client_id)
            client.shortcut = None  # it is for requests of another client id
        elif meter.version != self.uses.version:
            meter.resolve()
        if not meter.is_limited or client.is_broker:
            _count_repeated(client, None)
            return dispatch(request, body)
        return self._handle_limited(request, size, body, dispatch, meter)

    def _handle_limited(
        self, request: Request, size: int, body: memoryview, dispatch: Dispatch, meter: ClientMeter
    ) -> Answer:
        client = request.client
        began_us = self._now_us()
        if meter.counts_time:
            self._tasks.around = lambda started: _counted(started, meter, self._now_us)
        try:
            answer = dispatch(request, body)
        finally:
            self._tasks.around = None
        if client.is_broker or request.api_version >= _OF_BROKERS.get(request.api_key, _NO_VERSION):
            return answer
        if client.shortcut is not None:
            client.counter = client.counter or ShortcutCounter(self._now_us)
            _count_repeated(client, meter)
        now_us = self._now_us()
        throttle_ms = meter.charge(request.api_key, size, now_us - began_us, now_us)
        if answer is LATER and request.answer is None:
            request.on_answer(lambda later: self._tell_later(request, later))
        elif throttle_ms and answer is LATER:
            assert request.answer is not None, "it was answered before its handler returned"
            request.answer = self._told(request, request.answer, throttle_ms)
        elif throttle_ms and not isinstance(answer, Unanswered):
            return self._told(request, answer, throttle_ms)
        return answer

    def _tell_later(self, request: Request, answer: Sequence[Buffer]) -> None:
        """Tell with a later answer for how long its connection is still muted."""
        left_us = request.client.hold.muted_until_us - self._now_us()
        if left_us > 0:
            request.answer = self._told(request, answer, -(-left_us // 1000))

    def _told(self, request: Request, answer: Sequence[Buffer], throttle_ms: int) -> Sequence[Buffer]:
        head, *rest = answer
        return (with_throttle_time(request.api_key, request.api_version, head, throttle_ms), *rest)


def _count_repeated(client: ClientContext, meter: ClientMeter | None) -> None:
    """Let what the shortcut of a connection answers be counted by a meter, or by none."""
    if client.counter is not None:
        client.counter.meter = meter


def _counted(
    started: Coroutine[Any, Any, None], meter: ClientMeter, now_us: Callable[[], int]
) -> Coroutine[Any, Any, None]:
    """A coroutine that does the same, and counts the time of each of its steps."""

    async def counted() -> None:
        await _steps(started, meter, now_us)

    return counted()


@awaitable
def _steps(
    started: Coroutine[Any, Any, None], meter: ClientMeter, now_us: Callable[[], int]
) -> Generator[Any, Any, None]:
    result: Any = None
    error: BaseException | None = None
    while True:
        began_us = now_us()
        try:
            awaited = started.send(result) if error is None else started.throw(error)
        except StopIteration:
            return
        finally:
            meter.spend(now_us() - began_us)
        try:
            result, error = (yield awaited), None
        except BaseException as thrown:
            result, error = None, thrown
