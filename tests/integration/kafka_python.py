"""kafka-python's consumers as members of groups: how they subscribe, so that they get the partitions that they are assigned."""

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import RetriableError

from tests.integration.conftest import eventually

KNOWN_WITHIN_S = 60


def subscribe(consumer: KafkaConsumer, *topics: str, listener: ConsumerRebalanceListener | None = None) -> None:
    """Subscribe, and learn the topics' partitions before the first poll joins the group.

    A consumer that leads its group and does not know them assigns nothing, and joins again when metadata has told it of them. As soon as it
    has made its second assignment, ``need_rejoin`` of kafka-python 3.0.12 (``kafka/coordinator/consumer.py``) is false again, though the
    join goes on. If the poll ends then, before SyncGroup is answered, no later poll takes the answer: the consumer has no partitions, sends
    no heartbeats, and is expelled when its session is over. (Kafka's client asks whether a join is pending, and since KAFKA-9815 keeps
    such a reason to join until it has joined.) Partitions that were learned before it subscribed do not count.
    """
    consumer.subscribe(topics, listener=listener)

    def are_known() -> bool:
        try:
            return bool(consumer.topics() >= set(topics))
        except RetriableError:  # the node that was asked has gone
            return False

    eventually(are_known, KNOWN_WITHIN_S)
