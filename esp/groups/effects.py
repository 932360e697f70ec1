"""The effects that a coordinator asks of its driver, to be done in their order.

:class:`Outbox` collects the effects of one call. A ticket in them is answered once.
"""

from typing import NamedTuple

from esp.groups.responses import Result
from esp.groups.share.effects import ShareStateRequest
from esp.records.builder import NewRecord


class Transaction(NamedTuple):
    """The transaction that records belong to."""

    producer_id: int
    producer_epoch: int
    guard: object
    """The leader's token for this transaction (:mod:`esp.replication.verification`), which only the driver looks at."""


class Append(NamedTuple):
    """Append these records, in one batch, to the coordinator's partition of ``__consumer_offsets``, with acks=all.

    Exactly one of ``on_committed`` (the high watermark has passed the batch) and ``on_append_failed`` (it is not in the log and never
    will be) follows with the token, unless the coordinator is unloaded before, or says that it has withdrawn the append, which the driver
    asks it before. Neither may be called before the call that returned the
    effect is over. The driver may put appends that follow one another into one batch, but not two with more than
    ``max.message.bytes`` together.
    """

    token: int
    records: tuple[NewRecord, ...]
    timestamp_ms: int
    """The time of the batch."""
    transaction: Transaction | None = None
    """None for records that count as soon as they are committed. Others have a batch of their own."""


class Answer(NamedTuple):
    """Answer the request that came with this ticket."""

    ticket: object
    result: Result


Effect = Append | Answer | ShareStateRequest


class Outbox:
    """Collects effects until the coordinator's call ends."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def append(self, effect: Append) -> None:
        """Records are to be appended."""
        self._effects.append(effect)

    def answer(self, ticket: object, result: Result) -> None:
        """A request is answered."""
        self._effects.append(Answer(ticket, result))

    def ask(self, effect: ShareStateRequest) -> None:
        """Share coordinators are to be asked."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """All effects so far, which are forgotten here."""
        effects, self._effects = self._effects, []
        return effects
