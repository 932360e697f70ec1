"""The effects that a share coordinator asks of its driver, to be done in their order.

:class:`Outbox` collects the effects of one call. A ticket in them is answered once.
"""

from typing import NamedTuple

from esp.records.builder import NewRecord
from esp.share.coordinator.requests import Result


class Append(NamedTuple):
    """Append these records, in one batch, to the coordinator's partition of ``__share_group_state``, with acks=all.

    If that succeeds, the driver says so at once, with ``on_appended`` and the offset of the first record. Exactly one of ``on_committed``
    (the high watermark has passed the batch) and ``on_append_failed`` (it is not in the log and never will be) follows with the token,
    unless the coordinator is unloaded before. None of them may be called before the call that returned the effect is over.
    """

    token: int
    records: tuple[NewRecord, ...]
    timestamp_ms: int
    """The time of the batch."""


class Answer(NamedTuple):
    """Answer the request that came with this ticket."""

    ticket: object
    result: Result


class Prune(NamedTuple):
    """Delete the records below an offset, which are committed, and which nothing needs any more (SHARE-22)."""

    offset: int


Effect = Append | Answer | Prune


class Outbox:
    """Collects effects until the coordinator's call ends."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Something is to be done."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """All effects so far, which are forgotten here."""
        effects, self._effects = self._effects, []
        return effects
