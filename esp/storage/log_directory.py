"""A data directory, an entry of ``log.dirs``: its lock and identity, the logs in it, their checkpoints, the clean shutdown marker.

The files are described in docs/OPERATIONS.md, "The data directory". A directory is clean if it was left by
:meth:`LogDirectory.close_blocking`; the marker holds the broker epoch of that, and is gone, durably, before anything is read or written
(REC-1).

Each replica has a directory of its own below it (:mod:`esp.storage.replica_directory`). Its name says whether the replica is in use, moves
here from another data directory, is to be removed, or is kept as a stray or in the trash; a replica changes its standing by a rename.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import METADATA_PARTITION, NO_BROKER_EPOCH, ZERO_UUID, BrokerEpoch, TopicId, TopicPartition
from esp.ports.disk import Disk, FileSystem, Lock
from esp.settings.topic import TopicSettings
from esp.storage.clean_marker import CleanMarker, CleanStop, LoadingMarker, RunningMarker
from esp.storage.disk_reserve import DiskReserve
from esp.storage.layout import (
    LOCK_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    TEMPORARY_SUFFIX,
    DirectoryKind,
    parse_directory_name,
)
from esp.storage.log import Log
from esp.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties_blocking
from esp.storage.offset_checkpoints import OffsetCheckpoints
from esp.storage.partition_metadata import read_topic_id, write_topic_id, write_topic_id_blocking
from esp.storage.recovery import KnownOffsets, count_segments, load_log_blocking, may_have_gaps
from esp.storage.replica_directory import ReplicaPaths, find_replica, remove_remains_blocking, warn_of_strays
from esp.storage.settling import JointSettling, settle_all_blocking
from esp.storage.trash import Trash
from esp.storage.trashed_replicas import TRASH_FILE, TrashedReplica, TrashedReplicas, name_in_trash

_logger = logging.getLogger(__name__)

SYNCS_OF_A_LOG: Final = 8
"""The syncs that it takes to settle a log by itself: of its segment, its indexes, its small files and their names."""

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default of ``producer.id.expiration.ms``."""


class LogDirectory:
    """A data directory, locked by this process; made by :meth:`open_blocking`."""

    def __init__(
        self, disk: Disk, path: str, lock: Lock, file_system: FileSystem, producer_id_expiration_ms: int
    ) -> None:
        self.path = path
        self.meta: MetaProperties | None = None
        """The owner of the directory; None before it was formatted."""
        self.was_clean = False
        """True if it was left by a clean shutdown."""
        self.clean_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        """The broker epoch of that stop, -1 if there was none."""
        self.has_failed = False
        """True once the owner has taken the directory offline."""
        self.replicas: dict[TopicPartition, TopicId | None] = {}
        """The replica directories that are there, loaded or not, with the topic id that each says it has."""
        self.logs: dict[TopicPartition, Log] = {}
        """The logs that are loaded, of replicas that are in use."""
        self.futures: dict[TopicPartition, Log] = {}
        """The logs that are moving here from other data directories (KIP-113)."""
        self.left_futures: dict[str, TopicId | None] = {}
        """The directories of moves that an earlier process began, not loaded, with the topic id that each says it has."""
        self._segments_left: dict[str, int] = {}
        """The segments that the clean shutdown left, by directory, of logs that are not loaded yet."""
        self.trashed = TrashedReplicas(disk, path)
        """The replicas of topics in the trash."""
        self.reserve = DiskReserve(disk, path)
        """Room for the files that the node cannot do without, once :meth:`DiskReserve.keep_blocking` was called."""
        self.running_marker = RunningMarker(disk, path)
        self._clean_marker = CleanMarker(disk, path, self.reserve)
        self._loading_marker = LoadingMarker(disk, path)
        self._disk = disk
        self._lock = lock
        self._file_system = file_system
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._lock_identity = disk.stat(f"{path}/{LOCK_FILE}").identity
        self._paths = ReplicaPaths(disk, path)
        self._trash = Trash(disk)
        self._offsets = OffsetCheckpoints(disk, path, self.reserve, self._open_logs, self._is_there)

    # --- open and close ----------------------------------------------------------------------------------------------------------

    @classmethod
    def open_blocking(
        cls, disk: Disk, path: str, *, producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    ) -> "LogDirectory":
        """Lock a directory (made when missing) and read its identity; no log is loaded yet.

        Raises:
            OperatorError: it cannot be made or read, another process uses it, or its ``meta.properties`` is damaged.
        """
        try:
            _make_directory_blocking(disk, path)
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except OSError as error:
            raise OperatorError(
                f"The data directory {path} cannot be used: {error}.",
                "Make the directory writable for this user, or set log.dirs to another one.",
            ) from error
        if lock is None:
            raise OperatorError(
                f"The data directory {path} is in use by another process.",
                "Stop the node that runs there, or set log.dirs to a directory of this node's own.",
            )
        try:
            directory = cls(disk, path, lock, disk.file_system(path), producer_id_expiration_ms)
            directory._read_or_unlock_blocking()
        except OSError as error:
            lock.release()
            raise OperatorError(
                f"The data directory {path} cannot be read: {error}.",
                "Repair the disk, or remove the directory from log.dirs.",
            ) from error
        return directory

    def _read_or_unlock_blocking(self) -> None:
        try:
            self._read_blocking()
        except (OSError, OperatorError):
            self.unlock()
            raise

    def _read_blocking(self) -> None:
        disk, path = self._disk, self.path
        self.meta = read_meta_properties(disk, f"{path}/{META_PROPERTIES_FILE}")
        stop = self._clean_marker.take_blocking()
        if stop is not None:
            self.was_clean, self.clean_broker_epoch = True, stop.broker_epoch
            self._segments_left = dict(stop.segments)
        self._offsets.read()
        strays = []
        for name in disk.listdir(path):
            below = f"{path}/{name}"
            if name.endswith(TEMPORARY_SUFFIX):
                disk.remove(below)
                continue
            parsed = parse_directory_name(name)
            if parsed is None or not disk.stat(below).is_directory:
                continue
            if parsed.kind is DirectoryKind.REPLICA:
                self._find_replica_blocking(below, parsed.partition)
            elif parsed.kind is DirectoryKind.DELETE:
                self._trash.add(below, 0)
            elif parsed.kind is DirectoryKind.FUTURE:
                self.left_futures[below] = read_topic_id(disk, below)
            elif not self.trashed.find(below):
                strays.append(below)
        warn_of_strays(disk, path, strays)

    def _find_replica_blocking(self, path: str, partition: TopicPartition) -> None:
        was_flushed = self._offsets.known(partition).recovery_point > 0
        found = find_replica(self._disk, path, was_flushed=was_flushed)
        if found.topic_id is None and (mark := self.trashed.read_mark(path)) is not None:
            write_topic_id_blocking(self._disk, path, mark.topic_id)  # an empty log may have lost it with the power
            found = found._replace(topic_id=mark.topic_id)
        if found.topic_id is not None or found.has_files:
            self.replicas[partition] = found.topic_id
        if found.is_nameless and not was_flushed and partition != METADATA_PARTITION:
            if self.was_clean:
                raise OperatorError(
                    f"{path} holds records, and no readable {PARTITION_METADATA_FILE} that says of which topic.",
                    "Restore the file from a copy; without the directory, the partition starts again, empty.",
                )
            self.running_marker.remove()  # this node may not say that it has lost nothing (BRK-3)
            self.mark_stray(partition)

    def format_blocking(self, meta: MetaProperties) -> None:
        """Give the directory its identity.

        Raises:
            OSError: the device failed or is full.
        """
        write_meta_properties_blocking(self._disk, f"{self.path}/{META_PROPERTIES_FILE}", meta)
        self.meta = meta

    def unlock(self) -> None:
        """Let go of a directory of which no log was opened, or all are closed."""
        self._file_system.close()
        self._lock.release()

    def begin_to_close_blocking(self) -> list[Log]:
        """Spend the reserve; return the logs that have something to be synced, which may be settled before the directory is closed.

        They are settled side by side, with :func:`esp.storage.settling.settle_all_blocking`, or first with :meth:`joint_settling`.
        """
        self.reserve.make_room_blocking()
        return [log for log in self._open_logs() if not log.is_settled]

    def joint_settling(self, logs: Sequence[Log]) -> JointSettling:
        """Settle logs together, as far as that can be done and is quicker; what is not settled then is left to be settled one by one."""
        is_quicker = self._file_system.is_quicker_than(SYNCS_OF_A_LOG * len(logs))
        return JointSettling(logs if is_quicker else (), self._file_system)

    def close_blocking(self, broker_epoch: BrokerEpoch) -> None:
        """Close all logs; if all went well, leave the clean shutdown marker with ``broker_epoch``. Releases the lock in any case.

        Raises:
            OSError: the device failed or is full: the next start finds an unclean stop.
        """
        self.reserve.make_room_blocking()
        try:
            for log in self._open_logs():
                log.close_blocking()
            self.write_checkpoints_blocking()
            if self.is_offline:
                _logger.error("%s: the directory or a log is offline, so the stop counts as unclean", self.path)
            else:
                self._clean_marker.write_blocking(CleanStop(broker_epoch, self._count_segments()))
                self.running_marker.remove()
                self._loading_marker.end()
        finally:
            self.unlock()

    def is_in_place_blocking(self) -> bool:
        """False if the directory was removed, unmounted or replaced since it was opened: what is written to open files there is lost.

        A directory that lacks its file ``.lock`` only is in place: tools that tidy up remove old files.

        Raises:
            OSError: the device failed.
        """
        try:
            return self._disk.stat(f"{self.path}/{LOCK_FILE}").identity == self._lock_identity
        except FileNotFoundError:
            return self._disk.exists(f"{self.path}/{META_PROPERTIES_FILE}")

    @property
    def is_offline(self) -> bool:
        """True if an error of the device left the directory, or one of the logs, in doubt."""
        return self.has_failed or any(log.is_offline for log in self._open_logs())

    def has_lost(self, partition: TopicPartition) -> bool:
        """True if the log of a replica, not loaded, was on the device once, and is gone now, or has lost the file that names its topic."""
        return self.replicas.get(partition) is None and self._offsets.known(partition).recovery_point > 0

    def _count_segments(self) -> dict[str, int]:
        """The segments on disk of the logs of which a lost one would not be seen otherwise."""
        disk = self._disk
        return {
            log.path.rpartition("/")[2]: count_segments(disk, log.path)
            for log in self._open_logs()
            if may_have_gaps(log.partition, log.settings)
        }

    def _open_logs(self) -> list[Log]:
        return [*self.logs.values(), *self.futures.values()]

    def _is_there(self, partition: TopicPartition) -> bool:
        return partition in self.replicas or partition in self.futures

    # --- logs --------------------------------------------------------------------------------------------------------------------

    def load_log_blocking(
        self, partition: TopicPartition, settings: TopicSettings, now_ms: int, *, start_offset: int = 0
    ) -> Log:
        """Open the log of a replica directory that is there; one that has lost its segments begins, empty, at ``start_offset``.

        Raises:
            CorruptionError: flushed batches are broken or missing, or the topic that they belong to is unknown.
            OSError: the device failed.
        """
        topic_id = self.replicas[partition]
        if topic_id is None:
            raise CorruptionError(f"{self._paths.replica(partition)} has no readable {PARTITION_METADATA_FILE}")
        path = self._paths.replica(partition)
        self.trashed.unmark_blocking(path)
        log = self._open_log_blocking(
            path, partition, topic_id, settings, now_ms, was_clean=self.was_clean, start_offset=start_offset
        )
        self.logs[partition] = log
        return log

    def create_log_blocking(
        self, partition: TopicPartition, topic_id: TopicId, settings: TopicSettings, *, start_offset: int = 0
    ) -> Log:
        """Begin an empty log at ``start_offset``; one whose creation was cut off by a crash is taken over.

        All of it becomes durable with the first flush, before the recovery point moves, and nothing is synced before (decision 13), but for
        the identity of the metadata log, in whose directory other files stand. Raises OSError.
        """
        assert partition not in self.logs
        assert self.replicas.get(partition) in (None, topic_id), "a replica of another topic must be put aside first"
        path = self._paths.replica(partition)
        write_identity = write_topic_id_blocking
        if partition != METADATA_PARTITION:
            write_identity = write_topic_id
            if partition in self.replicas and not self._offsets.known(partition).recovery_point:
                remove_remains_blocking(self._disk, path)
        log = self.logs[partition] = self._create_log_blocking(
            path, partition, topic_id, settings, write_identity, start_offset
        )
        self.replicas[partition] = topic_id
        return log

    def _create_log_blocking(
        self,
        path: str,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        write_identity: Callable[[Disk, str, TopicId], None],
        start_offset: int = 0,
    ) -> Log:
        self._offsets.forget_blocking(partition)
        is_new = not self._disk.exists(path)
        self._disk.make_directory(path)
        write_identity(self._disk, path, topic_id)
        return self._open_log_blocking(
            path, partition, topic_id, settings, 0, was_clean=False, is_new=is_new, start_offset=start_offset
        )

    def _open_log_blocking(
        self,
        path: str,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        now_ms: int,
        *,
        was_clean: bool,
        is_new: bool = False,
        start_offset: int = 0,
    ) -> Log:
        known = self._offsets.known(partition)
        segments_left = self._segments_left.pop(path.rpartition("/")[2], 0)
        log = load_log_blocking(
            self._disk,
            path,
            partition,
            topic_id,
            settings,
            known,
            was_clean=was_clean,
            segments_left=segments_left if was_clean else 0,
            now_ms=now_ms,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            trash=self._trash,
            checkpoint_offsets=self._offsets.write_offsets_blocking,
            checkpoint_high_watermarks=self._offsets.write_high_watermarks_blocking,
            # After a crash it is unknown whether the replica's own name was synced, and an empty log's never has to be.
            unsynced_directory=None if was_clean and known.recovery_point else self.path,
            is_new=is_new,
            start_offset=start_offset,
            syncs_names=not is_new and self._loading_marker.begin(),
        )
        log.on_offline = self.running_marker.remove
        return log

    def end_loading(self) -> None:
        """Note that the logs that were found in the directory are all open."""
        self._loading_marker.end()

    def schedule_delete_blocking(self, logs: Iterable[Log], now_ms: int) -> None:
        """Put logs aside under the names of removed ones, with one sync; :meth:`purge` removes each after ``file.delete.delay.ms``.

        Raises:
            OSError: the device failed.
        """
        for log in logs:
            del self.logs[log.partition]
            del self.replicas[log.partition]
            path = self._paths.put_aside(log.partition, log.topic_id, DirectoryKind.DELETE)
            self._trash.add(path, now_ms + log.settings.file_delete_delay_ms, log.release)
        self._disk.sync_directory_blocking(self.path)

    def mark_stray(self, partition: TopicPartition) -> None:
        """Put aside a replica directory, not loaded, that the metadata does not know; it is kept for the operator.

        Raises:
            OSError: the device failed.
        """
        assert partition not in self.logs
        topic_id = self.replicas.pop(partition)
        self.trashed.unmark_blocking(self._paths.replica(partition))
        path = self._paths.put_aside(partition, topic_id or TopicId(ZERO_UUID), DirectoryKind.STRAY)
        self._disk.sync_directory_blocking(self.path)
        _logger.warning(
            "%s is not a replica that this node should have; it was renamed to %s", self._paths.replica(partition), path
        )

    # --- topics in the trash -----------------------------------------------------------------------------------------------------

    def trash_logs_blocking(
        self, logs: Sequence[Log], now_ms: int, metadata_offset: int, epoch_of: Callable[[Log], int]
    ) -> None:
        """Put logs of deleted topics aside, durably, so that they can come back (TRASH-2).

        Args:
            logs: all in this directory.
            now_ms: wall time.
            metadata_offset: the offset of the metadata that have the topics in the trash.
            epoch_of: the leader epoch of a log's partition in these metadata.

        Raises:
            OSError: the device failed.
        """
        self._settle_blocking([log for log in logs if not log.is_settled])
        for log in logs:
            offsets = KnownOffsets(
                log.recovery_point,
                log.log_start_offset,
                log.high_watermark,
                log.cleaned_to if log.settings.is_compacted else 0,
                has_log_start=True,
            )
            number = log.partition.partition
            is_complete = log.recovery_point >= log.log_end_offset and not log.is_offline and log.is_settled
            replica = TrashedReplica(
                log.path, log.topic_id, number, offsets, is_complete, metadata_offset, epoch_of(log)
            )
            self._mark_trashed_blocking(replica)
            del self.logs[log.partition]
            del self.replicas[log.partition]
            self.trashed.add(replica, self._paths.put_aside(log.partition, log.topic_id, DirectoryKind.STRAY))
            self._trash.let_go_later(now_ms + log.settings.file_delete_delay_ms, log.release)
        self._disk.sync_directory_blocking(self.path)

    def trash_unloaded_blocking(
        self, partition: TopicPartition, metadata_offset: int, leader_epoch: int, *, is_last: bool
    ) -> None:
        """Put a replica directory, not loaded, aside, whose topic was deleted while the node was down (TRASH-2).

        Args:
            partition: the replica's partition.
            metadata_offset: the offset of the metadata that have the topic in the trash.
            leader_epoch: the partition's leader epoch in these metadata.
            is_last: whether this is the log that the node had last, as far as the metadata say. It counts as complete only then, and
                after a clean stop.

        Raises:
            OSError: the device failed.
        """
        assert partition not in self.logs
        topic_id = self.replicas.pop(partition)
        assert topic_id is not None, "a replica of an unknown topic is a stray"
        offsets, path = self._offsets.known(partition), self._paths.replica(partition)
        is_complete = self.was_clean and is_last
        replica = TrashedReplica(
            path, topic_id, partition.partition, offsets, is_complete, metadata_offset, leader_epoch
        )
        self._mark_trashed_blocking(replica)
        self.trashed.add(replica, self._paths.put_aside(partition, topic_id, DirectoryKind.STRAY))
        self._disk.sync_directory_blocking(self.path)

    def read_trash_mark(self, partition: TopicPartition) -> TrashedReplica | None:
        """The mark in a replica directory, not loaded, that was not renamed any more on its way into the trash; None without one.

        Raises:
            OperatorError: the file that says so is damaged.
            OSError: the device failed.
        """
        assert partition not in self.logs
        return self.trashed.read_mark(self._paths.replica(partition))

    def discard_unloaded_blocking(self, partition: TopicPartition) -> None:
        """Remove a replica directory, not loaded, soon: its topic was purged while it was on its way into the trash (TRASH-5).

        Raises:
            OSError: the device failed.
        """
        assert partition not in self.logs
        topic_id = self.replicas.pop(partition)
        assert topic_id is not None, "a replica of an unknown topic is a stray"
        self._trash.add(self._paths.put_aside(partition, topic_id, DirectoryKind.DELETE), 0)
        self._disk.sync_directory_blocking(self.path)

    def give_back_blocking(self, replica: TrashedReplica, partition: TopicPartition) -> None:
        """Give a replica directory in the trash its name back, durably, with its offsets; not loaded yet (TRASH-3).

        Raises:
            OSError: the device failed or is full; the replica is in the trash as before.
        """
        assert not self._is_there(partition), "a replica that is there stays"
        self._offsets.adopt(partition, replica.offsets)
        self.replicas[partition] = replica.topic_id
        path = self._paths.replica(partition)
        try:
            self.write_checkpoints_blocking()
            self._keep_topic_id_blocking(replica)
            self._disk.rename(replica.path, path)
        except OSError:
            del self.replicas[partition]
            raise
        try:
            self._disk.sync_directory_blocking(self.path)
        except OSError:
            del self.replicas[partition]
            self._disk.rename(path, replica.path)
            raise
        del self.trashed.by_key[replica.key]
        try:
            self.trashed.unmark_blocking(path)
        except OSError as error:  # by its name it is a replica all the same; the next start removes the file
            _logger.warning("%s/%s cannot be removed: %s", path, TRASH_FILE, error)

    def restore_log_blocking(
        self,
        replica: TrashedReplica,
        partition: TopicPartition,
        settings: TopicSettings,
        now_ms: int,
        start_offset: int,
    ) -> Log:
        """Open the log of a replica in the trash, then give it its name back; one without segments begins, empty, at ``start_offset``.

        In this order, as an error leaves it in the trash: outside of it, unopened, it would count as gone (BRK-11).

        Raises:
            CorruptionError: flushed batches are broken or missing; the replica is in the trash as before.
            OSError: the device failed or is full; likewise.
        """
        assert not self._is_there(partition), "a replica that is there stays"
        self._offsets.adopt(partition, replica.offsets)
        log = self._open_log_blocking(
            replica.path,
            partition,
            replica.topic_id,
            settings,
            now_ms,
            was_clean=replica.is_complete,
            start_offset=start_offset,
        )
        try:
            self.give_back_blocking(replica, partition)
        except OSError:
            log.release()
            raise
        log.relocate(self._paths.replica(partition))
        self.logs[partition] = log
        return log

    def discard_trashed_blocking(self, replicas: Iterable[TrashedReplica]) -> None:
        """Remove replicas of topics that were purged, soon (TRASH-5). Raises OSError."""
        for replica in replicas:
            aside = self._paths.free(name_in_trash(replica), replica.topic_id, DirectoryKind.DELETE)
            self._disk.rename(replica.path, aside)
            del self.trashed.by_key[replica.key]
            self._trash.add(aside, 0)

    def _keep_topic_id_blocking(self, replica: TrashedReplica) -> None:
        """Write the file of the topic's id again if a power loss took it, as it may from an empty log; nothing else needs room."""
        try:
            is_there = read_topic_id(self._disk, replica.path) == replica.topic_id
        except OperatorError:
            is_there = False
        if not is_there:
            write_topic_id_blocking(self._disk, replica.path, replica.topic_id)

    def _mark_trashed_blocking(self, replica: TrashedReplica) -> None:
        self.reserve.write_blocking(lambda: self.trashed.mark_blocking(replica))

    def _settle_blocking(self, logs: Sequence[Log]) -> None:
        joint = self.joint_settling(logs)
        while joint.logs:
            joint.go_on_blocking(joint.logs)
            joint.sync_blocking()
        settle_all_blocking(log for log in logs if not log.is_settled)

    def purge(self, now_ms: int) -> int:
        """Remove files and directories that were put aside long enough ago; return their number. May take long where they are large.

        Raises:
            OSError: the device failed; the rest stays due.
        """
        return self._trash.purge(now_ms)

    # --- checkpoints -------------------------------------------------------------------------------------------------------------

    def write_checkpoints_blocking(self) -> None:
        """Write the checkpoints of recovery points, log starts, high watermarks and compaction.

        No log of this directory may be truncated meanwhile: a recovery point that went down must not be overwritten by an older one.

        Raises:
            OSError: the device failed or is full; the old files stay.
        """
        self._offsets.write_offsets_blocking()
        self.write_high_watermarks_blocking()

    def write_recovery_points_blocking(self) -> None:
        """Write the checkpoint of recovery points; errors and demands are those of :meth:`write_checkpoints_blocking`."""
        self._offsets.write_recovery_points_blocking()

    def write_log_starts_blocking(self) -> None:
        """Write the checkpoint of log starts. Raises OSError."""
        self._offsets.write_log_starts_blocking()

    def write_high_watermarks_blocking(self) -> None:
        """Write the checkpoint of high watermarks. Raises OSError."""
        self._offsets.write_high_watermarks_blocking()

    def write_cleaned_blocking(self) -> None:
        """Write the checkpoint of compaction, and first those of log starts and recovery points.

        What was cleaned counts up to the recovery point alone. And a round looks at nothing below the log start: if that fell back later,
        the checkpoint would say that records below it are clean. Errors and demands are those of :meth:`write_checkpoints_blocking`.
        """
        self._offsets.write_offsets_blocking()

    # --- moves between data directories ------------------------------------------------------------------------------------------

    def create_future_blocking(self, partition: TopicPartition, topic_id: TopicId, settings: TopicSettings) -> Log:
        """Begin an empty log that is to take the place of one in another data directory.

        Raises:
            OSError: the device failed or is full.
        """
        assert not self._is_there(partition)
        path = self._paths.free(partition, topic_id, DirectoryKind.FUTURE)
        log = self.futures[partition] = self._create_log_blocking(
            path, partition, topic_id, settings, write_topic_id_blocking
        )
        return log

    def load_future_blocking(self, path: str, partition: TopicPartition, settings: TopicSettings, now_ms: int) -> Log:
        """Open the log of a move that an earlier process began, one of :attr:`left_futures`.

        Raises:
            CorruptionError: flushed batches are broken or missing.
            OSError: the device failed.
        """
        assert not self._is_there(partition)
        topic_id = self.left_futures.pop(path)
        assert topic_id is not None, "a move of an unknown topic is discarded"
        log = self._open_log_blocking(path, partition, topic_id, settings, now_ms, was_clean=self.was_clean)
        self.futures[partition] = log
        return log

    def discard_future(self, path: str) -> None:
        """End a move that an earlier process began, and remove its directory soon. Raises OSError."""
        parsed = parse_directory_name(path.rpartition("/")[2])
        assert parsed is not None
        topic_id = self.left_futures.pop(path, None) or TopicId(ZERO_UUID)
        aside = self._paths.free(parsed.partition, topic_id, DirectoryKind.DELETE)
        self._disk.rename(path, aside)
        self._trash.add(aside, 0)

    def drop_future(self, partition: TopicPartition) -> None:
        """Put the log of a cancelled move aside, to be removed soon. Raises OSError."""
        log = self.futures.pop(partition)
        log.release()
        self.discard_future(log.path)

    def adopt_future(self, partition: TopicPartition) -> None:
        """Give a log that has moved here the name of a replica, durably: from now on it is the one of this partition.

        Raises:
            OSError: the device failed; the log is a future one still, and this directory in doubt.
        """
        log = self.futures[partition]
        path = self._paths.replica(partition)
        self._disk.rename(log.path, path)
        log.relocate(path)
        self._disk.sync_directory_blocking(self.path)
        self.logs[partition] = self.futures.pop(partition)
        self.replicas[partition] = log.topic_id


def find_last_trashed(
    directories: Iterable[LogDirectory], topic_id: TopicId, number: int
) -> tuple[LogDirectory, TrashedReplica] | None:
    """The log of a partition in the trash, and its data directory; of several the one that was put there last (TRASH-3).

    The others stood in directories that were away while the topic was restored, and lack what was written before it was deleted again.
    """
    found = [
        (directory, replica)
        for directory in directories
        if (replica := directory.trashed.by_key.get((topic_id, number))) is not None
    ]
    return max(found, key=lambda each: each[1].metadata_offset, default=None)


def _make_directory_blocking(disk: Disk, path: str) -> None:
    """Make a directory and its missing parents, and their names durable."""
    if not disk.exists(path):
        parent = path.rstrip("/").rpartition("/")[0]
        if parent:
            _make_directory_blocking(disk, parent)
        disk.make_directory(path)
        disk.sync_directory_blocking(parent or ("/" if path.startswith("/") else "."))
