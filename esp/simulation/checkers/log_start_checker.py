"""The offsets at which logs may start (LOG-12): records are gone only if a client asked for it, or if retention may take them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from esp.model.ids import TopicId
from esp.records.batch_header import read_header
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.storage.segment import noted_timestamp

Key = tuple[TopicId, int]


class Taken(NamedTuple):
    """Offsets that retention takes."""

    start_offset: int
    end_offset: int
    uncapped_end: int
    """The end of those that no cap of a hold lets go; 0 if a cap lets all go."""


class LogStartChecker:
    """Remembers, for each partition, up to which offset records may be gone.

    A replica's own retention may be ahead of its leader's, and a log start that was not written down yet falls back when its node is
    killed: so what is compared is each replica's log start with the largest that was ever permitted.

    Args:
        committed: what is committed, by topic and partition; filled while the run goes on.
        is_there: whether a partition is in the newest metadata.
    """

    def __init__(self, committed: Mapping[Key, CommittedLog], is_there: Callable[[Key], bool]) -> None:
        self._committed = committed
        self._is_there = is_there
        self.on_retained: Callable[[str, Key, TopicSettings, Taken], None] = lambda _who, _key, _settings, _taken: None
        """Told of a replica that gives records of a held topic up, with the topic's settings."""
        self._asked: dict[Key, int] = {}
        self._permitted: dict[Key, int] = {}
        self.retained = 0
        """The number of times that retention moved a log start."""
        self.of_successors = 0
        """The number of times that a reader was told of a later log start than its topic had, when the topic was gone."""

    def committed_end(self, key: Key) -> int:
        """The end of the committed records of a partition, as far as any replica showed it."""
        committed = self._committed.get(key)
        return committed.end_offset if committed is not None else 0

    def asked(self, key: Key) -> int:
        """The largest offset up to which a client asked for deletion."""
        return self._asked.get(key, 0)

    def retained_end(self, key: Key) -> int:
        """The offset up to which records may be gone although no client asked for it."""
        return self._permitted.get(key, 0)

    def permitted(self, key: Key) -> int:
        """Up to where records may be gone."""
        return max(self.retained_end(key), self.asked(key))

    def knows_start(self, key: Key) -> bool:
        """True if the records that are gone are known; False where more of a partition was lost than is promised (ELECT-5)."""
        return not self._is_excused(key)

    def on_begun(self, key: Key, start_offset: int) -> None:
        """A partition begins by the metadata, where the one of its name before it has ended (FLOOR-2)."""
        self._permitted[key] = start_offset

    def on_asked(self, key: Key, offset: int) -> None:
        """A client is about to ask for deletion up to an offset."""
        self._asked[key] = max(self.asked(key), offset)

    def on_deleted(self, who: str, offset: int, low_watermark: int, durable_start: int | None) -> None:
        """A leader says that a deletion is done: everywhere, and durably on its own device (decision 37).

        Args:
            who: the partition.
            offset: what was asked for.
            low_watermark: where the last of the replicas starts, by the answer.
            durable_start: where the leader's log would start after a power loss; None if it is not known any more.

        Raises:
            ViolationError: INV-LOG-START.
        """
        if low_watermark < offset:
            raise ViolationError("INV-LOG-START", who, f"is deleted up to {offset}, and starts at {low_watermark}")
        if durable_start is not None and durable_start < offset:
            raise ViolationError(
                "INV-LOG-START", who, f"is deleted up to {offset}, on the device of its leader up to {durable_start}"
            )

    def on_told(self, who: str, key: Key, start_offset: int) -> None:
        """A reader was told where a log starts, after its offset was out of range.

        Readers ask for that by name. If the topic is deleted between their fetch and the question, another topic of the name may answer,
        which begins where this one ended (FLOOR-2).

        Raises:
            ViolationError: INV-LOG-START.
        """
        if start_offset <= self.permitted(key) or self._is_excused(key):
            return
        if not self._is_there(key):
            self.of_successors += 1
            return
        raise ViolationError(
            "INV-LOG-START",
            who,
            f"the log starts at {start_offset}; records below {self.permitted(key)} may be deleted",
        )

    def on_found(self, key: Key, view: ReplicaView, start_offset: int) -> None:
        """A node has opened a replica, or made it. Raises ViolationError."""
        if start_offset > self.permitted(key):
            raise ViolationError(
                "INV-LOG-START",
                view.who,
                f"is opened with the log start {start_offset}; records below {self.permitted(key)} may be deleted",
            )

    def on_moved(self, key: Key, view: ReplicaView, settings: TopicSettings, start_offset: int, now_ms: int) -> None:
        """A replica's log start rises to ``start_offset``; ``view`` is as it was before. Raises ViolationError."""
        permitted = self.permitted(key)
        if start_offset <= permitted:
            return
        size_after = sum(batch.size for batch in view.batches)
        held_end = 0
        for batch in view.batches:
            size_after -= batch.size
            if batch.next_offset <= permitted:
                continue
            if batch.base_offset >= start_offset:
                break
            is_old = 0 <= settings.retention_ms < now_ms - _timestamp_of(batch)
            is_excess = 0 <= settings.retention_bytes <= size_after
            if batch.next_offset > start_offset or not (is_old or is_excess):
                raise ViolationError(
                    "INV-LOG-START",
                    view.who,
                    f"starts at {start_offset}; asked for was {permitted}, and {batch} may stay",
                )
            is_aged = 0 <= settings.retention_hold_max_ms < now_ms - _timestamp_of(batch)
            if not (is_aged or 0 <= settings.retention_hold_max_bytes <= size_after):
                held_end = batch.next_offset
        if settings.retention_hold_groups:
            taken = Taken(max(permitted, view.log_start_offset), start_offset, held_end)
            self.on_retained(view.who, key, settings, taken)
        self.retained += 1
        self._permitted[key] = start_offset

    def _is_excused(self, key: Key) -> bool:
        committed = self._committed.get(key)
        return committed is None or committed.is_excused


def _timestamp_of(batch: BatchView) -> int:
    """The largest timestamp of the batch's records; a header without records holds no segment back (decision 45)."""
    return noted_timestamp(read_header(batch.content.written(batch.position, batch.position + batch.size)))
