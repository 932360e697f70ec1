"""The HTTP side of metrics, spoken to in bytes."""

import asyncio

import pytest

from esp.broker.metrics.http_server import MAX_CONNECTIONS, HttpServer, Page
from esp.broker.tasks import Tasks
from esp.model.errors import OperatorError
from esp.ports.network import Address
from tests.unit.broker.simulated_node import simulated

GET = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"


class Scraper:
    """A client of bytes."""

    def __init__(self):
        self.received = b""
        self.closed = False

    def on_bytes(self, received):
        self.received += bytes(received)
        return len(received)

    def on_closed(self):
        self.closed = True

    def on_writable(self, writable):
        pass

    async def open(self, node, address):
        self.connection = await node.network.connect(address, lambda _: self, 1_000_000)
        return self

    async def ask(self, *parts):
        for part in parts:
            self.connection.write([part])
            await asyncio.sleep(0.1)
        received, self.received = self.received, b""
        return received


async def _serve(node, pages):
    async def render(accept):
        pages.append(accept)
        await asyncio.sleep(0.01)
        return Page("text/plain; version=0.0.4", b"up 1\n")

    server = HttpServer(node.env.network, Tasks(node.env.host), render)
    return server, await server.listen(Address("127.0.0.1", 9308))


@simulated()
async def test_the_page_is_there_again_and_again_on_one_connection(node):
    server, address = await _serve(node, pages := [])
    scraper = await Scraper().open(node, address)
    for _ in range(3):
        answer = await scraper.ask(GET[:10], GET[10:])
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"content-length: 5\r\n\r\nup 1\n")
    assert len(pages) == 3
    await server.close()
    await asyncio.sleep(0.1)
    assert scraper.closed


@simulated()
async def test_requests_that_come_in_one_piece_are_answered_one_after_another(node):
    _, address = await _serve(node, pages := [])
    scraper = await Scraper().open(node, address)
    assert (await scraper.ask(GET * 3)).count(b"200 ") == 3
    assert len(pages) == 3


@simulated()
async def test_head_gets_no_body_and_the_connection_goes_on(node):
    _, address = await _serve(node, [])
    scraper = await Scraper().open(node, address)
    answer = await scraper.ask(GET.replace(b"GET", b"HEAD"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")
    assert b"up 1" in await scraper.ask(GET)


@simulated()
async def test_what_the_client_accepts_is_told_to_whoever_makes_the_page(node):
    _, address = await _serve(node, pages := [])
    scraper = await Scraper().open(node, address)
    await scraper.ask(b"GET /metrics?x=1 HTTP/1.1\r\nhost: x\r\naccept: application/openmetrics-text\r\n\r\n")
    assert pages == ["application/openmetrics-text"]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
        (b"HEAD /favicon.ico HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc", b"405"),
        (b"\x00\x00\x00\x10garbage\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nhost: x\r\na: " + b"b" * 100_000 + b"\r\n\r\n", b"431"),
    ],
)
@simulated()
async def test_everything_else_is_refused_and_the_node_serves_on(node, request_bytes, status):
    _, address = await _serve(node, [])
    scraper = await Scraper().open(node, address)
    assert (await scraper.ask(request_bytes)).startswith(b"HTTP/1.1 " + status)
    other = await Scraper().open(node, address)
    assert b"up 1" in await other.ask(GET)


@simulated()
async def test_a_client_that_leaves_before_its_answer_does_no_harm(node):
    server, address = await _serve(node, pages := [])
    scraper = await Scraper().open(node, address)
    scraper.connection.write([GET])
    await asyncio.sleep(0.005)
    scraper.connection.abort()
    await asyncio.sleep(0.5)
    assert len(pages) == 1
    assert not server._connections


@simulated()
async def test_one_connection_too_many_is_ended_and_the_place_of_one_that_ends_is_free(node):
    _, address = await _serve(node, [])
    scrapers = [await Scraper().open(node, address) for _ in range(MAX_CONNECTIONS + 1)]
    await asyncio.sleep(0.1)
    assert scrapers[-1].closed
    scrapers[0].connection.abort()
    await asyncio.sleep(0.1)
    assert b"up 1" in await (await Scraper().open(node, address)).ask(GET)


@simulated()
async def test_an_address_in_use_is_the_operators_to_mend(node):
    await _serve(node, [])
    with pytest.raises(OperatorError, match=r"127.0.0.1:9308 for metrics"):
        await _serve(node, [])
