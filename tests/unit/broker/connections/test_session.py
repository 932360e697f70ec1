"""A session between a connection and a dispatcher that the test plays."""

import gc
import struct
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.connections.session import MAX_HELD_BUFFERS, MAX_PARKED_REQUESTS, MAX_REQUESTS_PER_TURN, Session
from esp.broker.request import LATER, NEVER, ClientContext, Excess, Request
from esp.broker.turns.request_memory import FREE_BYTES, NO_LIMIT, RequestMemory
from esp.model.client_quotas import client_alone
from esp.ports.network import TURN_US, Address
from esp.protocol.errors import DecodeError
from esp.protocol.registry import SERVED, SERVED_ON, ApiKey, ListenerKind

METADATA = 3
EXCESS = Excess("producer_byte_rate", client_alone("c"), "ANONYMOUS", "c")


def frame(correlation_id: int, *, api_key=METADATA, version=1, body=b"") -> bytes:
    content = struct.pack(">hhih", api_key, version, correlation_id, -1) + body
    return struct.pack(">i", len(content)) + content


class PlayedConnection:
    peer = Address("127.0.0.1", 5)

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.expected: list[int] = []
        self.reading = True
        self.ended = False
        self.turn_us = TURN_US

    def write(self, buffers: Sequence) -> None:
        self.written.extend(map(bytes, buffers))

    def expect(self, length: int) -> None:
        self.expected.append(length)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True


class PlayedDispatcher:
    """Answers with the correlation id, unless the test wants a request parked or refused."""

    def __init__(self) -> None:
        self.parked: dict[int, Request] = {}
        self.to_park: set[int] = set()
        self.silent: set[int] = set()
        self.seen: list[int] = []
        self.served = SERVED
        self.answer: tuple[bytes, ...] = ()

    def dispatch(self, request: Request, body: memoryview):
        self.seen.append(request.correlation_id)
        if bytes(body) == b"bad":
            raise DecodeError("bad body")
        if request.correlation_id in self.to_park:
            self.parked[request.correlation_id] = request
            return LATER
        if request.correlation_id in self.silent:
            return NEVER
        return self.answer or (b"%d;" % request.correlation_id,)


class Played:
    def __init__(self, max_frame_bytes=1000, memory=None, dispatcher=None) -> None:
        self.connection = PlayedConnection()
        self.dispatcher = dispatcher or PlayedDispatcher()
        self.ended: list[Session] = []
        client = ClientContext("PLAINTEXT", self.connection.peer)
        self.turns: list[Callable[[], None]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.dispatcher.turns = self
        memory = memory or RequestMemory(NO_LIMIT)
        self.session = Session(
            self.connection, client, self.dispatcher, self, max_frame_bytes, memory, self.ended.append
        )
        self.untaken = b""
        self.now_us = 1
        self.request_us = 0
        """What each request takes."""

    def monotonic_us(self) -> int:
        """The clock: it moves when it is asked, which is once for each request before another one."""
        self.now_us += self.request_us
        return self.now_us

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> None:
        """The clock, of which only the next turn is asked."""
        if delay_us:
            self.timers.append((self.now_us + delay_us, callback))
            return SimpleNamespace(cancel=self.timers.clear)
        self.call(callback)
        return None

    def call(self, callback: Callable[[], None]) -> None:
        """The turns of connections that rest."""
        self.turns.append(callback)

    def turn(self) -> None:
        turns, self.turns = self.turns, []
        for callback in turns:
            callback()

    def receive_all(self, data: bytes) -> None:
        """As much of it as the session takes, in as many turns as that needs."""
        self.receive(data)
        while self.turns and not self.connection.ended:
            self.turn()
            self.receive(b"")

    def receive(self, data: bytes) -> None:
        self.untaken += data
        taken = self.session.on_bytes(memoryview(bytearray(self.untaken)))
        self.untaken = self.untaken[taken:]

    @property
    def answers(self) -> bytes:
        return b"".join(self.connection.written)


@given(st.integers(1, 3 * MAX_REQUESTS_PER_TURN), st.lists(st.integers(1, 20), max_size=40))
def test_requests_are_answered_in_order_however_the_bytes_are_split(count, sizes):
    played = Played()
    data = b"".join(frame(number) for number in range(count))
    for size in sizes:
        played.receive_all(data[:size])
        data = data[size:]
    played.receive_all(data)
    assert played.answers == b"".join(b"%d;" % number for number in range(count))
    assert not played.connection.ended


def test_answers_of_one_read_leave_in_one_write():
    played = Played()
    writes = []
    played.connection.write = lambda buffers: writes.append(len(buffers))
    played.receive(frame(1) + frame(2) + frame(3))
    assert writes == [3]


class PlayedShortcut:
    """Answers requests of even numbers, of which it is shown one at a time."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def answer(self, frame):
        if struct.unpack_from(">i", frame)[0] != len(frame) - 4:
            return None
        (number,) = struct.unpack_from(">i", frame, 8)
        self.asked.append(number)
        return None if number % 2 else b"%d!" % number


class PlayedCounter:
    """Counts how often it is asked for a frame that is whole."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, shortcut, frame):
        answer = shortcut.answer(frame)
        self.asked += answer is not None
        return answer


def test_a_shortcut_is_asked_first_and_only_while_nothing_waits():
    played = Played()
    played.session.client.shortcut = shortcut = PlayedShortcut()
    played.receive(frame(1) + frame(2) + frame(4))
    played.receive(frame(6))
    assert played.answers == b"1;2!4!6!"
    assert played.dispatcher.seen == [1]
    played.dispatcher.to_park = {7}
    played.receive(frame(7) + frame(8))
    played.dispatcher.parked[7].reply((b"late;",))
    played.receive(frame(10))
    assert played.answers == b"1;2!4!6!late;8;10!"
    assert shortcut.asked == [1, 2, 4, 6, 7, 10]


def test_a_shortcut_is_asked_once_for_a_frame_that_comes_alone():
    played = Played()
    played.session.client.shortcut = shortcut = PlayedShortcut()
    played.receive(frame(1))
    played.receive(frame(2)[:9])
    played.receive(frame(2)[9:])
    assert (played.answers, shortcut.asked) == (b"1;2!", [1, 2])


def test_a_shortcut_is_asked_for_a_large_frame_that_comes_in_parts():
    memory = RequestMemory(NO_LIMIT)
    played = Played(max_frame_bytes=2 * FREE_BYTES, memory=memory)
    played.session.client.shortcut = shortcut = PlayedShortcut()
    large = frame(2, body=bytes(FREE_BYTES))
    for part in (large[:FREE_BYTES], large[FREE_BYTES:], frame(4)):
        played.receive(part)
    assert (played.answers, shortcut.asked, played.dispatcher.seen) == (b"2!4!", [2, 4], [])
    assert not memory.taken_bytes


def test_a_shortcut_is_asked_by_its_counter_alone_and_among_others():
    played = Played()
    played.session.client.shortcut = PlayedShortcut()
    played.session.client.counter = counter = PlayedCounter()
    played.receive(frame(2))
    played.receive(frame(4) + frame(6))
    assert (played.answers, counter.asked) == (b"2!4!6!", 3)


def test_a_shortcut_is_not_asked_for_a_frame_that_is_too_large():
    played = Played()
    played.session.client.shortcut = shortcut = PlayedShortcut()
    played.receive(frame(2, body=bytes(1000)))
    assert (shortcut.asked, played.connection.ended) == ([], True)


def test_what_a_shortcut_answers_does_not_overtake_an_answer_that_leaves_in_the_next_turn():
    played = Played()
    played.session.client.shortcut = PlayedShortcut()
    played.dispatcher.to_park = {1}
    played.receive(frame(1))
    played.dispatcher.parked[1].reply((b"1;",), at_once=False)
    played.receive(frame(2))
    assert played.answers.startswith(b"1;2")


@given(st.permutations(range(6)))
def test_answers_keep_the_order_of_requests_whoever_is_ready_first(order):
    played = Played()
    played.dispatcher.to_park = {0, 1, 2, 3, 5}
    played.receive(b"".join(frame(number) for number in range(6)))
    for number in order:
        if number in played.dispatcher.parked:
            played.dispatcher.parked[number].reply((b"%d;" % number,))
    assert played.answers == b"0;1;2;3;4;5;"


def test_answers_that_need_not_leave_at_once_leave_together_in_the_next_turn():
    played = Played()
    writes = []
    played.connection.write = lambda buffers: writes.append(b"".join(buffers))
    played.dispatcher.to_park = {0, 1, 2}
    played.receive(frame(0) + frame(1) + frame(2))
    for number in range(3):
        played.dispatcher.parked[number].reply((b"%d;" % number,), at_once=False)
    assert not writes
    played.turn()
    assert writes == [b"0;1;2;"]
    assert not played.turns


def test_an_answer_that_leaves_at_once_takes_along_what_waits_for_the_turn():
    played = Played()
    writes = []
    played.connection.write = lambda buffers: writes.append(b"".join(buffers))
    played.dispatcher.to_park = {0, 1}
    played.receive(frame(0) + frame(1))
    played.dispatcher.parked[0].reply((b"0;",), at_once=False)
    played.dispatcher.parked[1].reply((b"1;",))
    played.turn()
    assert writes == [b"0;1;"]


def test_a_request_without_answer_leaves_no_gap():
    played = Played()
    played.dispatcher.silent = {2}
    played.receive(frame(1) + frame(2) + frame(3))
    assert played.answers == b"1;3;"


def test_an_incomplete_frame_says_how_much_it_needs_and_costs_nobody_an_answer():
    played = Played()
    whole = frame(7, body=bytes(100))
    played.receive(frame(1) + whole[:30])
    assert played.connection.expected == [len(whole)]
    assert played.answers == b"1;"
    played.receive(whole[30:])
    assert played.answers == b"1;7;"


@pytest.mark.parametrize("length", [-1, 0, 7, 1001, 2**31 - 1, -(2**31)])
def test_a_frame_of_impossible_length_ends_the_connection(length):
    played = Played(max_frame_bytes=1000)
    played.receive(frame(1) + struct.pack(">i", length) + bytes(50))
    assert played.answers == b"1;"
    assert played.connection.ended


def test_tls_at_a_port_without_it_is_named_in_the_log(caplog):
    caplog.set_level("INFO")
    played = Played(max_frame_bytes=104_857_600)
    played.receive(bytes.fromhex("1603010200010001fc"))
    assert played.connection.ended
    (line,) = caplog.messages
    assert line == (
        "closing the connection of 127.0.0.1:5: it begins with TLS, which this listener does not speak; "
        "a client needs security.protocol=PLAINTEXT"
    )


@pytest.mark.parametrize(
    "bad", [frame(2, body=b"bad"), frame(2, api_key=4444), frame(2, version=99), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]
)
def test_what_cannot_be_read_ends_the_connection_after_the_answers_before_it(bad):
    played = Played(max_frame_bytes=2**31 - 1 if bad[:1] == b"\x00" else 1000)
    played.receive(frame(1) + bad + frame(3))
    assert played.answers == b"1;"
    assert played.connection.ended
    assert 3 not in played.dispatcher.seen


def test_reading_stops_while_too_many_requests_wait_and_nothing_is_lost():
    played = Played()
    played.dispatcher.to_park = set(range(MAX_PARKED_REQUESTS + 50))
    played.receive_all(b"".join(frame(number) for number in range(MAX_PARKED_REQUESTS + 50)))
    assert not played.connection.reading
    assert len(played.dispatcher.parked) == MAX_PARKED_REQUESTS
    played.dispatcher.parked[0].reply((b"x",))
    assert played.connection.reading
    played.receive(b"")
    assert len(played.dispatcher.parked) == MAX_PARKED_REQUESTS + 1


def test_a_client_that_does_not_take_its_answers_is_read_no_further():
    played = Played()
    played.session.on_writable(False)
    assert not played.connection.reading
    played.receive(frame(1))
    assert played.dispatcher.seen == []
    played.session.on_writable(True)
    played.receive(b"")
    assert played.answers == b"1;"


def test_a_client_that_asks_for_much_in_one_read_and_takes_nothing_is_noticed_within_the_read():
    played = Played()
    taken_by_the_network = played.connection.write

    def write(buffers):
        taken_by_the_network(buffers)
        played.session.on_writable(False)

    played.connection.write = write
    played.dispatcher.answer = (b";",) * (MAX_HELD_BUFFERS // 4)
    asked = 30
    played.receive(b"".join(frame(number) for number in range(asked)))
    assert len(played.dispatcher.seen) == 4
    while len(played.dispatcher.seen) < asked:
        played.session.on_writable(True)
        played.receive(b"")
    assert len(played.answers) == asked * MAX_HELD_BUFFERS // 4


def test_who_sends_much_at_once_lets_others_have_their_turn():
    played = Played()
    played.receive(b"".join(frame(number) for number in range(MAX_REQUESTS_PER_TURN + 1)))
    assert len(played.dispatcher.seen) == MAX_REQUESTS_PER_TURN
    assert not played.connection.reading
    played.turn()
    assert played.connection.reading
    played.receive(b"")
    assert len(played.dispatcher.seen) == MAX_REQUESTS_PER_TURN + 1


def test_who_sends_what_takes_long_has_its_turn_sooner():
    played = Played()
    played.request_us = 110
    played.receive(b"".join(frame(number) for number in range(MAX_REQUESTS_PER_TURN)))
    assert len(played.dispatcher.seen) == 3, "two after the first have taken their time"
    assert not played.connection.reading
    played.turn()
    played.receive(b"")
    assert len(played.dispatcher.seen) == 6


def test_who_sends_no_more_than_a_turn_is_read_on():
    played = Played()
    played.receive(b"".join(frame(number) for number in range(MAX_REQUESTS_PER_TURN)))
    assert played.connection.reading
    assert not played.turns


def test_what_an_ended_connection_held_is_free_at_once():
    """Megabytes may have arrived of a request that is never completed."""
    played = Played()
    played.receive(frame(1) + frame(2)[:-1])
    played.session.on_closed()
    connection = weakref.ref(played.connection)
    gc.collect()
    gc.disable()
    try:
        played.ended.clear()  # which would keep it, as would the clock
        played.session = played.connection = None
        assert connection() is None
    finally:
        gc.enable()


def test_answers_after_the_end_of_the_connection_go_nowhere():
    played = Played()
    played.dispatcher.to_park = {1}
    played.receive(frame(1))
    played.session.on_closed()
    played.dispatcher.parked[1].reply((b"late",))
    assert played.answers == b""
    assert played.ended == [played.session]


def test_who_keeps_a_request_is_told_that_its_connection_has_ended():
    played = Played()
    played.dispatcher.to_park = {1, 2, 3}
    played.receive(frame(1) + frame(2) + frame(3))
    abandoned = []
    played.dispatcher.parked[2].on_abandoned = lambda: abandoned.append(2)
    played.dispatcher.parked[3].on_abandoned = lambda: abandoned.append(3)
    played.session.on_closed()
    assert abandoned == [2, 3]
    assert all(request.is_abandoned for request in played.dispatcher.parked.values())


def test_who_wants_to_know_is_told_of_the_end_of_the_connection_in_order():
    played = Played()
    told = []
    played.session.client.at_end.extend([lambda: told.append(1), lambda: told.append(2)])
    played.receive(frame(1))
    assert not told
    played.session.on_closed()
    assert told == [1, 2]
    assert played.ended == [played.session]


def test_an_api_of_another_kind_of_listener_ends_the_connection():
    played = Played()
    played.session._served = SERVED_ON[ListenerKind.CONTROLLER]
    played.receive(frame(1, api_key=ApiKey.FETCH, version=4))
    assert played.answers == b"1;"
    played.receive(frame(2, api_key=METADATA))
    assert played.connection.ended
    assert played.dispatcher.seen == [1]


LARGE = b"x" * 20_000


def test_a_large_request_waits_until_there_is_memory_and_a_small_one_never_does():
    memory = RequestMemory(30_000)
    first, second, third = (Played(100_000, memory) for _ in range(3))
    first.receive(frame(1, body=LARGE)[:100])
    assert first.connection.expected == [len(frame(1, body=LARGE))]
    second.receive(frame(2, body=LARGE)[:100])
    assert second.connection.expected == []
    assert not second.connection.reading
    third.receive(frame(3))
    assert third.answers == b"3;"
    first.receive(frame(1, body=LARGE)[100:])
    assert first.answers == b"1;"
    assert second.connection.reading
    second.receive(b"")
    assert second.connection.expected == [len(frame(2, body=LARGE))]
    second.receive(frame(2, body=LARGE)[100:])
    assert second.answers == b"2;"
    assert memory.taken_bytes == 0


def test_whoever_leaves_gives_its_memory_to_the_next_and_its_place_in_the_queue_away():
    memory = RequestMemory(30_000)
    first, second, third = (Played(100_000, memory) for _ in range(3))
    for number, played in enumerate((first, second, third)):
        played.receive(frame(number, body=LARGE)[:100])
    second.session.on_closed()
    assert not third.connection.reading
    first.session.on_closed()
    assert third.connection.reading
    assert memory.taken_bytes == len(LARGE) + 10
    third.session.on_closed()
    assert memory.taken_bytes == 0


def test_memory_that_comes_does_not_resume_a_client_that_takes_no_answers():
    memory = RequestMemory(30_000)
    first, second = Played(100_000, memory), Played(100_000, memory)
    first.receive(frame(1, body=LARGE)[:100])
    second.receive(frame(2, body=LARGE)[:100])
    second.session.on_writable(False)
    first.session.on_closed()
    assert not second.connection.reading
    second.session.on_writable(True)
    assert second.connection.reading


def test_two_that_wait_for_the_same_memory_are_served_one_after_the_other():
    memory = RequestMemory(1)
    players = [Played(100_000, memory) for _ in range(4)]
    for number, played in enumerate(players):
        played.receive(frame(number, body=LARGE)[:100])
    for number, played in enumerate(players):
        assert [one.connection.reading for one in players[number:]] == [True] + [False] * (3 - number)
        played.receive(b"")
        assert memory.taken_bytes == len(LARGE) + 10
        played.receive(frame(number, body=LARGE)[100:])
        assert played.answers == b"%d;" % number


class HoldingDispatcher(PlayedDispatcher):
    """Lets some requests hold their connection."""

    def __init__(self) -> None:
        super().__init__()
        self.to_hold: set[int] = set()

    def dispatch(self, request: Request, body: memoryview):
        if request.correlation_id in self.to_hold:
            request.client.hold.begin()
        return super().dispatch(request, body)


def test_nothing_is_handled_while_the_connection_is_held():
    played = Played(dispatcher=HoldingDispatcher())
    played.dispatcher.to_hold = played.dispatcher.to_park = {1}
    played.receive(frame(0) + frame(1) + frame(2))
    assert played.dispatcher.seen == [0, 1]
    assert not played.connection.reading
    played.receive(frame(3))
    assert played.dispatcher.seen == [0, 1]
    played.dispatcher.parked[1].reply((b"1;",))
    played.session.client.hold.end()
    assert played.connection.reading
    played.receive(b"")
    assert played.dispatcher.seen == [0, 1, 2, 3]
    assert played.answers == b"0;1;2;3;"


def test_a_held_request_without_an_answer_can_end_the_connection():
    played = Played(dispatcher=HoldingDispatcher())
    played.dispatcher.to_hold = played.dispatcher.silent = {1}
    played.receive(frame(0) + frame(1) + frame(2))
    played.session.client.hold.end("refused")
    assert played.connection.ended
    assert played.dispatcher.seen == [0, 1]


def held_by_a_large_request(memory):
    """A connection whose request took memory because it came in parts."""
    played = Played(100_000, memory, HoldingDispatcher())
    played.dispatcher.to_hold = {1}
    large = frame(1, body=bytes(20_000))
    played.receive(large[:5000])
    played.receive(large[5000:])
    assert memory.taken_bytes == len(large) - 4
    return played


def test_a_connection_may_end_while_it_is_held():
    memory = RequestMemory(100_000)
    played = held_by_a_large_request(memory)
    played.session.on_closed()
    assert memory.taken_bytes == 0
    played.session.client.hold.end()
    assert memory.taken_bytes == 0


def test_a_held_request_keeps_the_memory_that_it_took():
    memory = RequestMemory(100_000)
    held_by_a_large_request(memory).session.client.hold.end()
    assert memory.taken_bytes == 0


def run_timer(played: Played) -> None:
    ((due_us, callback),) = played.timers
    played.timers.clear()
    played.now_us = due_us
    callback()


def test_a_muted_connection_is_read_no_further_until_its_time_is_over():
    played = Played()
    hold = played.session.client.hold
    hold.mute(5_000, EXCESS)
    assert not played.connection.reading
    played.receive(frame(1))
    assert played.dispatcher.seen == []
    run_timer(played)
    assert played.connection.reading
    played.receive(b"")
    assert played.dispatcher.seen == [1]


def test_a_connection_that_is_muted_for_longer_meanwhile_waits_for_all_of_it():
    played = Played()
    hold = played.session.client.hold
    hold.mute(5_000, EXCESS)
    hold.mute(9_000, EXCESS)
    hold.mute(6_000, EXCESS)
    run_timer(played)
    assert not played.connection.reading
    run_timer(played)
    assert played.now_us == 9_000
    assert played.connection.reading


def test_what_mutes_a_connection_while_it_is_read_leaves_the_rest_where_it_is():
    played = Played()
    dispatch = played.dispatcher.dispatch

    def over_quota(request, body):
        played.session.client.hold.mute(5_000, EXCESS)
        return dispatch(request, body)

    played.session._dispatch = over_quota
    played.receive(frame(1) + frame(2))
    assert played.dispatcher.seen == [1]
    played.session._dispatch = dispatch
    run_timer(played)
    played.receive(b"")
    assert played.dispatcher.seen == [1, 2]


def test_quotas_that_change_let_it_go_on_and_its_end_needs_no_timer():
    played = Played()
    hold = played.session.client.hold
    hold.mute(5_000, EXCESS)
    hold.unmute()
    assert played.connection.reading
    hold.mute(7_000, EXCESS)
    played.session.on_closed()
    assert played.timers == []
