"""Requests to identity providers: answers of every kind, bounded in size and time."""

import asyncio

import pytest

from esp.broker.authentication.web_fetch import BODY_BYTES_MAX, FetchError, fetch
from esp.model.web_place import parse_web_place
from tests.unit.broker.authentication.played_web import ADDRESS, PlayedWeb, answer, place
from tests.unit.broker.played_server import in_world


async def fetched(world, data, *, ends=True, **options):
    web = await PlayedWeb(world.network, data if callable(data) else lambda _: data, ends=ends).listen()
    try:
        return await fetch(world.network, place(), None, connect_timeout_ms=1000, read_timeout_ms=2000, **options)
    finally:
        await asyncio.sleep(0.1)
        assert web.closed == len(web.connections) == 1
        world.web = web


@in_world
async def test_body_is_returned(world):
    assert await fetched(world, answer(b"keys")) == b"keys"
    (request,) = world.web.requests
    assert request.startswith(
        b"GET /keys HTTP/1.1\r\nHost: 127.0.0.1:8443\r\nAccept: application/json\r\nConnection: close\r\n"
    )


@in_world
async def test_body_is_sent(world):
    got = await fetched(world, answer(b"token"), body=b"a=b", headers=(("Authorization", "Basic x"),))
    assert got == b"token"
    (request,) = world.web.requests
    assert request.startswith(b"POST /keys HTTP/1.1\r\n")
    assert b"Authorization: Basic x\r\n" in request
    assert request.endswith(b"Content-Length: 3\r\nAuthorization: Basic x\r\n\r\na=b")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        CHUNKED + b"2\r\nke\r\n2\r\nys\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nkeys",
        b"HTTP/1.0 200 OK\r\n\r\nkeys",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(b"keys"),
    ],
)
@in_world
async def test_bodies_of_every_form_are_read(world, data):
    assert await fetched(world, data) == b"keys"


@in_world
async def test_whole_answer_is_enough_though_the_connection_stays(world):
    assert await fetched(world, answer(b"keys"), ends=False) == b"keys"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (answer(b"", "302 Found", "Location: http://169.254.169.254/"), "status 302, and redirects are not followed"),
        (answer(b"", "301 Moved", "Location: https://127.0.0.1:8443/other"), "status 301"),
        (answer(b"keys", "404 Not Found"), "status 404"),
        (answer(b"keys", "500 Oops"), "status 500"),
        (answer(b"", "204 No Content"), "status 204"),
        (answer(b"keys")[:-1], "no HTTP|ended before"),
        (b"HTTP/1.1 200 OK\r\n", "no HTTP|ended before"),
        (b"", "ended before|no HTTP"),
        (b"SSH-2.0-OpenSSH_9\r\n", "no HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "no HTTP|ended before"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "no HTTP"),
        (answer(b"x" * (BODY_BYTES_MAX + 1)), "more than 1048576 bytes"),
        (CHUNKED + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 300, "more than 1048576 bytes"),
        (CHUNKED + b"1\r\nx\r\n" * 3_000, "more than 2000 parts"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3_000 + answer(b"keys"), "more than 2000 parts"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * (BODY_BYTES_MAX + 10), "more than 1048576"),
    ],
)
@in_world
async def test_answer_that_is_of_no_use_is_an_error(world, data, words):
    with pytest.raises(FetchError) as failed:
        await fetched(world, data)
    assert any(word in str(failed.value) for word in words.split("|")), str(failed.value)
    assert "169.254" not in str(failed.value)
    assert len(world.web.requests) == 1


@in_world
async def test_largest_body_is_taken(world):
    assert len(await fetched(world, answer(b"x" * BODY_BYTES_MAX))) == BODY_BYTES_MAX


@in_world
async def test_silence_ends_after_a_while(world):
    begun = world.loop.time()
    with pytest.raises(FetchError, match="no answer within 2000 ms"):
        await fetched(world, lambda _: None)
    assert world.loop.time() - begun < 3


@in_world
async def test_dribble_ends_after_a_while(world):
    web = await PlayedWeb(world.network, lambda _: b"HTTP/1.1 200 OK\r\n", ends=False).listen()

    async def dribble():
        while True:
            await asyncio.sleep(0.2)
            for connection in web.connections:
                connection.write([b"X: y\r\n"])

    dribbling = asyncio.ensure_future(dribble())
    begun = world.loop.time()
    with pytest.raises(FetchError, match="no answer within 2000 ms"):
        await fetch(world.network, place(), None, connect_timeout_ms=1000, read_timeout_ms=2000)
    assert world.loop.time() - begun < 3
    dribbling.cancel()


@in_world
async def test_no_connection_is_an_error(world):
    with pytest.raises(FetchError, match="no connection"):
        await fetch(world.network, place(), None, connect_timeout_ms=1000, read_timeout_ms=2000)


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://login.example/k", b"login.example"), ("https://[::1]/k", b"[::1]"), ("https://a:8443/k", b"a:8443")],
)
@in_world
async def test_usual_port_is_not_named(world, url, host):
    named = parse_web_place(url)
    web = await PlayedWeb(world.network, lambda _: answer(b"")).listen(ADDRESS)

    class Elsewhere:
        async def connect(self, address, open_, timeout_us, tls):
            assert address == (named.host, named.port)
            return await world.network.connect(ADDRESS, open_, timeout_us)

    await fetch(Elsewhere(), named, None, connect_timeout_ms=1000, read_timeout_ms=1000)
    assert b"\r\nHost: " + host + b"\r\n" in web.requests[0]
