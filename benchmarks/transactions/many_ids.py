"""A coordinator with very many transactional ids: how soon it serves after kill -9, and what it holds when nothing happens."""

import select
import time
from collections.abc import Iterator
from typing import Final

from kio.schema.init_producer_id.v5 import request as init_producer_id
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16

from benchmarks.client import CLIENT_ID, Client, check
from benchmarks.stage import Stage
from benchmarks.start_up import SETTLING_S
from benchmarks.transactions.metrics import IDLE_IDS, LOAD_IDS
from benchmarks.transactions.producers import (
    INIT_PRODUCER_ID_VERSION,
    PATIENCE,
    TRANSACTION_TIMEOUT,
    init_producer,
)
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey

IDS: Final = 100_000
STARTS: Final = 3
"""Fewer than rounds of load: each start is one of a whole process."""

_CONNECTIONS: Final = 20
_POLL_INTERVAL_S: Final = 0.01


def make_ids(port: int, count: int) -> None:
    """Have the coordinator know ``count`` transactional ids, each initialised once and without a transaction."""
    requests = _requests(count)
    with select.epoll() as poller:
        clients = {}
        sent: dict[Client, bytes] = {}
        for _ in range(_CONNECTIONS):
            client = Client(port)
            clients[client.socket.fileno()] = client
            poller.register(client.socket.fileno(), select.EPOLLIN)
        waiting = 0
        for client, request in zip(clients.values(), requests, strict=False):
            sent[client] = request
            client.socket.sendall(request)
            waiting += 1
        while waiting:
            for descriptor, _ in poller.poll():
                client = clients[descriptor]
                data = client.receive()
                body = data[read_response_header(data, ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION)[1] :]
                answer = decode_response(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, body)
                request = sent[client]
                if answer.error_code not in PATIENCE:  # other partitions of the coordinators' topic may still be loaded
                    check(answer.error_code, "InitProducerId")
                    waiting -= 1
                    request = sent[client] = next(requests, b"")
                    waiting += bool(request)
                if request:
                    client.socket.sendall(request)
    for client in clients.values():
        client.close()


def _requests(count: int) -> Iterator[bytes]:
    for number in range(count):
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=TransactionalId(_id(number)),
            transaction_timeout=TRANSACTION_TIMEOUT,
            producer_id=ProducerId(-1),
            producer_epoch=i16(-1),
        )
        yield encode_request(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, 0, CLIENT_ID, request)


def _id(number: int) -> str:
    return f"an-application-with-tasks-{number:06d}"


def _init_when_it_serves(port: int, transactional_id: str) -> None:
    """Ask again from the first moment on at which somebody listens."""
    while True:
        try:
            with Client(port) as client:
                init_producer(client, transactional_id)
            return
        except OSError:
            time.sleep(_POLL_INTERVAL_S)


def measure_many_ids(stage: Stage) -> None:
    """Kill each broker a few times, and measure the time from its start to the answer for an id that it had."""
    count = stage.scaled(IDS)
    for name, node in stage.nodes.items():
        with Client(node.port) as client:
            init_producer(client, _id(0))  # creates the coordinators' topic
        began_s = time.perf_counter()
        make_ids(node.port, count)
        stage.say(f"  {name} knows {count} ids after {time.perf_counter() - began_s:.0f} s")
    for number in range(min(STARTS, stage.extent.rounds)):
        for name, node in stage.in_turn(number):
            node.kill()
            began_s = time.perf_counter()
            node.launch()
            _init_when_it_serves(node.port, _id(count // 2 + number))
            load_s = time.perf_counter() - began_s
            node.wait_until_ready()
            time.sleep(SETTLING_S)
            stage.take(name, {LOAD_IDS: load_s, IDLE_IDS: node.rss_bytes() / 1e6})
