"""Opens the logs in the data directories when a node starts: replicas, and moves between directories that were under way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from esp.broker.live_settings import LiveSettings
from esp.broker.replication.gone_logs import GoneLog, find_gone, where_it_was
from esp.controller.image import ClusterImage, TopicImage
from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import METADATA_TOPIC, RESERVED_DIRECTORIES, NodeId, TopicPartition
from esp.model.partition import PartitionState
from esp.settings.topic import TopicSettings
from esp.storage.layout import parse_directory_name
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory, find_last_trashed
from esp.storage.trashed_replicas import TrashedReplica


class LoadedReplica(NamedTuple):
    """A log, the directory in which it stands, and the topic."""

    topic: TopicImage
    directory: LogDirectory
    log: Log


class ReplicaLoading:
    """The opening of all logs at a node's start. All of it waits for the device.

    Args:
        node_id: this node.
        directories: that can be read.
        image: the metadata.
        settings: as they count now.
        now_ms: wall time.
    """

    def __init__(
        self,
        node_id: NodeId,
        directories: Sequence[LogDirectory],
        image: ClusterImage,
        settings: LiveSettings,
        now_ms: int,
    ) -> None:
        self._node_id = node_id
        self._directories = directories
        self._image = image
        self._settings = settings
        self._now_ms = now_ms
        self.replicas: dict[TopicPartition, LoadedReplica] = {}
        """The replicas whose logs are open."""
        self.copies: dict[TopicPartition, LoadedReplica] = {}
        """The copies in other data directories that unfinished moves of replicas have begun."""
        self.gone: list[GoneLog] = []
        """Replicas that could make this node a leader, and whose logs are gone (BRK-11)."""
        self._adopted: set[TopicPartition] = set()
        """Copies that took the place of logs that are gone."""
        self._doubtful: dict[TopicPartition, str] = {}
        """Replicas of which the trash may hold a later log, which may lack its end itself; its path."""
        self._ids = {directory.meta.directory_id for directory in directories if directory.meta is not None}

    def steps_blocking(self) -> Iterator[None]:
        """Open, and recover where that is needed, all that the metadata knows: one log in each step.

        What it does not know is put aside as a stray: it is never adopted by a topic of the same name (REASSIGN-4).

        Raises:
            OperatorError: a log cannot be opened, or a replica not be put where it belongs.
        """
        for directory in self._directories:
            with _in_order(directory):
                self._discard_outdated_blocking(directory)
        for directory in self._directories:
            with _in_order(directory):
                self._look_into_trash_blocking(directory)
            yield
        for directory in self._directories:
            for partition in tuple(directory.replicas):
                if partition.topic != METADATA_TOPIC:
                    with _in_order(directory):
                        self._load_replica_blocking(directory, partition)
                    yield
        for directory in self._directories:
            for path in tuple(directory.left_futures):
                with _in_order(directory):
                    self._load_copy_blocking(directory, path)
                yield
        self.gone = list(find_gone(self._image, self._node_id, self._why_gone))
        for directory in self._directories:
            directory.end_loading()

    def _load_replica_blocking(self, directory: LogDirectory, partition: TopicPartition) -> None:
        topic_id = directory.replicas[partition]
        topic = self._image.topics_by_name.get(partition.topic)
        if topic is None or topic_id not in (topic.topic_id, None) or not self._is_ours(topic, partition.partition):
            self._put_aside_blocking(directory, partition)
            return
        settings = self._settings.of_topic(self._image, topic)
        start_offset = topic.partitions[partition.partition].start_offset
        if topic_id is None:  # a power loss came before its first flush
            log = directory.create_log_blocking(partition, topic.topic_id, settings, start_offset=start_offset)
            log.was_there = False
        else:
            log = self._open_blocking(directory, partition, settings, None, start_offset)
        loaded = LoadedReplica(topic, directory, log)
        twin = self.replicas.get(partition)
        if twin is not None:  # it was changing places when the process ended
            outdated, loaded = (loaded, twin) if self._is_newer(twin, loaded) else (twin, loaded)
            outdated.directory.schedule_delete_blocking([outdated.log], self._now_ms)
        self.replicas[partition] = loaded

    def _put_aside_blocking(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """A replica that the metadata does not place here goes where its topic has gone: into the trash, or away for good (TRASH-5).

        Only its mark tells that its topic was in the trash. One without a mark, or of a topic that is there and moved away, is a stray.
        """
        topic_id = directory.replicas[partition]
        trashed = None if topic_id is None else self._image.trashed_topics.get(topic_id)
        if trashed is not None and self._is_ours(trashed.topic, partition.partition):
            if self._is_outdated(trashed.topic, partition.partition, directory):
                directory.mark_stray(partition)
            else:
                epoch = trashed.topic.partitions[partition.partition].leader_epoch
                is_last = self._is_last(trashed.topic, partition.partition, directory)
                directory.trash_unloaded_blocking(partition, self._image.offset, epoch, is_last=is_last)
            return
        is_known = topic_id is None or trashed is not None or topic_id in self._image.topics_by_id
        mark = None if is_known else directory.read_trash_mark(partition)
        if mark is None or mark.topic_id != topic_id:
            directory.mark_stray(partition)
        elif self._image.offset < mark.metadata_offset:  # newer metadata restore or purge it
            directory.trash_unloaded_blocking(partition, mark.metadata_offset, mark.leader_epoch, is_last=True)
        else:
            directory.discard_unloaded_blocking(partition)

    def _is_outdated(self, topic: TopicImage, number: int, directory: LogDirectory) -> bool:
        """True if a log was begun anew in another directory while this directory was away.

        The process that put another one in the trash at this deletion had no other one. Else the metadata decide.
        """
        others = [other for other in self._directories if other is not directory]
        trashed = [found for other in others if (found := other.trashed.by_key.get((topic.topic_id, number)))]
        epoch = topic.partitions[number].leader_epoch
        if any(replica.is_complete and replica.leader_epoch == epoch for replica in trashed):
            return True
        if self._is_assigned(topic, number, directory):
            return False
        partition = TopicPartition(topic.name, number)
        return bool(trashed) or any(
            other.replicas.get(partition) == topic.topic_id and self._is_assigned(topic, number, other)
            for other in others
        )

    def _is_last(self, topic: TopicImage, number: int, directory: LogDirectory) -> bool:
        """True if nothing says that the replica had another log in the end: in a directory that is offline, or in one that is there."""
        if self._is_assigned(topic, number, directory):
            return True
        partition = TopicPartition(topic.name, number)
        return self._is_reachable(topic.partitions[number]) and not any(
            other is not directory and other.replicas.get(partition) == topic.topic_id for other in self._directories
        )

    def _later_in_trash(self, replica: TrashedReplica) -> TrashedReplica | None:
        """The log of the same partition that was put in the trash of another directory last; None if this one was."""
        found = find_last_trashed(self._directories, *replica.key)
        return None if found is None or found[1].metadata_offset <= replica.metadata_offset else found[1]

    def _discard_outdated_blocking(self, directory: LogDirectory) -> None:
        """Remove logs in the trash of which there are later ones that are complete (TRASH-3)."""
        for replica in tuple(directory.trashed.by_key.values()):
            later = self._later_in_trash(replica)
            if later is not None and later.is_complete:
                directory.discard_trashed_blocking([replica])

    def _look_into_trash_blocking(self, directory: LogDirectory) -> None:
        """Give back what was restored while the node was down, and remove what was purged (TRASH-3, TRASH-5)."""
        for replica in tuple(directory.trashed.by_key.values()):
            if self._image.offset < replica.metadata_offset or replica.topic_id in self._image.trashed_topics:
                continue
            topic = self._image.topics_by_id.get(replica.topic_id)
            if topic is None:
                directory.discard_trashed_blocking([replica])
            elif not self._is_ours(topic, replica.number):
                directory.trashed.keep_as_stray_blocking(replica)
            else:
                self._take_from_trash_blocking(directory, replica, topic)

    def _take_from_trash_blocking(self, directory: LogDirectory, replica: TrashedReplica, topic: TopicImage) -> None:
        """Give a restored replica its name back if it is the last one of this node, and complete.

        A log that has the name in another directory was left there by a failure before the deletion, or was begun anew after the
        restoration: both are compared when they are opened. If that cannot be, the other one is not known to be complete, unless the
        controller has heard of it since the restoration.
        """
        partition = TopicPartition(topic.name, replica.number)
        state = topic.partitions[replica.number]
        twin = next((other for other in self._directories if other.replicas.get(partition) == replica.topic_id), None)
        is_last = self._later_in_trash(replica) is None and replica.is_of_last_deletion(state.restored_epoch)
        if replica.is_complete and is_last and partition not in directory.replicas:
            directory.give_back_blocking(replica, partition)
        elif twin is not None and (twin is directory or self._is_assigned(topic, replica.number, twin)):
            directory.discard_trashed_blocking([replica])  # it was not found when the topic was restored
        elif twin is not None:
            self._doubtful[partition] = replica.path

    def _load_copy_blocking(self, directory: LogDirectory, path: str) -> None:
        topic_id = directory.left_futures[path]
        topic = None if topic_id is None else self._image.topics_by_id.get(topic_id)
        parsed = parse_directory_name(path.rpartition("/")[2])
        assert parsed is not None
        number = parsed.partition.partition
        if topic is None or not self._is_ours(topic, number):
            directory.discard_future(path)
            return
        partition = TopicPartition(topic.name, number)
        settings = self._settings.of_topic(self._image, topic)
        replica = self.replicas.get(partition)
        if replica is not None and replica.directory is not directory and partition not in self.copies:
            log = self._open_blocking(directory, partition, settings, path)
            self.copies[partition] = LoadedReplica(topic, directory, log)
        elif replica is None and self._is_assigned(topic, number, directory):
            # The directory that it came from is gone, and the controller was told that it has moved (KIP-858).
            log = self._open_blocking(directory, partition, settings, path)
            directory.adopt_future(partition)
            self._adopted.add(partition)
            self.replicas[partition] = LoadedReplica(topic, directory, log)
        else:
            directory.discard_future(path)

    def _open_blocking(
        self,
        directory: LogDirectory,
        partition: TopicPartition,
        settings: TopicSettings,
        future: str | None,
        start_offset: int = 0,
    ) -> Log:
        try:
            if future is not None:
                return directory.load_future_blocking(future, partition, settings, self._now_ms)
            return directory.load_log_blocking(partition, settings, self._now_ms, start_offset=start_offset)
        except (OSError, CorruptionError) as error:
            raise OperatorError(
                f"The log of {partition} in {directory.path} cannot be opened: {error}.",
                "Repair the disk, or restore the partition's directory from a copy; without it, the partition starts again, empty.",
            ) from error

    def _is_ours(self, topic: TopicImage, number: int) -> bool:
        return number < len(topic.partitions) and self._node_id in topic.partitions[number].replicas

    def _why_gone(self, topic: TopicImage, state: PartitionState) -> str | None:
        """Why what this node has of a partition is not what it had when it was in sync; None if it is."""
        partition = TopicPartition(topic.name, state.partition)
        loaded = self.replicas.get(partition)
        if loaded is None and (found := find_last_trashed(self._directories, topic.topic_id, state.partition)):
            return f"{found[1].path} may lack the end of what it had"
        if loaded is None:
            return f"none of the log directories has it{where_it_was(state, self._node_id)}"
        if not loaded.log.was_there:
            return f"{loaded.log.path} has no segment"
        if partition in self._adopted:
            return f"{loaded.directory.path} has only a copy of it, from a move that had not finished"
        if partition in self._doubtful:
            return f"{self._doubtful[partition]} may have more than {loaded.log.path}"
        if self._is_reachable(state):
            return _why_not_kept(loaded.log) if len(state.replicas) > 1 else None
        return (
            f"the replica in {loaded.directory.path} is not the one in the metadata{where_it_was(state, self._node_id)}"
        )

    def _is_assigned(self, topic: TopicImage, number: int, directory: LogDirectory) -> bool:
        """True if the metadata has the replica in this directory."""
        state = topic.partitions[number]
        assert directory.meta is not None
        return (
            bool(state.directories)
            and state.directories[state.replicas.index(self._node_id)] == directory.meta.directory_id
        )

    def _is_reachable(self, state: PartitionState) -> bool:
        """True unless the metadata have the replica in a directory that is not there."""
        known = state.directories[state.replicas.index(self._node_id)] if state.directories else None
        return known is None or known.int < RESERVED_DIRECTORIES or known in self._ids

    def _is_newer(self, one: LoadedReplica, other: LoadedReplica) -> bool:
        """True if of two copies of a replica the first has all that the second one has of what is committed.

        Both were equal when they changed places, or one is left of a directory that failed and came back after the replica had been made
        again in the other. In both cases the one whose last record has the later epoch, or which is longer in the same epoch, is complete
        if either is, as of two voters of Raft (section 5.4.1): also against the one that the metadata names, which decides between equals.
        A copy without a record whose epoch is known, whose records were all deleted at their leader, is compared by its end alone: an older
        one that ends before it would give its offsets to other records.
        """
        first, second = self._last_epoch(one), self._last_epoch(other)
        if first is not None and second is not None and first != second:
            return first > second
        ends = one.log.log_end_offset, other.log.log_end_offset
        if ends[0] != ends[1]:
            return ends[0] > ends[1]
        return self._is_assigned(one.topic, one.log.partition.partition, one.directory)

    @staticmethod
    def _last_epoch(loaded: LoadedReplica) -> int | None:
        return loaded.log.leader_epochs.epoch_of(loaded.log.log_end_offset - 1)


@contextmanager
def _in_order(directory: LogDirectory) -> Iterator[None]:
    """Raise OperatorError if a device fails, or is full, while replicas of this directory are put where they belong."""
    try:
        yield
    except OSError as error:
        raise OperatorError(
            f"The replicas in {directory.path} cannot be put in order: {error}.",
            "Make room on the disk, or repair it, and start the node again.",
        ) from error


def _why_not_kept(opened: Log) -> str | None:
    """Sync the bytes that were written and not synced: a write that failed unnoticed by the last process shows then (BRK-3).

    Only for logs that matter in elections of leaders: in most starts, none.
    """
    try:
        if opened.recovery_point < opened.log_end_offset:
            opened.flush_blocking()
    except OSError as error:
        return f"the device lost writes to {opened.path}: {error}"
    return None
