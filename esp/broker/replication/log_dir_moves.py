"""Replicas that move from one data directory of this node to another: AlterReplicaLogDirs (KIP-113, KIP-858).

A move copies the replica's log into a directory of its own (``<topic>-<n>.<id>-future``), while the replica keeps working. When the copy
is complete, the controller is notified of the new directory; when the metadata names it, the copy takes the replica's place within one turn
of the loop, and the old log is put aside. Only an empty replica without a leader, whose directory is withheld from the controller (BRK-11),
changes places without that. A move that cannot be done is given up, and the copy is dropped: where the replica has rotted or was stopped
(TRUNC-8), or the copy cannot be written. The existence of the copy's directory is the only record of a move: after a restart the move
continues from there (:mod:`esp.broker.replication.loading`).
"""

import logging
from collections.abc import Callable

from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.log_dir_move import LogDirMove, MoveHost
from esp.broker.replication.replication_throttle import ReplicationThrottle
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import DirectoryId, NodeId, TopicPartition
from esp.ports.env import Env
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)


class LogDirMoves:
    """The moves of replicas between the data directories of a node, at most one for each replica.

    Args:
        env: the outside.
        node_id: this node.
        tasks: where the copying lives.
        host: the host of the replicas.
        throttle: the limit of all moves together.
    """

    def __init__(self, env: Env, node_id: NodeId, tasks: Tasks, host: MoveHost, throttle: ReplicationThrottle) -> None:
        self._env = env
        self._node_id = node_id
        self._tasks = tasks
        self._host = host
        self._throttle = throttle
        self._moves: dict[HostedPartition, LogDirMove] = {}

    def __len__(self) -> int:
        return len(self._moves)

    def announced_directory(self, hosted: HostedPartition) -> DirectoryId | None:
        """The directory in which the controller is to know a replica that is about to change places; None for all others."""
        move = self._moves.get(hosted)
        return move.target_id if move is not None and move.is_announced else None

    def lag(self, name: TopicPartition) -> int:
        """Offsets that the copy of a replica has not; 0 if it does not move."""
        hosted = self._host.find(*name)
        move = None if hosted is None else self._moves.get(hosted)
        return 0 if move is None else move.lag

    async def request(self, name: TopicPartition, path: str, is_known: Callable[[], bool]) -> None:
        """Let a replica move into the data directory ``path``, or stay there; another move of it ends.

        Args:
            name: the partition.
            path: as DescribeLogDirs tells it.
            is_known: whether the metadata knows the partition.

        Raises:
            ApiError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR; REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION for a replica that is
                not here, which will be made in that directory if it comes.
        """
        directories = self._host.directories
        target = directories.find(path)
        if target is None:
            raise ApiError(ErrorCode.log_dir_not_found, f"Log dir {path} is not found in the config.")
        async with self._host.directories_lock:
            if target not in directories.online:
                raise ApiError(ErrorCode.kafka_storage_error, f"Log directory {path} is offline")
            hosted = self._host.find(*name)
            if hosted is None:
                directories.prefer(name, target)
                raise ApiError(ErrorCode.replica_not_available if is_known() else ErrorCode.unknown_topic_or_partition)
            if hosted.is_offline:
                raise ApiError(ErrorCode.kafka_storage_error, f"Partition {name} is in an offline log directory")
            move = self._moves.get(hosted)
            if move is not None and move.target is target:
                return
            await self.cancel(hosted)
            if directories.holding(hosted.log) is target:
                return
            try:
                copy = await self._env.cpu.run(
                    target.create_future_blocking, name, hosted.topic_id, hosted.log.settings
                )
            except OSError as error:
                raise ApiError(ErrorCode.kafka_storage_error, f"The copy cannot be begun: {error}") from error
            self.begin(hosted, target, copy)

    def begin(self, hosted: HostedPartition, target: LogDirectory, copy: Log) -> None:
        """Copy into a log that is there."""
        move = LogDirMove(self._env, self._node_id, hosted, target, copy, self._throttle, self._host)
        self._moves[hosted] = move
        log.info("%s moves to %s", hosted.log.path, target.path)
        self._tasks.start(self._run(move), name=f"move of {hosted.name} to {target.path}")

    async def cancel(self, hosted: HostedPartition) -> None:
        """The replica stays where it is, or is gone; called with the lock of the directories held."""
        move = self._moves.pop(hosted, None)
        if move is None:
            return
        move.stop()
        async with move.busy:
            if move.target in self._host.directories.online:
                try:
                    move.target.drop_future(hosted.name)
                except OSError as error:
                    self._host.fail(move.target, f"{move.copy.path} cannot be renamed: {error}")
        self._host.tell_directory(hosted)

    def on_directory_failed(self, directory: LogDirectory) -> None:
        """Nothing moves into, or out of, a directory that has failed; copies of what was in it stay for the next start."""
        for hosted, move in tuple(self._moves.items()):
            if move.target is directory or hosted.is_offline:
                del self._moves[hosted]
                move.stop()
                self._host.tell_directory(hosted)

    async def _run(self, move: LogDirMove) -> None:
        problem = await move.run()
        if problem is not None:
            log.error(
                "the move of %s to %s is given up, and the replica stays where it is: %s. When it is repaired, request the move again",
                move.hosted.log.path,
                move.target.path,
                problem,
            )
            async with self._host.directories_lock:
                if self._moves.get(move.hosted) is move:
                    await self.cancel(move.hosted)
        elif self._moves.get(move.hosted) is move:
            del self._moves[move.hosted]
            log.info("%s has moved there", move.hosted.log.path)
