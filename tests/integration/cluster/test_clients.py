"""Clients of three families find all nodes of a cluster, write with acks=all, and read everything back."""

import asyncio
from collections import Counter

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as RdTopicPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from esp.testing.cluster import Cluster
from tests.integration.cluster.observer import Observe, Observer

RECORDS = 600
PARTITIONS = 6


@pytest.fixture
def observer(cluster: Cluster, observe: Observe) -> Observer:
    return observe(cluster)


def test_every_node_is_found_and_leads_its_share(cluster: Cluster, observer: Observer, topic: str) -> None:
    observer.create(topic, PARTITIONS)
    brokers = observer.admin.list_topics(topic, 10).brokers.values()
    assert {f"{broker.host}:{broker.port}" for broker in brokers} == set(cluster.bootstrap.split(","))
    leaders = Counter(one.leader for one in observer.partitions(topic).values())
    assert sorted(leaders) == [1, 2, 3]
    assert max(leaders.values()) == 2


def test_a_topic_that_names_no_number_gets_three_replicas(observer: Observer, topic: str) -> None:
    observer.create(topic, 1, -1)
    assert observer.partitions(topic)[0].replicas == {1, 2, 3}


def test_kafka_python_writes_and_reads(cluster: Cluster, observer: Observer, topic: str) -> None:
    observer.create(topic, PARTITIONS)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all", enable_idempotence=True)
    sent = [producer.send(topic, b"%d" % number, partition=number % PARTITIONS) for number in range(RECORDS)]
    producer.flush(30)
    assert {(future.get().partition, future.get().offset) for future in sent} == {
        (number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)
    }
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","), auto_offset_reset="earliest", consumer_timeout_ms=5000
    )
    consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    read: list[int] = []
    for record in consumer:
        read.append(int(record.value))
        if len(read) == RECORDS:
            break
    consumer.close()
    assert sorted(read) == list(range(RECORDS))


async def test_aiokafka_writes_and_reads(cluster: Cluster, observer: Observer, topic: str) -> None:
    await asyncio.to_thread(observer.create, topic, PARTITIONS)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True) as producer:
        for number in range(RECORDS):
            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        await producer.flush()
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [AioTopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        async with asyncio.timeout(30):
            read = [int((await consumer.getone()).value or b"-1") for _ in range(RECORDS)]
    assert sorted(read) == list(range(RECORDS))


def test_librdkafka_writes_and_reads(cluster: Cluster, observer: Observer, topic: str) -> None:
    observer.create(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    failures: list[object] = []
    for number in range(RECORDS):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
    assert producer.flush(30) == 0
    assert failures == []
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([RdTopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    read: list[int] = []
    while len(read) < RECORDS:
        messages = consumer.consume(RECORDS, 10)
        assert messages, f"only {len(read)} records came"
        assert [message.error() for message in messages if message.error()] == []
        read += [int(message.value()) for message in messages]
    consumer.close()
    assert sorted(read) == list(range(RECORDS))


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks_are_served(cluster: Cluster, observer: Observer, topic: str, acks: str) -> None:
    observer.create(topic, 1)
    first = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    first.produce(topic, b"0")  # with acks=0 nobody learns that a leader does not know of its office yet
    assert first.flush(20) == 0
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": acks})
    for number in range(1, 100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([RdTopicPartition(topic, 0, 0)])
    read: list[int] = []
    while len(read) < 100 and (messages := consumer.consume(100, 10)):
        assert [message.error() for message in messages if message.error()] == []
        read += [int(message.value()) for message in messages]
    consumer.close()
    assert read == list(range(100))
