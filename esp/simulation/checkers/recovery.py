"""The state in which a replica must be when a node has come back, and the state that follows from its batches."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from esp.simulation.checkers.compacted_records import CompactedRecords
from esp.simulation.checkers.replica_view import BatchView, ReplicaView, fold_producers
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.storage.log import Log


class LostLife(NamedTuple):
    """A replica as a process left it: all sound batches of its files, and how many of them must be there again.

    ``front``: batches below the log start that may be there again, because the file that says the log start has rotted.
    """

    view: ReplicaView
    batches: list[BatchView]
    floor_offset: int
    synced_offset: int
    front: tuple[BatchView, ...] = ()

    @classmethod
    def of(cls, view: ReplicaView, *, keeps_page_cache: bool, has_faulty_disk: bool) -> "LostLife":
        """The replica as the process left it.

        Args:
            view: the replica.
            keeps_page_cache: whether the machine went on.
            has_faulty_disk: whether the device failed, so that nothing is certain.
        """
        # What the process had begun to cut away is not certain any more, but for what it knew to be committed (TRUNC-8).
        floor_offset = max(view.standing_end(), min(view.high_watermark, view.end_offset))
        if floor_offset < view.end_offset:
            note(Excuse.UNFINISHED_CUTS)
        synced_offset = 0 if has_faulty_disk else min(view.recovery_point, floor_offset)
        left = cls(view, view.batches + view.read_rest(), floor_offset, synced_offset)
        return left if keeps_page_cache and not has_faulty_disk else left.after_power_loss()

    def as_found(self) -> "LostLife":
        """As the next process finds it: with what this one wrote in the very moment of its end, and as far as nothing has rotted."""
        end_offset = min(self.floor_offset, self.view.sound_end())
        if end_offset < self.floor_offset:
            note(Excuse.ROTTEN_TAILS)
        return self._replace(
            batches=self.batches + self.view.read_rest(),
            floor_offset=end_offset,
            synced_offset=min(self.synced_offset, end_offset),
            front=self.front + tuple(self.view.read_front() if self.view.has_unreadable_start() else ()),
        )

    def after_power_loss(self) -> "LostLife":
        """The part that is certain when the machine lost power since."""
        return self._replace(floor_offset=self.synced_offset)

    def check(
        self, view: ReplicaView, compacted: CompactedRecords | None = None, left_behind: Sequence[BatchView] = ()
    ) -> bool:
        """Hold the recovered replica against it; return True if it starts below the log start that a rotten file does not say any more.

        Of a log that is ``compacted`` the segments of before a replacement may be there, or the segments of after it (CLEAN-7).

        Args:
            view: of the recovered replica.
            compacted: the model of its partition, if that is compacted.
            left_behind: the batches of an earlier replica of the partition, if that is what was recovered: the node gave it up while
                its log directory had failed, and was assigned the partition again.

        Raises:
            ViolationError: INV-RECOVER-PREFIX (REC-3).
        """
        if view.end_offset < self.floor_offset:
            raise ViolationError(
                "INV-RECOVER-PREFIX",
                view.who,
                f"recovered up to {view.end_offset}, and {self.floor_offset} was there for certain",
            )
        known = {batch.base_offset: batch for batch in left_behind or (*self.front, *self.batches)}
        for batch in view.batches:
            before = known.get(batch.base_offset)
            if before is not None and before.is_same(batch):
                continue
            if compacted is None or compacted.find_difference(batch.written()) is not None:
                raise ViolationError(
                    "INV-RECOVER-PREFIX", view.who, f"recovered {batch}; before the end there was {before}"
                )
        return bool(self.front) and any(batch.is_same(view.batches[0]) for batch in self.front if view.batches)


def check_epochs(view: ReplicaView, log: Log) -> None:
    """The epoch cache is what the batches say.

    Raises:
        ViolationError: INV-EPOCH-CACHE (LOG-7..10).
    """
    start_offset = log.log_start_offset
    expected = view.epochs(start_offset)
    entries = log.leader_epochs.entries()
    if any(later[0] <= earlier[0] or later[1] <= earlier[1] for earlier, later in itertools.pairwise(entries)):
        raise ViolationError("INV-EPOCH-CACHE", view.who, f"not ascending: {entries}")
    if entries and entries[-1][1] == log.log_end_offset:
        entries = entries[:-1]  # an epoch that has begun, and no batch yet
    before = view.before(start_offset)
    if before is not None and log.leader_epochs.epoch_of(start_offset - 1) not in (None, before.leader_epoch):
        raise ViolationError("INV-EPOCH-CACHE", view.who, f"{entries}, but before the log start there is {before}")
    if entries and expected and entries[0][0] == expected[0][0]:
        expected[0] = entries[0] if entries[0][1] <= expected[0][1] else expected[0]
    elif entries and entries[0][1] < start_offset:
        entries = entries[1:]  # the epoch of the record before the log start (TRUNC-3)
    if entries != expected:
        raise ViolationError("INV-EPOCH-CACHE", view.who, f"the cache says {entries}, the batches say {expected}")


def check_producers(view: ReplicaView, log: Log) -> bool:
    """The producers' states are what the batches say, in the fields that a snapshot keeps (PROD-7).

    A log in which rot was found may have been opened with it: then batches that have rotted are not folded (REC-4).

    Returns:
        Whether that excused it.

    Raises:
        ViolationError: INV-PROD-FOLD.
    """
    if log.log_start_offset:
        return False  # a producer may be remembered longer than its batches
    found = {
        producer_id: (state.epoch, state.last_sequence, state.last_offset)
        for producer_id, state in log.producers.items()
    }
    expected: Mapping[int, tuple[int, int, int]] = view.producers()
    is_excused = found != expected and log.rot is not None
    if is_excused:
        sound: dict[int, tuple[int, int, int]] = {}
        fold_producers((batch for batch in view.batches if not batch.is_rotten()), sound)
        expected = sound
    if found != expected:
        differ = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
        details = ", ".join(f"{key}: {found.get(key)} in place of {expected.get(key)}" for key in differ)
        raise ViolationError("INV-PROD-FOLD", view.who, f"(epoch, sequence, offset) of producers: {details}")
    return is_excused
