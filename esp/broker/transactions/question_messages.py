"""The message with which leaders of partitions ask a transaction coordinator: AddPartitionsToTxn, version 5."""

from collections.abc import Iterable

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32

from esp.broker.transactions.verifier import Producer
from esp.model.ids import TopicPartition

Question = tuple[Producer, bool, Iterable[TopicPartition]]
"""A producer, True if its partitions are to be added to the transaction, and the partitions."""


def build_request(questions: Iterable[Question]) -> AddPartitionsToTxnRequest:
    """Return one request of all questions, which are about different transactional ids."""
    return AddPartitionsToTxnRequest(transactions=tuple(_transaction(*question) for question in questions))


def _transaction(producer: Producer, adds: bool, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnTransaction:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=TransactionalId(producer.transactional_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.producer_epoch),
        verify_only=not adds,
        topics=tuple(
            AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(map(i32, numbers)))
            for topic, numbers in by_topic.items()
        ),
    )
