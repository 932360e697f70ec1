import asyncio
import gc
import ssl
import threading
import weakref

import pytest

from esp.runtime.tls.handshakes import THREADS, Handshakes


async def test_steps_are_done_beside_the_loop_and_their_ends_are_told_on_it():
    handshakes, told = Handshakes(), asyncio.Queue()
    loop_thread = threading.get_ident()
    used = []

    def complete() -> None:
        used.append(threading.get_ident())

    def incomplete() -> None:
        raise ssl.SSLWantReadError

    def failed() -> None:
        raise ssl.SSLError("no")

    for step in (complete, incomplete, failed):
        handshakes.step("a", step, lambda *end: told.put_nowait((threading.get_ident(), *end)))
    ends = [await told.get() for _ in range(3)]
    assert {end[0] for end in ends} == {loop_thread}
    assert sorted((type(error).__name__, is_complete) for _, error, is_complete in ends) == [
        ("NoneType", False),
        ("NoneType", True),
        ("SSLError", False),
    ]
    assert used
    assert loop_thread not in used


@pytest.mark.parametrize("error", [ssl.SSLError("no"), ssl.SSLCertVerificationError("no"), ssl.SSLWantReadError()])
async def test_nothing_of_a_step_that_failed_waits_for_the_collector(error):
    """With its connection would wait OpenSSL's object and the peer's certificates, and those of several peers would be freed at once."""

    class Connection:
        def shake_hands(self) -> None:
            raise type(error)(*error.args)

    handshakes, told = Handshakes(), asyncio.Event()
    connection = Connection()
    left = weakref.ref(connection)
    gc.disable()
    try:
        handshakes.step("a", connection.shake_hands, lambda *end: told.set())
        del connection
        await told.wait()
        for _ in range(1_000):  # the thread lets go of what it has done a moment later
            if left() is None:
                break
            await asyncio.sleep(0.01)
        assert left() is None
    finally:
        gc.enable()


async def test_an_address_with_many_handshakes_delays_its_own_only():
    handshakes, done = Handshakes(), []
    free, all_done = threading.Event(), asyncio.Event()

    def note(address: str) -> None:
        done.append(address)
        if len(done) == 11 + THREADS:
            all_done.set()

    for _ in range(THREADS):
        handshakes.step("busy", lambda: free.wait(10), lambda *end: note("busy"))
    for address in ("flood",) * 10 + ("honest",):
        handshakes.step(address, lambda: None, lambda *end, address=address: note(address))
    free.set()
    await all_done.wait()
    assert done.index("honest") <= THREADS + 1 + THREADS, "one of the flood's at most goes before it, by each thread"
