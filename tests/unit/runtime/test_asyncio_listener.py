"""Listening sockets, and connections that are accepted one in each round of the loop."""

import asyncio
import errno
import socket

import pytest

from esp.ports.network import Address
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.asyncio_listener import AsyncioListener, listening_sockets


async def test_a_flood_is_accepted_one_in_each_round() -> None:
    made: list[int] = []

    def make_connection() -> AsyncioConnection:
        made.append(1)
        raise OSError(errno.ECONNABORTED, "gone again")

    [listening] = await listening_sockets(Address("127.0.0.1", 0))
    listener = AsyncioListener([listening], Address(*listening.getsockname()), make_connection)
    count = 20
    clients = [socket.create_connection(listener.address, timeout=5) for _ in range(count)]
    in_rounds = [0]
    async with asyncio.timeout(20):
        while len(made) < count:
            before = len(made)
            await asyncio.sleep(0)
            in_rounds.append(len(made) - before)
    assert max(in_rounds) == 1
    for client in clients:
        assert client.recv(1) == b"", "what did not begin is closed"
        client.close()
    await listener.close()


async def test_all_interfaces_are_bound_to_the_same_port() -> None:
    sockets = await listening_sockets(Address("", 0))
    ports = {listening.getsockname()[1] for listening in sockets}
    for listening in sockets:
        listening.close()
    assert len(ports) == 1


async def test_nothing_stays_bound_if_one_of_the_addresses_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    [taken] = await listening_sockets(Address("127.0.0.1", 0))
    [free] = await listening_sockets(Address("127.0.0.1", 0))
    free_address = free.getsockname()
    free.close()
    loop = asyncio.get_running_loop()

    async def two(*_arguments: object, **_options: object) -> list[tuple[object, ...]]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, free_address), (*kind, taken.getsockname())]

    monkeypatch.setattr(loop, "getaddrinfo", two)
    with pytest.raises(OSError, match="in use") as caught:
        await listening_sockets(Address("two", free_address[1]))
    assert caught.value.errno == errno.EADDRINUSE
    monkeypatch.undo()
    [again] = await listening_sockets(Address(*free_address))
    again.close()
    taken.close()
