"""The states of share partitions as the records of ``__share_group_state`` tell them, each batch as it is seen to be committed.

A share partition has one life after another: each begins with the snapshot of another state epoch, when the group initialises it or an
administrator alters it, and ends with the next one or with a tombstone. Within a life the start offset does not go back, and each record
that it passes has been done with for a reason that was seen.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from esp.records.batch import iterate_records
from esp.schemas.share_state_record_codec import decode_share_state_record
from esp.schemas.share_state_records import (
    NO_COMPLETE_COUNT,
    NO_START_OFFSET,
    ShareSnapshotRecord,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
)
from esp.share.coordinator.draft import Snapshot
from esp.share.coordinator.state import ShareState, replayed
from esp.share.window import Window
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError

NO_EPOCH: Final = -1
NEVER: Final = 1 << 63
"""Above all offsets."""


class KeptState(NamedTuple):
    """The state of a share partition, with its place in the log."""

    state: ShareState
    snapshot: Snapshot
    """The newest one."""
    snapshot_offset: int
    """Its place in the log."""
    update_count: int
    """The updates after it."""


@dataclass(slots=True)
class Attempts:
    """The deliveries of one record in one life, by leaders that had not been replaced."""

    count: int = 0
    leaders: int = 0
    """The leaders that delivered it. Each change of leader may cost an attempt, the end of which was not persisted."""
    unwritten: int = 0
    """The deliveries after an attempt whose lock or session had ended, and which the log did not have."""


@dataclass(slots=True)
class Life:
    """A share partition from one beginning to the next."""

    number: int
    """The number of this life among the share partition's lives, across deletions of its group."""
    state_epoch: int
    start_offset: int = NO_START_OFFSET
    """The highest one of its records."""
    begin_offset: int = NO_START_OFFSET
    """The offset of its first record."""
    first_delivered: int = NEVER
    """The lowest offset that a leader delivered: where it began, or above. The next leader must know of it."""
    reasons: set[int] = field(default_factory=set)
    """The offsets that may count as done with: a member said so, or their last attempt was begun."""
    words: dict[int, str] = field(default_factory=dict)
    """The member that a leader has believed last that a record is done with, by offset."""
    done: set[int] = field(default_factory=set)
    """The offsets of which it was answered that they are done with: never delivered again."""
    rejected: set[int] = field(default_factory=set)
    """The offsets among these that were rejected."""
    exhausted: set[int] = field(default_factory=set)
    """The offsets whose last attempt was begun."""
    attempts: dict[int, Attempts] = field(default_factory=dict)
    """The deliveries of each record, by offset."""


@dataclass(slots=True)
class _Followed:
    lives: list[Life] = field(default_factory=list)
    snapshot: ShareSnapshotValue | None = None
    snapshot_offset: int = 0
    """Its place in the log."""
    partition: int = 0
    """The partition of ``__share_group_state`` that has the state."""
    updates: list[ShareUpdateValue] = field(default_factory=list)
    leader_epoch: int = NO_EPOCH
    ended_epoch: int = NO_EPOCH
    """The state epoch that the last deletion ended. Leader epochs of before it are forgotten with the state."""
    replayed: ShareState | None = None
    """The state that these make up, if it was asked for."""


class ShareStateLog:
    """Follows the records of all share partitions.

    Args:
        is_excused: whether more was lost than is promised of the state or the records of a share partition (ELECT-5).
        log_start: the highest log start that any replica of a share partition's partition ever had.
        find_missed: those among offsets which members did not get that have records for them.
    """

    def __init__(
        self,
        is_excused: Callable[[ShareStateKey], bool],
        log_start: Callable[[ShareStateKey], int],
        find_missed: Callable[[ShareStateKey, Iterable[int]], list[int]] = lambda _key, offsets: list(offsets),
    ) -> None:
        self.passed = 0
        """Records that start offsets have passed."""
        self.replays = 0
        """The number of times that a coordinator's states were held against the replay of its log."""
        self._is_excused = is_excused
        self._log_start = log_start
        self._find_missed = find_missed
        self._followed: dict[ShareStateKey, _Followed] = {}

    @property
    def keys(self) -> tuple[ShareStateKey, ...]:
        """The share partitions that have a state now."""
        return tuple(key for key, followed in self._followed.items() if followed.snapshot is not None)

    def life(self, key: ShareStateKey, state_epoch: int | None = None) -> Life | None:
        """The present life of a share partition, or the last one that began in a state epoch."""
        lives = self._followed[key].lives if key in self._followed else []
        return next((life for life in reversed(lives) if state_epoch in (None, life.state_epoch)), None)

    def ended_epoch(self, key: ShareStateKey) -> int:
        """The state epoch of a share partition that its last deletion ended; NO_EPOCH if it was never deleted."""
        followed = self._followed.get(key)
        return NO_EPOCH if followed is None else followed.ended_epoch

    def first_life(self, key: ShareStateKey) -> Life | None:
        """The first life of a share partition that was seen."""
        followed = self._followed.get(key)
        return followed.lives[0] if followed is not None and followed.lives else None

    def state(self, key: ShareStateKey) -> ShareState | None:
        """The state of a share partition by its committed records."""
        followed = self._followed.get(key)
        if followed is None or followed.snapshot is None:
            return None
        if followed.replayed is None:
            followed.replayed = replayed(followed.snapshot, followed.updates)
        return followed.replayed

    def first_open(self, key: ShareStateKey) -> int:
        """The first offset that is not done with; NO_START_OFFSET if it is not known yet where the share partition begins."""
        state = self.state(key)
        if state is None or state.start_offset == NO_START_OFFSET:
            return NO_START_OFFSET
        return Window(state.start_offset, state.batches).start_offset

    def find_unreported(self, key: ShareStateKey, reported: Collection[int]) -> list[int]:
        """The offsets that need a dead letter, as far as members can know, and have none: rejected, or out of attempts and passed.

        Args:
            key: the share partition.
            reported: the offsets that letters are about.
        """
        life = self.life(key)
        if life is None:
            return []
        passed = {offset for offset in life.exhausted if offset < self.first_open(key) and offset not in life.words}
        start = self._log_start(key)
        missing = sorted(offset for offset in life.rejected | passed if offset >= start and offset not in reported)
        return self._find_missed(key, missing)

    def needed_from(self, partition: int) -> int | None:
        """The place of the oldest snapshot in a partition of ``__share_group_state`` that is needed; None if there is none."""
        live = (one for one in self._followed.values() if one.snapshot is not None and one.partition == partition)
        return min((one.snapshot_offset for one in live), default=None)

    def check_replay(self, where: str, partition: int, states: Mapping[ShareStateKey, KeptState]) -> None:
        """A share coordinator shows its states, when its log has ended and nothing of them is on its way.

        Nothing is compacted here: the log is cut, below the oldest snapshot that is needed, so that each state is that of its newest
        snapshot and the updates after it, wherever the log begins.

        Args:
            where: the coordinator's name.
            partition: of ``__share_group_state``.
            states: the states.

        Raises:
            ViolationError: INV-GROUP-REPLAY.
        """
        self.replays += 1
        mine = {key: self._kept(key) for key, one in self._followed.items() if one.partition == partition}
        for key in {**mine, **states}:
            if mine.get(key) != states.get(key) and not self._is_excused(key):
                raise ViolationError(
                    "INV-GROUP-REPLAY", f"{where}, {key}", f"has {states.get(key)}, its log {mine.get(key)}"
                )

    def _kept(self, key: ShareStateKey) -> KeptState | None:
        followed, state = self._followed[key], self.state(key)
        if state is None or followed.snapshot is None:
            return None
        snapshot = Snapshot(followed.snapshot.snapshot_epoch, followed.snapshot.create_timestamp_ms)
        return KeptState(state, snapshot, followed.snapshot_offset, len(followed.updates))

    def on_committed(self, partition: int, batches: Iterable[BatchView]) -> None:
        """Batches of a partition of ``__share_group_state`` were seen to be committed for the first time.

        Raises:
            ViolationError: INV-SPSO, INV-SHARE-FENCE, INV-SHARE-LOSS, INV-SHARE-LAG.
        """
        for batch in batches:
            if batch.is_control:
                continue
            for record in iterate_records(batch.written()):
                decoded = None if record.key is None else decode_share_state_record(record.key, record.value)
                if decoded is None:
                    continue
                followed = self._followed.setdefault(decoded.key, _Followed())
                followed.replayed = None
                if not isinstance(decoded, ShareSnapshotRecord):
                    self._on_update(decoded.key, followed, decoded.value)
                elif decoded.value is None:
                    followed.snapshot, followed.leader_epoch = None, NO_EPOCH
                    followed.ended_epoch = followed.lives[-1].state_epoch if followed.lives else NO_EPOCH
                    followed.updates.clear()
                else:
                    followed.partition, followed.snapshot_offset = partition, record.offset
                    self._on_snapshot(decoded.key, followed, decoded.value)

    def _on_snapshot(self, key: ShareStateKey, followed: _Followed, value: ShareSnapshotValue) -> None:
        before = followed.snapshot
        if before is not None and value.state_epoch < before.state_epoch and not self._is_excused(key):
            raise ViolationError(
                "INV-SHARE-FENCE", f"{key}", f"its state epoch fell from {before.state_epoch} to {value.state_epoch}"
            )
        has_lag = value.start_offset == NO_START_OFFSET or value.complete_count != NO_COMPLETE_COUNT
        if not has_lag and not self._is_excused(key):
            raise ViolationError(
                "INV-SHARE-LAG",
                f"{key}",
                f"begins at {value.start_offset}, and does not say how many records are done with",
            )
        followed.snapshot = value
        followed.updates.clear()
        if before is None or before.state_epoch != value.state_epoch:
            life = Life(len(followed.lives), value.state_epoch, begin_offset=value.start_offset)
            followed.lives.append(life)
        self._on_change(key, followed, value.leader_epoch, value.start_offset)

    def _on_update(self, key: ShareStateKey, followed: _Followed, value: ShareUpdateValue) -> None:
        if followed.snapshot is None or value.snapshot_epoch != followed.snapshot.snapshot_epoch:
            if not self._is_excused(key):
                raise ViolationError(
                    "INV-SHARE-FENCE",
                    f"{key}",
                    f"an update of snapshot {value.snapshot_epoch} follows {followed.snapshot}",
                )
            return
        followed.updates.append(value)
        self._on_change(key, followed, value.leader_epoch, value.start_offset)

    def _on_change(self, key: ShareStateKey, followed: _Followed, leader_epoch: int, start_offset: int) -> None:
        if leader_epoch < followed.leader_epoch and not self._is_excused(key):
            raise ViolationError(
                "INV-SHARE-FENCE", f"{key}", f"its leader epoch fell from {followed.leader_epoch} to {leader_epoch}"
            )
        followed.leader_epoch = max(followed.leader_epoch, leader_epoch)
        if start_offset == NO_START_OFFSET:
            return
        life = followed.lives[-1]
        if start_offset < life.start_offset and not self._is_excused(key):
            raise ViolationError(
                "INV-SPSO", f"{key}", f"its start offset fell from {life.start_offset} to {start_offset}"
            )
        self._check_passed(key, life, start_offset)
        life.start_offset = max(life.start_offset, start_offset)

    def _check_passed(self, key: ShareStateKey, life: Life, start_offset: int) -> None:
        first = life.first_delivered if life.start_offset == NO_START_OFFSET else life.start_offset
        passed = range(max(first, self._log_start(key)), start_offset)
        self.passed += len(passed)
        lost = self._find_missed(key, [offset for offset in passed if offset not in life.reasons])
        if lost and not self._is_excused(key):
            raise ViolationError(
                "INV-SHARE-LOSS",
                f"{key}",
                f"its start offset passes {lost}, which no member accepted or rejected, and which were not delivered as often as the limit",
            )
