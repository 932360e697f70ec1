"""Sends small produce requests, one record each, acks=all, one in flight per connection: what each request costs beside its data."""

import select
import time
from contextlib import ExitStack
from itertools import cycle
from typing import Final

from benchmarks.batches import AckChecker, produce_requests
from benchmarks.client import Client, OpenClient
from benchmarks.cost import CostMeter
from benchmarks.results import LATENCY_P50, LATENCY_P99, REQUEST_ALL, REQUEST_RATE, REQUEST_USER, Metric, percentile
from esp.testing.node_process import NodeProcess

CONNECTIONS: Final = 50


def send_small_requests(port: int, topic: str, batch: bytes, count: int, open_client: OpenClient = Client) -> None:
    """Send ``count`` requests over 50 connections, each of which sends its next one as soon as it is answered."""
    requests = cycle(produce_requests(topic, batch))
    checker = AckChecker(topic)
    check = checker.check
    with ExitStack() as stack, select.epoll() as poller:
        by_descriptor = {}
        for _ in range(CONNECTIONS):
            client = stack.enter_context(open_client(port))
            descriptor = client.socket.fileno()
            by_descriptor[descriptor] = (client.receive, client.socket.sendall, next(requests))
            poller.register(descriptor, select.EPOLLIN)
        unsent = count
        for _receive, send, request in by_descriptor.values():
            send(request)
            unsent -= 1
        while checker.acked < count:
            for descriptor, _events in poller.poll():
                receive, send, request = by_descriptor[descriptor]
                check(receive())
                if unsent:
                    unsent -= 1
                    send(request)


def measure_small_requests(
    node: NodeProcess, topic: str, batch: bytes, count: int, open_client: OpenClient = Client
) -> dict[Metric, float]:
    """Return what each of ``count`` requests costs; there are at least as many as connections."""
    with CostMeter(node) as cost:
        send_small_requests(node.port, topic, batch, count, open_client)
    return {
        REQUEST_USER: cost.user_s * 1e6 / count,
        REQUEST_ALL: cost.all_s * 1e6 / count,
        REQUEST_RATE: count / cost.elapsed_s,
    }


def measure_latency(node: NodeProcess, topic: str, batch: bytes, count: int) -> dict[Metric, float]:
    """Return the latency of small requests on one connection, one after the other."""
    request = produce_requests(topic, batch)[0]
    checker = AckChecker(topic)
    latencies_us = []
    with Client(node.port) as client:
        for _ in range(count):
            started = time.perf_counter()
            client.socket.sendall(request)
            answer = client.receive()
            latencies_us.append((time.perf_counter() - started) * 1e6)
            checker.check(answer)
    return {LATENCY_P50: percentile(latencies_us, 0.5), LATENCY_P99: percentile(latencies_us, 0.99)}
