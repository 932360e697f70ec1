"""INV-TRASH, what nodes that lack room ask for: the topics that were deleted first, and no more of them than give it back (TRASH-6).

Looks at each disk itself at the moment at which its node measures it, and holds each purge that the node asks for then against that.
"""

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from esp.broker.replication.trash_guard import TrashGuard
from esp.controller.image import CLUSTER_DEFAULT, ClusterImage, TrashedTopic
from esp.model.ids import TopicId, uuid_from_base64
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.layout import DirectoryKind, parse_directory_name
from esp.storage.log_directory import LogDirectory
from esp.storage.trashed_replicas import TRASH_FILE

MAX_BYTES: Final = "topic.trash.max.bytes"
MIN_FREE_PERCENT: Final = 10
"""``topic.trash.min.free.percent`` of all nodes: the default."""


@dataclass(slots=True)
class _Look:
    """A log directory as it was measured, in bytes."""

    free: int
    total: int
    kept: dict[TopicId, int]
    """The bytes of topics in the trash, in the order of deletion."""
    max_bytes: list[int]
    """``topic.trash.max.bytes``, as it was then and as it is now."""
    asked: dict[TopicId, None] = field(default_factory=dict)
    """The topics whose purge was asked for since."""

    def find_fault(self, topic_id: TopicId, in_trash: Container[TopicId]) -> str:
        """The reason for which a topic must not be purged next; empty if there is none.

        Args:
            topic_id: the topic's.
            in_trash: those that are in the trash now, as the node knows.
        """
        if topic_id not in self.kept:
            return "has no replica there"
        for other in self.kept:
            if other == topic_id:
                break
            if other not in self.asked and other in in_trash:
                return f"goes before {other}, which was deleted first"
        freed = sum(self.kept[other] for other in self.asked)
        trash = sum(self.kept.values()) - freed
        is_small = all(most < 0 or trash <= most for most in self.max_bytes)
        if is_small and (self.free + freed) * 100 >= self.total * MIN_FREE_PERCENT:
            return f"goes though {self.free + freed} of {self.total} bytes are free, and {trash} in the trash, of {self.max_bytes}"
        return ""


class EarlyPurges:
    """Watches the guards of all nodes' trash.

    Args:
        report: takes what is found in the midst of a node's step.
    """

    def __init__(self, report: Callable[[ViolationError], None]) -> None:
        self.asked: dict[TopicId, None] = {}
        """The topics whose purge a guard has asked for."""
        self._report = report
        self._looks: dict[LogDirectory, _Look] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what the guards do, from outside, until the block ends."""
        measure, purge = TrashGuard._measure_blocking, TrashGuard._purge  # noqa: SLF001 - from outside, as probe does

        def watch_measure(guard: TrashGuard, directory: LogDirectory) -> tuple[int, int, dict[TopicId, int]]:
            measured = measure(guard, directory)
            self._looks[directory] = _look_at(guard, directory)
            return measured

        async def watch_purge(
            guard: TrashGuard, directory: LogDirectory, topic_id: TopicId, trashed: TrashedTopic
        ) -> None:
            self._on_asked(guard, directory, topic_id, trashed)
            await purge(guard, directory, topic_id, trashed)

        _patch(watch_measure, watch_purge)
        try:
            yield
        finally:
            _patch(measure, purge)

    def _on_asked(self, guard: TrashGuard, directory: LogDirectory, topic_id: TopicId, trashed: TrashedTopic) -> None:
        self.asked[topic_id] = None
        look = self._looks[directory]
        look.max_bytes.append(_max_bytes(guard))
        fault = look.find_fault(topic_id, guard._replicas.image.trashed_topics)  # noqa: SLF001
        look.asked[topic_id] = None
        if fault:
            place = f"{trashed.topic.name} ({topic_id}) in {directory.path}"
            self._report(ViolationError("INV-TRASH", place, f"is to be purged early, and {fault}"))


def find_left(disk: SimulatedDisk, directories: Iterable[str], known: Container[TopicId]) -> list[str]:
    """Directories in the trash of topics that are not known: something of a purged topic remains (TRASH-5)."""
    return [
        path
        for directory in directories
        for path, kind, topic_id in _trashed_in(disk, directory)
        if kind is DirectoryKind.STRAY and topic_id not in known
    ]


def _trashed_in(disk: SimulatedDisk, directory: str) -> Iterator[tuple[str, DirectoryKind, TopicId]]:
    """The replicas in the trash, and those on their way out of it."""
    for name in disk.names(directory):
        path, parsed = f"{directory}/{name}", parse_directory_name(name)
        if parsed is None or parsed.kind not in (DirectoryKind.STRAY, DirectoryKind.DELETE):
            continue
        content = disk.content(f"{path}/{TRASH_FILE}")
        if content is not None:
            yield path, parsed.kind, _topic_id(bytes(content.cached))


def _look_at(guard: TrashGuard, directory: LogDirectory) -> _Look:
    disk: Any = guard._env.disk  # noqa: SLF001
    assert isinstance(disk, SimulatedDisk)
    image: ClusterImage = guard._replicas.image  # noqa: SLF001
    leaving, sizes = 0, dict.fromkeys(image.trashed_topics, 0)
    found: dict[TopicId, None] = {}
    for path, kind, topic_id in _trashed_in(disk, directory.path):
        size = sum(
            len(file.cached) for name in disk.names(path) if (file := disk.content(f"{path}/{name}")) is not None
        )
        if kind is DirectoryKind.STRAY and topic_id in sizes:
            sizes[topic_id] += size
            found[topic_id] = None
        elif topic_id not in image.topics_by_id:
            leaving += size
    kept = {topic_id: size for topic_id, size in sizes.items() if topic_id in found}
    free = disk.free_bytes(directory.path) + leaving
    return _Look(free, disk.total_bytes(directory.path), kept, [_max_bytes(guard)])


def _topic_id(data: bytes) -> TopicId:
    (line,) = [line for line in data.decode().splitlines() if line.startswith("topic_id: ")]
    return TopicId(uuid_from_base64(line.removeprefix("topic_id: ")))


def _max_bytes(guard: TrashGuard) -> int:
    """The setting that counts at a node, by its metadata: only the default of all brokers is ever set."""
    return int(guard._replicas.image.broker_configs.get(CLUSTER_DEFAULT, {}).get(MAX_BYTES, "-1"))  # noqa: SLF001


def _patch(measure: Any, purge: Any) -> None:
    TrashGuard._measure_blocking = measure  # type: ignore[method-assign]  # noqa: SLF001
    TrashGuard._purge = purge  # type: ignore[method-assign]  # noqa: SLF001
