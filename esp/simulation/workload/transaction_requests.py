"""The requests of transactional producers, each in one line for its sender."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.end_txn.v3.request import EndTxnRequest as EndTxnRequestV3
from kio.schema.end_txn.v5.request import EndTxnRequest as EndTxnRequestV5
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.produce.v11.request import PartitionProduceData as PartitionDataV11
from kio.schema.produce.v11.request import ProduceRequest as ProduceRequestV11
from kio.schema.produce.v11.request import TopicProduceData as TopicDataV11
from kio.schema.produce.v12.request import PartitionProduceData as PartitionDataV12
from kio.schema.produce.v12.request import ProduceRequest as ProduceRequestV12
from kio.schema.produce.v12.request import TopicProduceData as TopicDataV12
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta

from esp.model.ids import TopicPartition
from esp.transactions.requests import Producer

FIND_COORDINATOR_VERSION: Final = 4
INIT_PRODUCER_ID_VERSION: Final = 5
ADD_PARTITIONS_VERSION: Final = 3
PRODUCE_VERSIONS: Final[Mapping[int, int]] = {1: 11, 2: 12}
END_VERSIONS: Final[Mapping[int, int]] = {1: 3, 2: 5}
"""The versions of Produce and EndTxn by the version of the transaction protocol that a client uses."""

_TRANSACTION: Final = 1
_ALL: Final = -1


def find_coordinator(transactional_id: str) -> FindCoordinatorRequest:
    """Ask for the coordinator of a transactional id."""
    return FindCoordinatorRequest(key_type=i8(_TRANSACTION), coordinator_keys=(transactional_id,))


def init_producer_id(transactional_id: str, timeout_s: float, expected: Producer | None) -> InitProducerIdRequest:
    """Ask for a producer, or for the next epoch of one."""
    request = InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id), transaction_timeout=_duration(timeout_s)
    )
    if expected is None:
        return request
    return InitProducerIdRequest(
        transactional_id=request.transactional_id,
        transaction_timeout=request.transaction_timeout,
        producer_id=ProducerId(expected.producer_id),
        producer_epoch=i16(expected.epoch),
    )


def add_partitions(
    transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Have partitions join the transaction: a client of version 1 does so before it sends records."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TransactionalId(transactional_id),
        v3_and_below_producer_id=ProducerId(producer.producer_id),
        v3_and_below_producer_epoch=i16(producer.epoch),
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(map(i32, numbers)))
            for topic, numbers in topics.items()
        ),
    )


def produce(
    version: int, transactional_id: str, partition: TopicPartition, data: bytes, timeout_s: float
) -> ProduceRequestV11 | ProduceRequestV12:
    """Send one batch of a transaction, as a client of that version of the protocol does."""
    name, number, records = TopicName(partition.topic), i32(partition.partition), Records(data)
    identity, acks, timeout = TransactionalId(transactional_id), i16(_ALL), _duration(timeout_s)
    if version == 1:
        topic = TopicDataV11(name=name, partition_data=(PartitionDataV11(index=number, records=records),))
        return ProduceRequestV11(transactional_id=identity, acks=acks, timeout=timeout, topic_data=(topic,))
    newer = TopicDataV12(name=name, partition_data=(PartitionDataV12(index=number, records=records),))
    return ProduceRequestV12(transactional_id=identity, acks=acks, timeout=timeout, topic_data=(newer,))


def end(
    version: int, transactional_id: str, producer: Producer, *, is_commit: bool
) -> EndTxnRequestV3 | EndTxnRequestV5:
    """Commit or abort, as a client of that version of the protocol does."""
    make = EndTxnRequestV3 if version == 1 else EndTxnRequestV5
    return make(
        transactional_id=TransactionalId(transactional_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
        committed=is_commit,
    )


def _duration(seconds: float) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(seconds=seconds))
