"""Makes, restores and puts aside the files of this node's replicas, in all its data directories.

The work is done in a worker thread, many replicas in one call, so that the creation or deletion of a topic of thousands of partitions does
not hold up the loop, and needs few syncs. The caller holds :attr:`~esp.broker.replication.host.ReplicaHost.directories_lock`.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from esp.broker.replication.directories import ReplicaDirectories
from esp.controller.image import ClusterImage
from esp.model.errors import CorruptionError
from esp.model.ids import TopicId, TopicPartition
from esp.ports.env import Env
from esp.settings.topic import TopicSettings
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory, find_last_trashed
from esp.storage.trashed_replicas import TrashedReplica

log = logging.getLogger(__name__)


class NewReplica(NamedTuple):
    """A replica that is to be made."""

    name: TopicPartition
    topic_id: TopicId
    settings: TopicSettings
    start_offset: int


class ReplicaFiles:
    """The files of replicas in all data directories.

    Args:
        env: the outside.
        directories: the node's data directories.
    """

    def __init__(self, env: Env, directories: ReplicaDirectories) -> None:
        self._env = env
        self._directories = directories

    async def create(self, wanted: Sequence[NewReplica]) -> list[Log | None]:
        """Make or restore a log for each replica; None for one whose disk is full or failed, which does not stop the others."""
        return await self._env.cpu.run(self._create_blocking, wanted) if wanted else []

    def _create_blocking(self, wanted: Sequence[NewReplica]) -> list[Log | None]:
        return [self._create_log_blocking(replica) for replica in wanted]

    def _create_log_blocking(self, replica: NewReplica) -> Log | None:
        name = replica.name
        if (found := self.find_trashed(replica.topic_id, name.partition)) is not None:
            return self._restore_log_blocking(*found, replica)
        directory = self._directories.for_new(name)
        try:
            return directory.create_log_blocking(
                name, replica.topic_id, replica.settings, start_offset=replica.start_offset
            )
        except OSError as error:
            log.error("%s cannot be created in %s and is retried: %s", name, directory.path, error)
            return None

    def _restore_log_blocking(
        self, directory: LogDirectory, trashed: TrashedReplica, replica: NewReplica
    ) -> Log | None:
        name, now_ms = replica.name, self._env.clock.wall_ms()
        try:
            try:
                return directory.restore_log_blocking(trashed, name, replica.settings, now_ms, replica.start_offset)
            except CorruptionError as error:
                directory.trashed.keep_as_stray_blocking(trashed)
                log.error(
                    "%s is damaged, and is not restored from %s: %s. The directory is kept until you remove it",
                    name,
                    trashed.path,
                    error,
                )
        except OSError as error:
            log.error("%s cannot be restored from %s and is retried: %s", name, trashed.path, error)
        return None

    def find_trashed(self, topic_id: TopicId, number: int) -> tuple[LogDirectory, TrashedReplica] | None:
        """Find the log of a partition in the trash, and the data directory in which it is; None if there is none."""
        return find_last_trashed(self._directories.online, topic_id, number)

    async def put_in_trash(self, logs: Iterable[Log], image: ClusterImage) -> dict[LogDirectory, OSError]:
        """Put the logs of deleted topics into the trash, durably (TRASH-2); return the data directories that failed at that.

        Args:
            logs: logs of topics that ``image`` has in the trash.
            image: the metadata that deleted them.
        """
        now_ms = self._env.clock.wall_ms()

        def epoch_of(log: Log) -> int:
            return image.trashed_topics[log.topic_id].topic.partitions[log.partition.partition].leader_epoch

        return await self._aside(
            logs, lambda directory, former: directory.trash_logs_blocking(former, now_ms, image.offset, epoch_of)
        )

    async def purge(self, topic_ids: Collection[TopicId]) -> dict[LogDirectory, OSError]:
        """Remove the logs of topics that were in the trash (TRASH-5); return the data directories that failed at that."""
        failures: dict[LogDirectory, OSError] = {}
        for directory in tuple(self._directories.online):
            replicas = directory.trashed.of_topics(topic_ids)
            try:
                if replicas:
                    await self._env.cpu.run(directory.discard_trashed_blocking, replicas)
            except OSError as error:
                failures[directory] = error
        return failures

    async def put_aside(self, logs: Iterable[Log]) -> dict[LogDirectory, OSError]:
        """Rename the directories of logs that are no longer used, durably (REASSIGN-4); return the data directories that failed at that."""
        now_ms = self._env.clock.wall_ms()
        return await self._aside(logs, lambda directory, former: directory.schedule_delete_blocking(former, now_ms))

    async def _aside(
        self, logs: Iterable[Log], work_blocking: Callable[[LogDirectory, list[Log]], None]
    ) -> dict[LogDirectory, OSError]:
        logs = tuple(logs)
        has_copies = any(directory.futures for directory in self._directories.online)
        failures = await self._env.cpu.run(self._drop_copies_blocking, logs) if has_copies else {}
        held: dict[LogDirectory, list[Log]] = {}
        for former in logs:
            directory = self._directories.holding(former)
            if directory is not None:
                held.setdefault(directory, []).append(former)
        for directory, former_logs in held.items():
            try:
                await self._env.cpu.run(work_blocking, directory, former_logs)
            except OSError as error:
                failures[directory] = error
        return failures

    def _drop_copies_blocking(self, logs: Sequence[Log]) -> dict[LogDirectory, OSError]:
        """Drop the copies of logs whose directories failed in the midst of a move: they were left for the next start."""
        failures: dict[LogDirectory, OSError] = {}
        for directory in tuple(self._directories.online):
            for former in logs:
                if former.partition in directory.futures:
                    try:
                        directory.drop_future(former.partition)
                    except OSError as error:
                        failures[directory] = error
        return failures
