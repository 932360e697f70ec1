"""Bounds for the trash: a node that lacks room has the topics purged that were deleted first (TRASH-6).

The metadata know nothing of disks. So each node measures the trash of its own data directories, and asks the active controller to purge
topics where it is too much; such a topic is then gone on all nodes. It asks only for topics of which it has replicas in that directory, and
for no more of them than give the room back. Files are removed a while after the purge; until then they count as room.
"""

import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from kio.static.primitive import i32Timedelta

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.replication.host import ReplicaHost
from esp.controller.image import TrashedTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, uuid_to_base64
from esp.ports.disk import Disk
from esp.ports.env import Env
from esp.protocol.registry import ApiKey
from esp.storage.layout import DirectoryKind, parse_directory_name
from esp.storage.log_directory import LogDirectory
from esp.storage.trashed_replicas import TRASH_FILE, TrashedReplica

log = logging.getLogger(__name__)

GUARD_INTERVAL_MS: Final = 10_000
"""Twice the interval at which the files of purged topics are removed, so that their bytes count as free the next time."""

CALL_TIMEOUT_MS: Final = 10_000
_TIMEOUT: Final = i32Timedelta.parse(timedelta(milliseconds=CALL_TIMEOUT_MS))


def find_surplus(
    sizes: Iterable[tuple[TopicId, int]], *, free: int, total: int, max_bytes: int, min_free_percent: int
) -> list[TopicId]:
    """The topics to purge so that the trash of a data directory is within bounds.

    Args:
        sizes: the bytes that each topic has there, in the order of deletion.
        free: bytes of the device that can be written.
        total: bytes of the device.
        max_bytes: most bytes of the trash; -1: no limit.
        min_free_percent: the least share of the device that is free.
    """
    left = list(sizes)
    kept = sum(size for _, size in left)
    surplus: list[TopicId] = []
    for topic_id, size in left:
        is_within = max_bytes < 0 or kept <= max_bytes
        if is_within and free * 100 >= total * min_free_percent:
            break
        surplus.append(topic_id)
        kept -= size
        free += size
    return surplus


class TrashGuard:
    """Keeps the trash of a node's data directories within bounds.

    Args:
        env: the outside.
        replicas: knows the metadata, the settings as they are now, and which directories have failed.
        directories: the data directories.
        controller: the active controller.
    """

    def __init__(
        self, env: Env, replicas: ReplicaHost, directories: Sequence[LogDirectory], controller: ControllerCalls
    ) -> None:
        self._env = env
        self._replicas = replicas
        self._directories = directories
        self._controller = controller
        self.early_purges = 0
        """Topics that this node had purged before their time."""
        self._sizes: dict[LogDirectory, dict[TrashedReplica, int]] = {}
        """The bytes of the replicas in the trash: they do not change."""

    def kept(self) -> tuple[int, int]:
        """The topics of which replicas are in this node's trash, and the bytes of these, of those that were measured already."""
        replicas = [
            (replica, self._sizes.get(directory, {}).get(replica, 0))
            for directory in self._directories
            if self._replicas.is_online(directory)
            for replica in tuple(directory.trashed.by_key.values())
        ]
        return len({replica.topic_id for replica, _ in replicas}), sum(size for _, size in replicas)

    async def check(self) -> None:
        """Have topics purged where there is too much. Raises OSError."""
        for directory in self._directories:
            if directory.trashed.by_key and self._replicas.is_online(directory):
                await self._check(directory)

    async def _check(self, directory: LogDirectory) -> None:
        free, total, sizes = await self._env.cpu.run(self._measure_blocking, directory)
        image, settings = self._replicas.image, self._replicas.settings.current
        trashed = image.trashed_topics
        free += sum(
            size
            for topic_id, size in sizes.items()
            if topic_id not in trashed and topic_id not in image.topics_by_id  # purged, and about to be put aside
        )
        surplus = find_surplus(
            [(topic_id, sizes[topic_id]) for topic_id in trashed if topic_id in sizes],
            free=free,
            total=total,
            max_bytes=settings.topic_trash_max_bytes,
            min_free_percent=settings.topic_trash_min_free_percent,
        )
        try:
            for topic_id in surplus:
                await self._purge(directory, topic_id, trashed[topic_id])
        except ApiError as error:
            log.error("%s lacks room, and the trash cannot be purged; this is retried: %s", directory.path, error)

    async def _purge(self, directory: LogDirectory, topic_id: TopicId, trashed: TrashedTopic) -> None:
        """Raises ApiError."""
        # Loaded with the first purge, so that the start of a node does not wait for it.
        from esp.protocol.trash import PURGE, AlterPartitionReassignmentsRequest  # noqa: PLC0415

        request = AlterPartitionReassignmentsRequest(
            timeout=_TIMEOUT, topics=(), trash_action=PURGE, trash_topic_id=topic_id
        )
        answer = await self._controller.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, timeout_ms=CALL_TIMEOUT_MS)
        if answer.error_code is ErrorCode.unknown_topic_id:
            return  # restored or purged, and this node is about to hear of it
        if answer.error_code is not ErrorCode.none:
            raise ApiError(answer.error_code, answer.error_message)
        self.early_purges += 1
        log.warning(
            "%s lacks room (topic.trash.max.bytes, topic.trash.min.free.percent): the deleted topic %s (%s) is purged and cannot be "
            "restored any more",
            directory.path,
            trashed.topic.name,
            uuid_to_base64(topic_id),
        )

    def _measure_blocking(self, directory: LogDirectory) -> tuple[int, int, dict[TopicId, int]]:
        """The bytes of the device that are free or about to be, all its bytes, and those that topics have in the directory's trash."""
        disk, known = self._env.disk, self._sizes.get(directory, {})
        found: dict[TrashedReplica, int] = {}
        for replica in tuple(directory.trashed.by_key.values()):
            with contextlib.suppress(FileNotFoundError):  # given back or purged meanwhile
                found[replica] = known[replica] if replica in known else _measure_blocking(disk, replica.path)
        self._sizes[directory] = found
        sizes: dict[TopicId, int] = {}
        for replica, size in found.items():
            sizes[replica.topic_id] = sizes.get(replica.topic_id, 0) + size
        leaving = _measure_purged_blocking(disk, directory.path)  # first: what goes in between counts twice, not never
        return disk.free_bytes(directory.path) + leaving, disk.total_bytes(directory.path), sizes


def _measure_purged_blocking(disk: Disk, directory: str) -> int:
    """The bytes of replicas that were purged, and whose files are to be removed."""
    size = 0
    for name in disk.listdir(directory):
        path, parsed = f"{directory}/{name}", parse_directory_name(name)
        if parsed is None or parsed.kind is not DirectoryKind.DELETE or not disk.exists(f"{path}/{TRASH_FILE}"):
            continue
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            size += _measure_blocking(disk, path)
    return size


def _measure_blocking(disk: Disk, path: str) -> int:
    return sum(disk.stat(f"{path}/{name}").size for name in disk.listdir(path))
