"""The effects that a coordinator asks of its driver, to be done in their order.

:class:`Outbox` collects the effects of one call. A ticket in them is answered once.
"""

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.records.builder import NewRecord
from esp.transactions.requests import Producer
from esp.transactions.responses import Result


class Append(NamedTuple):
    """Append these records, in one batch, to the coordinator's partition of ``__transaction_state``, with acks=all.

    Exactly one of ``on_committed`` (the high watermark has passed the batch) and ``on_append_failed`` (it is not in the log and never
    will be) follows with the token, unless the coordinator is unloaded before. Neither may be called before the call that returned the
    effect is over.
    """

    token: int
    records: tuple[NewRecord, ...]
    timestamp_ms: int
    """The time of the batch."""


class Answer(NamedTuple):
    """Answer the request that came with this ticket."""

    ticket: object
    result: Result


class WriteMarkers(NamedTuple):
    """Have the leaders of these partitions write the marker that ends the transaction there, until each has, or is known to be deleted.

    The outcome for each partition is given to ``on_marker_written`` or ``on_marker_refused``, with the id and the decision.
    """

    transactional_id: str
    decision: int
    """Tells the decisions of one coordinator apart."""
    producer: Producer
    is_commit: bool
    transaction_version: int
    """The ``transaction.version`` by which partition leaders judge the epoch (TXN-7)."""
    partitions: Mapping[TopicPartition, uuid.UUID | None]
    """The partitions, with the ids of their topics as far as they are known: they are not stored."""


class MarkerRefused(NamedTuple):
    """An operator must know: a partition has refused a marker for good, and the transaction cannot end there."""

    transactional_id: str
    producer: Producer
    partition: TopicPartition
    error: ErrorCode


Effect = Append | Answer | WriteMarkers | MarkerRefused


class Outbox:
    """Collects effects until the coordinator's call ends."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Add an effect, to be carried out after the effects before it."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return the effects collected so far, and forget them."""
        effects, self._effects = self._effects, []
        return effects
