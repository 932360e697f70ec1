"""The requests to a coordinator, free of the wire's versions. The shell answers an empty transactional id; none stands here."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from esp.model.ids import TopicPartition


class Producer(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer begins, or begins anew."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    """The producer that the client was until now (KIP-360); None if it is a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Partitions are to take part in the transaction. Partitions that do not exist are the shell's to refuse; none stands here."""

    transactional_id: str
    producer: Producer
    partitions: Mapping[TopicPartition, uuid.UUID | None]
    """The partitions, with the ids of their topics."""
    client_version: int = 0
    """2 if a partition leader asks for a client that leaves the adding to the brokers (KIP-890), else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """The leader of partitions asks if they take part in the transaction."""

    transactional_id: str
    producer: Producer
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """The producer commits or aborts."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    bumps_epoch: bool
    """True from version 5 on: the epoch rises with each transaction (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """The transactional ids that there are; empty filters let all pass."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    """Transactions that began longer ago than this; below 0 all."""
    matches: Callable[[str], bool] | None = None
    """Says if a transactional id is asked for; None lets all pass."""
