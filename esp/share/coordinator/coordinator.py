"""The coordinator of the share partitions whose keys one partition of ``__share_group_state`` has.

The log holds the decisions: a state is what its newest snapshot and the updates after that say. Nothing else is kept, and nothing is
answered before it is committed (:mod:`~esp.share.coordinator.entries`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.draft import Topics
from esp.share.coordinator.effects import Answer, Append, Effect, Outbox, Prune
from esp.share.coordinator.entries import NOWHERE, Entry, Part, Waiting, decide
from esp.share.coordinator.replaying import Replay
from esp.share.coordinator.requests import Refused, Request, Result
from esp.share.coordinator.settings import APPEND_BYTES_MAX, ShareCoordinatorSettings

_US_PER_MS: Final = 1_000

_ANSWERS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}
"""The errors for those who ask if a record could not be appended; every other one is UNKNOWN_SERVER_ERROR."""


@dataclass(slots=True)
class _Move:
    parts: Sequence[Part]
    offset: int = NOWHERE


class ShareCoordinator:
    """One state. First the partition's records are replayed from the log's start to its end, then :meth:`begin` makes it serve;
    :meth:`unload` ends it, once and for all. A ticket is any object by which the driver knows a request; each is answered once.

    Args:
        settings: the operator's.
        topics: the cluster's.
    """

    def __init__(self, settings: ShareCoordinatorSettings, topics: Topics) -> None:
        self._settings = settings
        self._topics = topics
        self._outbox: Final = Outbox()
        self._entries: dict[ShareStateKey, Entry] = {}
        self._moves: dict[int, _Move] = {}
        self._waiting: dict[Waiting, None] = {}
        """Requests that are not answered, in the order in which they came."""
        self._last_token = 0
        self._replay = Replay()
        self._end_offset = 0
        """All records below it are committed."""
        self._pruned_offset = 0
        self._prune_us: int | None = None
        self._cold_us: int | None = None

    # Life.

    def replay_at(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of the log. Records of types that are not known are skipped.

        Raises:
            CorruptionError: the record is malformed, or its version is not known.
        """
        self._replay.add(offset, key, value)

    def begin(self, now: Now) -> list[Effect]:
        """All records are replayed, and committed."""
        self._entries = {entry.key: entry for entry in self._replay.entries(now.monotonic_us)}
        self._end_offset = self._replay.end_offset
        self._prune_us = now.monotonic_us + self._settings.prune_interval_ms * _US_PER_MS
        self._cold_us = now.monotonic_us + self._settings.cold_snapshot_interval_ms * _US_PER_MS
        self._forget_gone(now)
        return self._outbox.take()

    @property
    def orphans(self) -> frozenset[ShareStateKey]:
        """Share partitions of whose state the log has lost the beginning, so that it counts as none."""
        return frozenset(self._replay.orphans)

    def unload(self) -> list[Effect]:
        """Another broker coordinates: open requests are answered NOT_COORDINATOR. Nothing may be called afterwards."""
        self._moves.clear()
        for waiting in tuple(self._waiting):
            self._answer(waiting, Refused(ErrorCode.not_coordinator))
        return self._outbox.take()

    # Requests.

    def handle(self, request: Request, ticket: object, now: Now) -> list[Effect]:
        """Decide about a request; it is answered with a :data:`~esp.share.coordinator.requests.Result`."""
        entry = self._entries.get(request.key)
        if entry is None:
            entry = self._entries[request.key] = Entry(request.key)
        waiting = Waiting(request, ticket, now.monotonic_us + self._settings.write_timeout_ms * _US_PER_MS)
        self._waiting[waiting] = None
        entry.queue.append(waiting)
        self._advance((entry,), now)
        return self._outbox.take()

    # The log.

    def on_appended(self, token: int, offset: int) -> None:
        """The first record of an :class:`~esp.share.coordinator.effects.Append` has this offset."""
        self._moves[token].offset = offset

    def on_committed(self, token: int, now: Now) -> list[Effect]:
        """The records of an :class:`~esp.share.coordinator.effects.Append` are committed."""
        move = self._moves.pop(token)
        assert move.offset >= self._end_offset, "what is committed was appended, in the order of the log"
        self._end_offset = move.offset + len(move.parts)
        for number, part in enumerate(move.parts):
            self._settle(part, move.offset + number, now)
        self._advance((part.entry for part in move.parts), now)
        return self._outbox.take()

    def on_append_failed(self, token: int, error: ErrorCode, now: Now) -> list[Effect]:
        """The records of an :class:`~esp.share.coordinator.effects.Append` are not in the log and never will be."""
        move = self._moves.pop(token)
        refused = Refused(_ANSWERS.get(error, ErrorCode.unknown_server_error))
        for part in move.parts:
            part.entry.is_busy = False
            for waiting, _ in part.answers:
                self._answer(waiting, refused)
        self._advance((part.entry for part in move.parts), now)
        return self._outbox.take()

    def on_topics_gone(self, now: Now) -> list[Effect]:
        """Topics were deleted: so are the states of their partitions."""
        self._forget_gone(now)
        return self._outbox.take()

    # Time.

    @property
    def next_deadline_us(self) -> int | None:
        """The monotonic time at which :meth:`on_time` is due; None before :meth:`begin`. Read it after each call."""
        waiting = next(iter(self._waiting), None)
        times = (self._prune_us, self._cold_us, None if waiting is None else waiting.deadline_us)
        return min((time_us for time_us in times if time_us is not None), default=None)

    def on_time(self, now: Now) -> list[Effect]:
        """Do what is due: answers that waited too long, snapshots of what did not change, pruning."""
        self._give_up_late_answers(now)
        if self._cold_us is not None and self._cold_us <= now.monotonic_us:
            self._cold_us = now.monotonic_us + self._settings.cold_snapshot_interval_ms * _US_PER_MS
            self._forget_gone(now)  # those whose tombstones failed
            self._snapshot_cold(now)
        if self._prune_us is not None and self._prune_us <= now.monotonic_us:
            self._prune_us = now.monotonic_us + self._settings.prune_interval_ms * _US_PER_MS
            if self.prune_offset > self._pruned_offset:
                self._pruned_offset = self.prune_offset
                self._outbox.add(Prune(self._pruned_offset))
        return self._outbox.take()

    @property
    def prune_offset(self) -> int:
        """The lowest offset that must stay: the oldest snapshot of all share partitions that have a state (SHARE-22).

        A snapshot counts as soon as it is committed, and the one before it until then. Looks at all share partitions.
        """
        offsets = (entry.snapshot_offset for entry in self._entries.values() if entry.snapshot is not None)
        return min(offsets, default=self._end_offset)

    # The rest is how it is done.

    def _advance(self, entries: Iterable[Entry], now: Now) -> None:
        """Decide about all that waits for these share partitions, and have what changes appended."""
        parts: list[Part] = []
        for entry in entries:
            if entry.is_busy:
                continue
            written, answers = decide(entry, self._topics, self._settings.updates_per_snapshot, now.wall_ms)
            if written is not None:
                entry.is_busy = True
                parts.append(Part(entry, written, answers))
                continue
            for waiting, result in answers:
                self._answer(waiting, result)
            if entry.is_empty:
                del self._entries[entry.key]
        for batch in _in_batches(parts):
            self._last_token += 1
            self._moves[self._last_token] = _Move(batch)
            records = tuple(part.written.record for part in batch)
            self._outbox.add(Append(self._last_token, records, now.wall_ms))

    def _settle(self, part: Part, offset: int, now: Now) -> None:
        entry, written = part.entry, part.written
        if written.snapshot != entry.snapshot:
            entry.snapshot_offset, entry.snapshot_us = offset, now.monotonic_us
        entry.state, entry.snapshot, entry.update_count = written.state, written.snapshot, written.update_count
        entry.is_read = written.is_read
        entry.is_busy = False
        for waiting, result in part.answers:
            self._answer(waiting, result)

    def _answer(self, waiting: Waiting, result: Result) -> None:
        """Answer a request, unless that was given up."""
        if waiting in self._waiting:
            del self._waiting[waiting]
            self._outbox.add(Answer(waiting.ticket, result))

    def _give_up_late_answers(self, now: Now) -> None:
        """Answer those who have waited too long. What is on its way into the log goes on; what is not decided yet never will be."""
        late = Refused(_ANSWERS[ErrorCode.request_timed_out])
        while (waiting := next(iter(self._waiting), None)) is not None and waiting.deadline_us <= now.monotonic_us:
            queue = self._entries[waiting.request.key].queue
            if waiting in queue:
                queue.remove(waiting)
            self._answer(waiting, late)

    def _forget_gone(self, now: Now) -> None:
        gone = [entry for entry in self._entries.values() if self._topics.is_gone(entry.key.topic_id)]
        for entry in gone:
            entry.may_be_gone = True
        self._advance(gone, now)

    def _snapshot_cold(self, now: Now) -> None:
        """Write old snapshots again, so that the log can be cut, if more than half of it is not needed."""
        live = [entry for entry in self._entries.values() if entry.snapshot is not None]
        needed = sum(1 + entry.update_count for entry in live)
        if self._end_offset - self.prune_offset - needed < max(needed, self._settings.garbage_min):
            return
        before_us = now.monotonic_us - self._settings.cold_snapshot_interval_ms * _US_PER_MS
        cold = [entry for entry in live if entry.snapshot_us <= before_us]
        for entry in cold:
            entry.wants_snapshot = True
        self._advance(cold, now)


def _in_batches(parts: Iterable[Part]) -> Iterable[list[Part]]:
    batch: list[Part] = []
    size = 0
    for part in parts:
        key, value = part.written.record.key or b"", part.written.record.value or b""
        if batch and size + len(key) + len(value) > APPEND_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += len(key) + len(value)
    if batch:
        yield batch
