"""Topics that recompress what librdkafka sends, read by kafka-python and by Kafka's own tool. Run on Kafka itself, all is the same."""

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from esp.testing.segment_files import read_batch_headers
from tests.integration.dump_log import dump, dumpable_files
from tests.integration.test_restart import create

NAMES = {"uncompressed": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
"""Values of ``compression.type``, and the producers' names of the same codecs, in the order of their numbers."""
RECORDS = 60


def send(node: NodeProcess, topic: str, codec: str, first: int) -> list[bytes]:
    """Send records in batches of a few, several of them at a time on one connection; return their values."""
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 7,
            "linger.ms": 50,
        }
    )
    values = [b"%d " % number + b"text " * (number % 50) for number in range(first, first + RECORDS)]
    for value in values:
        producer.produce(topic, value, b"key", partition=0, headers={"number": value[:3]})
    assert producer.flush(60) == 0
    return values


def receive(node: NodeProcess, topic: str, count: int) -> list[bytes]:
    """So many values from the start of the topic, in order."""
    consumer = KafkaConsumer(bootstrap_servers=node.bootstrap, consumer_timeout_ms=30_000)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for _, record in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()


@pytest.mark.timeout(180)
def test_batches_of_every_codec_are_kept_in_the_codec_of_their_topic(
    fresh_node: NodeFactory, kafka_tools: KafkaTools
) -> None:
    node = fresh_node()
    for name in NAMES:
        create(node, name, compression_type=name, compression_lz4_level="12", compression_gzip_level="9")
    for name in NAMES:
        sent: list[bytes] = []
        for codec in NAMES.values():
            sent += send(node, name, codec, len(sent))
        assert receive(node, name, len(sent)) == sent
    node.stop()
    for number, name in enumerate(NAMES):
        headers = list(read_batch_headers(node.log_dirs, name, 0))
        assert {header.codec for header in headers} == {number}
        assert sum(header.record_count for header in headers) == RECORDS * len(NAMES)
        assert len(headers) > RECORDS * len(NAMES) / 10, "there were not several batches to keep in order"
    output = dump(kafka_tools, dumpable_files(node.log_dirs, metadata=False), "--deep-iteration")
    for name in NAMES.values():
        assert f"compresscodec: {name} " in output
