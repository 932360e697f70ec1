"""Makes the files of new replicas, and puts those of former ones aside: in a worker thread, many in one turn of it.

A topic of thousands of partitions comes and goes so without holding up the loop, and with few syncs. The caller holds
:attr:`~esp.broker.replicas.host.ReplicaHost.directories_lock`.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from esp.broker.replicas.directories import ReplicaDirectories
from esp.model.ids import TopicId, TopicPartition
from esp.model.topic_settings import TopicSettings
from esp.ports.env import Env
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

TURN_MAX: Final = 64
"""Replicas that change in one turn of the loop, or of a worker: some milliseconds of work."""

Item = TypeVar("Item")


class NewReplica(NamedTuple):
    """A replica that is to be made."""

    name: TopicPartition
    topic_id: TopicId
    settings: TopicSettings


def in_turns(items: Iterable[Item]) -> Iterator[Sequence[Item]]:
    """All items in their order, divided so that the loop need not take more at a time."""
    iterator = iter(items)
    while turn := list(islice(iterator, TURN_MAX)):
        yield turn


class ReplicaFiles:
    """The files of replicas in all data directories.

    Args:
        env: the outside.
        directories: where they are.
    """

    def __init__(self, env: Env, directories: ReplicaDirectories) -> None:
        self._env = env
        self._directories = directories

    async def create(self, wanted: Sequence[NewReplica]) -> list[Log | None]:
        """Begin a log for each; None for one whose disk is full or failed, which is no reason to end the others."""
        return await self._env.cpu.run(self._create_blocking, wanted) if wanted else []

    def _create_blocking(self, wanted: Sequence[NewReplica]) -> list[Log | None]:
        return [self._create_log_blocking(*replica) for replica in wanted]

    def _create_log_blocking(self, name: TopicPartition, topic_id: TopicId, settings: TopicSettings) -> Log | None:
        directory = self._directories.for_new(name)
        try:
            return directory.create_log_blocking(name, topic_id, settings)
        except OSError as error:
            log.error("%s cannot be made in %s, and is tried again: %s", name, directory.path, error)
            return None

    async def put_aside(self, logs: Iterable[Log]) -> dict[LogDirectory, OSError]:
        """Rename the directories of logs that nobody uses any more, durably (REASSIGN-4); return which data directories failed at that."""
        held: dict[LogDirectory, list[Log]] = {}
        for former in logs:
            directory = self._directories.holding(former)
            if directory is not None:
                held.setdefault(directory, []).append(former)
        failures: dict[LogDirectory, OSError] = {}
        for directory, former_logs in held.items():
            try:
                await self._env.cpu.run(directory.schedule_delete_blocking, former_logs, self._env.clock.wall_ms())
            except OSError as error:
                failures[directory] = error
        return failures
