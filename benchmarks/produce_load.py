"""Produces large batches: one connection, five requests in flight, as a Java producer has by default; partitions take turns."""

from collections.abc import Iterator
from itertools import cycle
from typing import Final

from benchmarks.batches import AckChecker, produce_requests
from benchmarks.client import Client, OpenClient
from benchmarks.cost import CostMeter
from benchmarks.results import PRODUCE_ALL, PRODUCE_RATE, PRODUCE_USER, Metric
from esp.testing.node_process import NodeProcess

IN_FLIGHT: Final = 5


def produce(port: int, topic: str, batch: bytes, count: int, open_client: OpenClient = Client) -> None:
    """Send ``count`` requests of one batch each and return when all are acknowledged."""
    send_requests(port, topic, cycle(produce_requests(topic, batch)), count, open_client)


def send_requests(
    port: int, topic: str, requests: Iterator[bytes], count: int, open_client: OpenClient = Client
) -> None:
    """Send the first ``count`` of some requests to produce and return when all are acknowledged."""
    checker = AckChecker(topic)
    with open_client(port) as client:
        send = client.socket.sendall
        receive = client.receive
        check = checker.check
        for _ in range(min(IN_FLIGHT, count)):
            send(next(requests))
        for _ in range(count - IN_FLIGHT):
            check(receive())
            send(next(requests))
        while checker.acked < count:
            check(receive())


def measure_produce(
    node: NodeProcess, topic: str, batch: bytes, count: int, open_client: OpenClient = Client
) -> dict[Metric, float]:
    """Return what producing ``count`` batches costs."""
    with CostMeter(node) as cost:
        produce(node.port, topic, batch, count, open_client)
    gigabytes = len(batch) * count / 1e9
    return {
        PRODUCE_USER: cost.user_s / gigabytes,
        PRODUCE_ALL: cost.all_s / gigabytes,
        PRODUCE_RATE: gigabytes * 1000 / cost.elapsed_s,
    }
