"""The batches of one partition, in the order in which the broker has to append them.

A batch waits, is sealed with the next sequences when it is first sent, and is sent again with the same sequences until an answer settles
its fate. The broker appends a sequence once and in order (PROD-3, PROD-5), so that nothing is lost or doubled. Two rules keep the order:

* Nothing else of the partition is sent while a batch that has to be sent again is not acknowledged.
* The first batch of an identity is sent alone: a broker lets a producer that it does not know begin with any sequence (PROD-2), and would
  take the second batch if it refused the first.

A batch that is refused for good leaves a gap, behind which the broker takes nothing of this identity. The later batches go on under another
identity as soon as none is in flight. The gap is never filled, so a request of the old identity that is still on its way to the broker
appends nothing. If the refused batch itself may have been appended, by an earlier request without an answer, the same holds for later
batches without an answer: they are given up too, because their repetition under another identity could double them.
"""

from collections import deque
from typing import Final

from esp.producer.batch import Batch, OpenBatch, ProducerIdentity
from esp.producer.policy import Policy

_SEQUENCE_MASK: Final = 0x7FFF_FFFF


class Lane:
    """One partition's batches.

    Args:
        partition: its number.
        policy: the producer's settings.
    """

    def __init__(self, partition: int, policy: Policy) -> None:
        self.partition = partition
        self.open: OpenBatch | None = None
        self._policy = policy
        self._waiting: deque[Batch] = deque()
        """Batches without sequences, oldest first."""
        self._sent: list[Batch] = []
        """Batches with sequences whose fate is open, in order."""
        self._identity: ProducerIdentity | None = None
        self._retired: ProducerIdentity | None = None
        self._next_sequence = 0
        self._is_known = False
        self._has_gap = False
        self._gap_is_uncertain = False
        self._not_before_ms = float("-inf")

    @property
    def is_idle(self) -> bool:
        """True if no record of the partition is left to be acknowledged."""
        return self.open is None and not self._waiting and not self._sent

    def add(self, batch: Batch) -> None:
        """Take a batch behind all others."""
        self._waiting.append(batch)

    def needs_identity(self, identity: ProducerIdentity | None) -> bool:
        """True if the next batch waits for another identity than the producer's newest one."""
        if not self._policy.is_idempotent or self._identity is not None or not self._waiting:
            return False
        return identity in (None, self._retired)

    def take(self, now_ms: float, identity: ProducerIdentity | None, room: int) -> Batch | None:
        """Return the batch to be sent now, which then is in flight; None if there is none, or it is larger than ``room`` bytes.

        Args:
            now_ms: the time.
            identity: the producer's newest identity.
            room: bytes that are left in the request.
        """
        if self._has_gap or now_ms < self._not_before_ms:
            return None
        if all(each.is_in_flight for each in self._sent):
            if not self._may_send_new(identity) or self._waiting[0].size > room:
                return None
            batch = self._seal_next(identity)
        else:  # it is to be sent again, and alone
            batch = self._sent[0]
            if batch.size > room or any(each.is_in_flight for each in self._sent):
                return None
        batch.is_in_flight = True
        batch.attempts += 1
        return batch

    def on_appended(self, batch: Batch) -> list[Batch]:
        """The broker has the batch. Returns the batches that are given up."""
        batch.is_in_flight = False
        self._sent.remove(batch)
        self._is_known = True
        return self._settle()

    def on_retry(self, batch: Batch, now_ms: float, *, is_uncertain: bool) -> list[Batch]:
        """The batch has to be sent again, after a pause. Returns the batches that are given up.

        Args:
            batch: it.
            now_ms: the time.
            is_uncertain: whether the broker may have appended it nevertheless.
        """
        batch.is_in_flight = False
        batch.is_uncertain |= is_uncertain
        self._not_before_ms = now_ms + self._policy.retry_backoff_ms
        if batch.attempts > self._policy.retries:
            return self.on_refused(batch)
        return self._settle()

    def on_refused(self, batch: Batch) -> list[Batch]:
        """The batch is not sent again. Returns the batches that are given up, this one first."""
        batch.is_in_flight = False
        self._sent.remove(batch)
        if self._policy.is_idempotent:
            self._has_gap = True
            self._gap_is_uncertain |= batch.is_uncertain
        return [batch, *self._settle()]

    def on_too_large(self, batch: Batch) -> list[Batch]:
        """The broker takes no batch of this size. Returns the batches that are given up."""
        if batch.record_count == 1:
            return self.on_refused(batch)
        batch.is_in_flight = False
        first, second = batch.split()
        if self._policy.is_idempotent:
            first.seal(self._identity, batch.base_sequence)
            second.seal(self._identity, (batch.base_sequence + first.record_count) & _SEQUENCE_MASK)
        else:
            first.seal(None)
            second.seal(None)
        place = self._sent.index(batch)
        self._sent[place : place + 1] = [first, second]
        return self._settle()

    def is_next(self, batch: Batch) -> bool:
        """True if all batches before this one are acknowledged: its sequence is the one that the broker has to expect."""
        return self._sent[0] is batch and not self._has_gap

    def expire(self, now_ms: float) -> list[Batch]:
        """Give up a batch that is too old, and is not in flight. Returns the batches that are given up."""
        oldest_ms = now_ms - self._policy.delivery_timeout_ms
        if self._sent:
            first = self._sent[0]
            return self.on_refused(first) if first.created_ms <= oldest_ms and not first.is_in_flight else []
        expired: list[Batch] = []
        while self._waiting and self._waiting[0].created_ms <= oldest_ms:
            expired.append(self._waiting.popleft())
        return expired

    def _may_send_new(self, identity: ProducerIdentity | None) -> bool:
        is_alone = self._policy.is_idempotent and not self._is_known
        if not self._waiting or len(self._sent) >= (1 if is_alone else self._policy.in_flight_max):
            return False
        return not self.needs_identity(identity)

    def _seal_next(self, identity: ProducerIdentity | None) -> Batch:
        batch = self._waiting.popleft()
        if self._policy.is_idempotent:
            if self._identity is None:
                self._identity, self._next_sequence = identity, 0
            batch.seal(self._identity, self._next_sequence)
            self._next_sequence = (self._next_sequence + batch.record_count) & _SEQUENCE_MASK
        else:
            batch.seal(None)
        self._sent.append(batch)
        return batch

    def _settle(self) -> list[Batch]:
        """Give up the identity that has a gap, once nothing of it is in flight. Returns the batches that are given up with it."""
        if not self._has_gap or any(each.is_in_flight for each in self._sent):
            return []
        doubtful = [each for each in self._sent if self._gap_is_uncertain and each.is_uncertain]
        certain = [each for each in self._sent if each not in doubtful]
        for each in certain:
            each.is_uncertain = False  # behind the gap it cannot have been appended
        self._waiting.extendleft(reversed(certain))
        self._sent.clear()
        self._retired, self._identity = self._identity, None
        self._is_known = self._has_gap = self._gap_is_uncertain = False
        return doubtful
