"""The parts of one log that are not on the device yet, and the order in which they get there.

A new segment, but for a log's second, costs the loop no sync: its names, the sealed segment before it and the producer snapshot are synced
by the next flush, before the recovery point passes them.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from esp.ports.disk import Disk
from esp.storage.layout import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    TEMPORARY_SUFFIX,
)
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.segment import Segment
from esp.storage.steps import Syncing

_logger = logging.getLogger(__name__)

_UNSAVED_ENTRIES_MAX: Final = 256
"""Index entries of the active segment that a flush leaves to the next one; after a crash their batches' headers are read again."""


class Unsynced:
    """Counts of written batches and bytes, and lists of files that must be synced.

    Args:
        disk: where the log lives.
        path: the replica's directory.
        epochs: the log's leader epochs.
        segments: sealed ones that may not be synced.
        snapshots: paths of producer snapshots that may not be synced.
        shortened: the segment whose length may not be on the device, though all its batches are: a process before this one may have
            cut it, and died before the sync.
        directory: the directory above, if the replica's name in it, and whose replica it is, may not be synced.
        is_settled: whether all that is there now was left by a clean shutdown, or was just begun and holds nothing.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_epochs",
        "_epochs_saved",
        "_failure",
        "_names_changed",
        "_names_synced",
        "_path",
        "_segments",
        "_shortened",
        "_snapshots",
        "appended_batches",
        "appended_bytes",
        "cuts",
        "flushed_batches",
        "flushed_bytes",
        "is_of_this_process",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        epochs: LeaderEpochs,
        *,
        segments: list[Segment],
        snapshots: list[str],
        shortened: Segment | None,
        directory: str | None,
        is_settled: bool,
    ) -> None:
        self.appended_batches = self.flushed_batches = 0
        self.appended_bytes = self.flushed_bytes = 0
        self.cuts = 0
        """Rises whenever segments were cut or taken out, so that syncs awaited meanwhile are not believed."""
        self._disk = disk
        self._path = path
        self._epochs = epochs
        self._epochs_saved = 0
        self._segments = [(0, segment) for segment in segments]
        """Sealed ones, with a number that is new whenever one is sealed."""
        self._snapshots = snapshots
        self._shortened = shortened
        self._directory = directory
        self.is_of_this_process = is_settled
        """True if all that may not be on the device was written by this process."""
        self._names_changed = 1  # a log that was just made or recovered may have new names
        self._names_synced = 0
        self._failure: OSError | None = None
        """The error of a sync of names between two flushes."""

    def relocate(self, path: str) -> None:
        """The replica's directory has another name now, which is durable."""
        self._snapshots = [path + snapshot.removeprefix(self._path) for snapshot in self._snapshots]
        self._path = path

    @property
    def has_segments(self) -> bool:
        """True if a sealed segment waits for a sync."""
        return bool(self._segments)

    @property
    def has_names(self) -> bool:
        """True if a creation, rename or removal in the directory waits for a sync."""
        return self._names_changed != self._names_synced

    @property
    def is_untouched(self) -> bool:
        """True if the files hold what a clean shutdown left in them, or nothing at all: then nothing has to be synced for the next one.

        Leader epochs that began since have no batch, so that the next start does not look at them (LOG-10).
        """
        return self.is_of_this_process and not self.appended_batches and self._names_changed == 1

    def on_roll(self, sealed: Segment, snapshot_path: str) -> None:
        """A segment was sealed, a producer snapshot written, and a new segment begun."""
        self._names_changed += 1
        self._segments.append((self._names_changed, sealed))
        self._snapshots.append(snapshot_path)

    def on_snapshots(self, paths: Sequence[str]) -> None:
        """Producer snapshots were written, of segments that may be sealed long since."""
        if paths:
            self._names_changed += 1
            self._snapshots += paths

    def on_cut(self, removed: Sequence[Segment], removed_paths: list[str]) -> None:
        """Segments were taken out, or the active one cut."""
        self.cuts += 1
        self._names_changed += 1
        self._segments = [entry for entry in self._segments if entry[1] not in removed]
        self._snapshots = [path for path in self._snapshots if path not in removed_paths]

    def save_indexes(self, segment: Segment) -> bool:
        """Write index entries; whether all stand in the files. Indexes can be rebuilt, so a failure is no more than a warning."""
        try:
            segment.save_indexes()
        except OSError as error:
            _logger.warning(
                "%s: the indexes of segment %d cannot be written: %s", self._path, segment.base_offset, error
            )
            return False
        return True

    def save_epochs_blocking(self) -> None:
        """Replace the leader epoch file durably if it is not up to date. Raises OSError."""
        version = self._epochs.version
        if version != self._epochs_saved:
            self._disk.replace_file_blocking(f"{self._path}/{LEADER_EPOCH_FILE}", self._epochs.encode())
            self._epochs_saved = version

    def sync_identity_blocking(self) -> None:
        """Make the replica's identity durable, before a recovery point says that something of it is (decision 13).

        Raises:
            OSError: the device failed, finally (SYNC-1).
        """
        self._require_sound()
        if self._directory is not None:
            file = self._disk.open(f"{self._path}/{PARTITION_METADATA_FILE}")
            try:
                file.sync_blocking()
            finally:
                file.close()

    def sync_names_blocking(self) -> None:
        """Make the names in the directory durable.

        Raises:
            OSError: the device failed, now or before: a sync that failed once is never repeated (SYNC-1), and the next flush fails as well.
        """
        self._require_sound()
        changed = self._names_changed
        try:
            self._disk.sync_directory_blocking(self._path)
        except OSError as error:
            self._failure = error
            raise
        self._names_synced = changed

    def syncing_names(self) -> Syncing[None]:
        """Sync names like :meth:`sync_names_blocking`, until none in the directory waits; nothing is done if none does."""
        self._require_sound()
        while self.has_names:
            changed = self._names_changed
            try:
                yield self._path
            except OSError as error:
                self._failure = error
                raise
            self._names_synced = changed

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise self._failure

    def keep_front_blocking(self) -> None:
        """Make the first segment's name durable before a later one's can be, or before it becomes the first (REC-3).

        Else a power loss could take the front of the log and leave its end, and the log would seem to begin there. Raises OSError.
        """
        if self.has_names:
            self.sync_names_blocking()

    def syncing(self, active: Segment, *, active_too: bool) -> Syncing[bool]:
        """Sync all that was written before; True if nothing was cut meanwhile and nothing is missing for want of space.

        After a cut, which :attr:`cuts` shows, it is unknown what was synced: the caller begins again.
        ``active_too``: the active segment holds bytes that were not synced.
        """
        self._require_sound()
        cuts = self.cuts
        batches, size = self.appended_batches, self.appended_bytes
        sealed = list(self._segments)
        snapshots = list(self._snapshots)
        assert active.indexes is not None
        if active.indexes.unsaved > _UNSAVED_ENTRIES_MAX:
            self.save_indexes(active)
        for _number, segment in sealed:
            if cuts != self.cuts or not self.save_indexes(segment):
                return False
            yield segment.file
            # A cut may have made a segment of these the active one again: entries that it gets meanwhile stand in memory alone.
            for path in filter(self._disk.exists, map(segment.path, segment.index_suffixes)):
                if cuts != self.cuts:
                    return False
                yield from self._syncing_closed(path)
        if active_too or active is self._shortened:
            yield active.file
            if cuts == self.cuts:
                self._shortened = None
        for path in filter(self._disk.exists, snapshots):
            if cuts != self.cuts:
                return False
            yield from self._syncing_closed(path)
        if self._directory is not None:
            yield from self._syncing_closed(f"{self._path}/{PARTITION_METADATA_FILE}")
            yield self._directory
            self._directory = None
        if not (yield from self._syncing_epochs()):
            return False
        changed = self._names_changed
        if changed != self._names_synced:
            yield self._path
            self._names_synced = changed
        if cuts != self.cuts:
            return False
        # One that a truncation had made the active one, and that was sealed again meanwhile, stays under its new number.
        self._segments = [entry for entry in self._segments if entry not in sealed]
        self._snapshots = [path for path in self._snapshots if path not in snapshots]
        self.flushed_batches = max(self.flushed_batches, batches)
        self.flushed_bytes = max(self.flushed_bytes, size)
        return True

    def settling(self, snapshots: Mapping[str, bytes]) -> Generator[None, None, None]:
        """Bring everything to the device that was written, and the last snapshot; yields where all that was written before must be there.

        A file is replaced under a temporary name. A snapshot that is new gets its name at once, which takes half of the renames of a stop:
        the checksum in it tells a part from the whole.

        Nothing else is written to the log from now on.

        Args:
            snapshots: the paths and the bytes of producer snapshots.

        Raises:
            OSError: the device failed or is full, now or before; or what is thrown at a yield.
        """
        self._require_sound()
        replaced: dict[str, bytes] = {}
        for path, data in snapshots.items():
            if self._disk.exists(path):
                replaced[path] = data
            else:
                self._disk.write_file(path, data)
        if self._epochs.version != self._epochs_saved:
            replaced[f"{self._path}/{LEADER_EPOCH_FILE}"] = self._epochs.encode()
        for path, data in replaced.items():
            self._disk.write_file(path + TEMPORARY_SUFFIX, data)
        yield
        for path in replaced:
            self._disk.rename(path + TEMPORARY_SUFFIX, path)
        yield
        self._epochs_saved = self._epochs.version
        self._names_synced = self._names_changed
        self._directory = None
        self._segments.clear()
        self._snapshots.clear()
        self.flushed_batches, self.flushed_bytes = self.appended_batches, self.appended_bytes

    def _syncing_closed(self, path: str) -> Syncing[None]:
        """Sync a file that is not open."""
        file = self._disk.open(path)
        try:
            yield file
        finally:
            file.close()

    def _syncing_epochs(self) -> Syncing[bool]:
        """Write the leader epochs if they changed; the directory is synced afterwards. False if there is no room for them.

        If they change again while the device works, they are written again: once the recovery point has passed a batch, recovery looks for
        its epoch in this file only (LOG-10).
        """
        temporary = f"{self._path}/{LEADER_EPOCH_FILE}{TEMPORARY_SUFFIX}"
        while (version := self._epochs.version) != self._epochs_saved:
            try:
                self._disk.write_file(temporary, self._epochs.encode())
            except OSError as error:
                _logger.warning("%s: the leader epochs cannot be written: %s", self._path, error)
                return False
            yield from self._syncing_closed(temporary)
            if version == self._epochs.version and version != self._epochs_saved:
                self._disk.rename(temporary, f"{self._path}/{LEADER_EPOCH_FILE}")
                self._epochs_saved = version
                self._names_changed += 1
        return True
