"""All replicas on this node: makes, leads and deletes them as the metadata says.

Invariants: a partition is found here only after its log is open, and is led here only after its log knows its leader epoch (LOG-8);
changes of metadata are taken one after another, each whole, and :attr:`ReplicaHost.applied_offset` names the last one.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence

from esp.broker.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.controller.image import ClusterDelta, ClusterImage, TopicImage
from esp.model.broker_settings import INT_MAX, BrokerSettings
from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import METADATA_TOPIC, NodeId, TopicId, TopicPartition
from esp.model.partition import PartitionState
from esp.model.settings import find_stored_problems, resolve_topic_settings
from esp.model.topic_settings import TopicSettings
from esp.ports.env import Env
from esp.replication.partition_leader import PartitionLeader
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)


class ReplicaHost:
    """Owns the node's logs and the cores that lead them.

    Args:
        env: the outside.
        node_id: this node.
        settings: the node's own settings.
        directories: the open data directories.
        tasks: where background work lives.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        settings: BrokerSettings,
        directories: Sequence[LogDirectory],
        tasks: Tasks,
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._settings = settings
        self._directories = directories
        self._tasks = tasks
        self.by_topic: dict[str, dict[int, HostedPartition]] = {}
        """The replicas here by topic name and partition: the hot paths look here directly."""
        self.by_topic_id: dict[bytes, dict[int, HostedPartition]] = {}
        """The same by the 16 bytes of the topic's id."""
        self.applied_offset = -1
        """Metadata offset up to which the replicas here are as the metadata says."""
        self.directories_lock = asyncio.Lock()
        """Held by whoever lets a thread work on the data directories' logs or checkpoints, so that only one does."""
        self._told_problems: dict[TopicId, list[str]] = {}
        self._applied_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._to_wake: dict[HostedPartition, None] = {}
        self._flushing: dict[HostedPartition, bool] = {}

    def find(self, topic: str, partition: int) -> HostedPartition | None:
        """One replica here, or None."""
        partitions = self.by_topic.get(topic)
        return partitions.get(partition) if partitions is not None else None

    def __iter__(self) -> Iterator[HostedPartition]:
        """All replicas here, by topic in the order in which the topics were first seen."""
        for partitions in tuple(self.by_topic.values()):
            yield from tuple(partitions.values())

    # Metadata.

    def load_blocking(self, image: ClusterImage, now_ms: int) -> None:
        """Open, and recover where that is needed, every replica that stands in the data directories.

        One that the metadata does not know is put aside as a stray: it is never adopted by a topic of the same name (REASSIGN-4).

        Raises:
            OperatorError: a log cannot be opened.
        """
        for directory in self._directories:
            for partition, topic_id in tuple(directory.replicas.items()):
                if partition.topic == METADATA_TOPIC:
                    continue
                topic = image.topics_by_name.get(partition.topic)
                if (
                    topic is None
                    or topic_id not in (topic.topic_id, None)
                    or partition.partition >= len(topic.partitions)
                    or self._node_id not in topic.partitions[partition.partition].replicas
                ):
                    directory.mark_stray(partition)
                    continue
                settings = self._topic_settings(image, topic)
                if topic_id is None:  # a power loss came before its first flush
                    self._add(topic, directory.create_log_blocking(partition, topic.topic_id, settings))
                else:
                    self._add(topic, self._load_blocking(directory, partition, settings, now_ms))

    def _load_blocking(
        self, directory: LogDirectory, partition: TopicPartition, settings: TopicSettings, now_ms: int
    ) -> Log:
        try:
            return directory.load_log_blocking(partition, settings, now_ms)
        except (OSError, CorruptionError) as error:
            raise OperatorError(
                f"The log of {partition} in {directory.path} cannot be opened: {error}.",
                "Mend the disk, or restore the partition's directory from a copy; moved away, the partition begins anew, empty.",
            ) from error

    async def apply(self, image: ClusterImage, delta: ClusterDelta, publish: Callable[[ClusterImage], None]) -> None:
        """Make the replicas here what ``image`` says, then ``publish`` it.

        Args:
            image: the metadata now.
            delta: what changed since the image that was applied last.
            publish: tells clients.
        """
        async with self.directories_lock:
            await self._change_replicas(image, delta)
        publish(image)
        self._mark_applied(image.offset)

    async def _change_replicas(self, image: ClusterImage, delta: ClusterDelta) -> None:
        for topic in delta.deleted_topics.values():
            await self._delete(topic)
        for topic_id in delta.changed_topic_configs:
            self._change_settings(image, image.topics_by_id[topic_id])
        for topic_id, numbers in delta.changed_partitions.items():
            topic = image.topics_by_id[topic_id]
            for number in sorted(numbers):
                await self._follow(image, topic, topic.partitions[number])

    def _mark_applied(self, applied_offset: int) -> None:
        self.applied_offset = applied_offset
        waiters, self._applied_waiters = self._applied_waiters, []
        for offset, future in waiters:
            if offset > applied_offset:
                self._applied_waiters.append((offset, future))
            elif not future.done():
                future.set_result(None)

    async def wait_until_applied(self, offset: int) -> None:
        """Return when the metadata up to ``offset`` was applied here."""
        if offset > self.applied_offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._applied_waiters.append((offset, future))
            await future

    async def _follow(self, image: ClusterImage, topic: TopicImage, state: PartitionState) -> None:
        """Take over one partition's new state."""
        hosted = self.find(topic.name, state.partition)
        if self._node_id not in state.replicas:
            return
        if hosted is None:
            opened = await self._create_log(image, topic, TopicPartition(topic.name, state.partition))
            if opened is None:
                return
            hosted = self._add(topic, opened)
        leader = hosted.leader
        if state.leader != self._node_id:
            if leader is not None:
                hosted.leader = None
                hosted.role_changed()
        elif leader is None or leader.leader_epoch != state.leader_epoch:
            hosted.leader = None
            if hosted.log.settings.flush_messages == 1:
                await self.flush(hosted)  # what a crash left is committed before anybody can ask (HW-5, SYNC-4)
            hosted.log.begin_epoch(state.leader_epoch)
            hosted.leader = PartitionLeader(hosted.log, state, self._node_id)
            hosted.role_changed()
        else:
            leader.update(state)
            hosted.role_changed()

    async def _create_log(self, image: ClusterImage, topic: TopicImage, name: TopicPartition) -> Log | None:
        """A new log in the directory with the fewest; None if its disk is full or failed, which is no reason to end the others."""
        directory = min(self._directories, key=lambda candidate: len(candidate.logs))
        settings = self._topic_settings(image, topic)
        try:
            return await self._env.cpu.run(directory.create_log_blocking, name, topic.topic_id, settings)
        except OSError as error:
            log.error(
                "%s cannot be made in %s: %s; it is served once that is mended and the node was started again",
                name,
                directory.path,
                error,
            )
            return None

    def _change_settings(self, image: ClusterImage, topic: TopicImage) -> None:
        settings = self._topic_settings(image, topic)
        for hosted in self.by_topic.get(topic.name, {}).values():
            hosted.log.settings = settings
            if hosted.leader is not None:
                hosted.leader.update(hosted.leader.state)
                hosted.role_changed()

    def _topic_settings(self, image: ClusterImage, topic: TopicImage) -> TopicSettings:
        problems = find_stored_problems(topic.configs)
        if problems and problems != self._told_problems.get(topic.topic_id):  # once, and not for each partition
            self._told_problems[topic.topic_id] = problems
            log.warning("the settings of topic %s in the metadata log: %s", topic.name, "; ".join(problems))
        # Leaders and controller agree on min.insync.replicas because both take it from the metadata (ELR-3).
        return dataclasses.replace(
            resolve_topic_settings(topic.configs, self._settings),
            min_insync_replicas=image.min_insync_replicas(topic, INT_MAX),
        )

    def _add(self, topic: TopicImage, opened: Log) -> HostedPartition:
        hosted = HostedPartition(opened.partition, topic.topic_id, opened, self._wake_later, self._flush_later)
        partitions = self.by_topic.setdefault(topic.name, {})
        self.by_topic_id[topic.topic_id.bytes] = partitions
        partitions[opened.partition.partition] = hosted
        return hosted

    async def _delete(self, topic: TopicImage) -> None:
        self.by_topic_id.pop(topic.topic_id.bytes, None)
        self._told_problems.pop(topic.topic_id, None)
        for hosted in self.by_topic.pop(topic.name, {}).values():
            hosted.leader = None
            hosted.role_changed()
            async with hosted.busy:
                self._directory_of(hosted.log).schedule_delete(hosted.log, self._env.clock.wall_ms())

    def _directory_of(self, wanted: Log) -> LogDirectory:
        return next(directory for directory in self._directories if directory.logs.get(wanted.partition) is wanted)

    # Waking and flushing.

    def _wake_later(self, hosted: HostedPartition) -> None:
        if not self._to_wake:
            self._env.clock.call_later_us(0, self._wake)
        self._to_wake[hosted] = None

    def _wake(self) -> None:
        to_wake, self._to_wake = self._to_wake, {}
        for hosted in to_wake:
            hosted.wake()

    async def flush(self, hosted: HostedPartition) -> None:
        """Flush one replica's log; nothing happens if it was deleted before its turn. An error is final (SYNC-1): it ends the node."""
        async with hosted.busy:
            if self.find(*hosted.name) is hosted:
                try:
                    await hosted.log.flush()
                except OSError as error:
                    self._env.host.fatal(f"{hosted.log.path} cannot be flushed: {error}")
                hosted.flushed()

    def _flush_later(self, hosted: HostedPartition) -> None:
        # True: more was appended since the running flush began, so that another one has to follow it (SYNC-2).
        if hosted in self._flushing:
            self._flushing[hosted] = True
        else:
            self._flushing[hosted] = False
            self._tasks.start(self._flush(hosted), name=f"flush {hosted.name}")

    async def _flush(self, hosted: HostedPartition) -> None:
        again = True
        while again:
            self._flushing[hosted] = False
            await self.flush(hosted)
            again = self._flushing[hosted]
        del self._flushing[hosted]
