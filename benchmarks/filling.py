"""Fills a topic of one partition, before the clock runs."""

from collections.abc import Iterable

from kio.schema.produce.v12 import request as produce
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from benchmarks.batches import ACKS_ALL, PRODUCE_VERSION, AckChecker
from benchmarks.client import ADMIN_TIMEOUT, CLIENT_ID, Client
from benchmarks.produce_load import IN_FLIGHT
from esp.protocol.messages import encode_request
from esp.protocol.registry import ApiKey
from esp.testing.node_process import NodeProcess


def fill(node: NodeProcess, topic: str, batches: Iterable[bytes]) -> None:
    """Produce batches to the only partition of ``topic``, acks=all, five requests in flight."""
    checker = AckChecker(topic)
    sent = 0
    with Client(node.port) as client:
        for batch in batches:
            client.socket.sendall(_produce_request(topic, batch))
            sent += 1
            if sent > IN_FLIGHT:
                checker.check(client.receive())
        while checker.acked < sent:
            checker.check(client.receive())


def _produce_request(topic: str, batch: bytes) -> bytes:
    data = produce.PartitionProduceData(index=i32(0), records=Records(batch))
    request = produce.ProduceRequest(
        acks=i16(ACKS_ALL),
        timeout=i32Timedelta.parse(ADMIN_TIMEOUT),
        topic_data=(produce.TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 0, CLIENT_ID, request)
