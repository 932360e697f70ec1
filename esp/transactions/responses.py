"""The answers of a coordinator, free of the wire's versions."""

from collections.abc import Mapping
from typing import NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.transaction_records import NO_EPOCH, NO_PRODUCER_ID
from esp.transactions.requests import Producer

NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_EPOCH)
"""Stands in answers that give no producer."""


class ProducerResult(NamedTuple):
    """The answer to InitProducerId and EndTxn: the producer from now on."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class PartitionsResult(NamedTuple):
    """The answer to AddPartitions and VerifyPartitions."""

    error: ErrorCode
    """NONE, or the error of all partitions."""
    errors: Mapping[TopicPartition, ErrorCode]
    """The answer for each partition."""


Result = ProducerResult | PartitionsResult


class DescribedTransaction(NamedTuple):
    """The answer of DescribeTransactions for a transactional id."""

    error: ErrorCode
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer: Producer = Producer(0, 0)
    partitions: tuple[TopicPartition, ...] = ()


class ListedTransaction(NamedTuple):
    """An entry of the answer of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
