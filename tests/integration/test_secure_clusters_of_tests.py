"""Clusters that a user's tests make with ``secure=True``: secure as those of ``esp cluster start --secure``."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from esp.settings.properties import parse_properties
from esp.testing.pytest_plugin import ClusterFactory


def test_the_administrator_writes_and_reads_and_strangers_are_not_served(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(3, secure=True)
    assert cluster.security is not None
    text = (cluster.security.path / "admin" / "librdkafka.properties").read_text()
    settings = {each.name: each.value for each in parse_properties(text)} | {"log_level": 0}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(60)
    cluster.nodes[2].kill()
    producer = Producer(settings | {"acks": "all"})
    producer.produce("t", b"kept")
    assert producer.flush(60) == 0
    consumer = Consumer(settings | {"group.id": "readers", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"kept"
    consumer.close()
    stranger = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=2)
    cluster.nodes[2].start()
    assert "cannot log in" not in cluster.output
