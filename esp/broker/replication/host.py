"""The replicas of this node, which are made, led, followed and deleted as the metadata says.

Invariants: a partition is found here only after its log is open, and is led here only after its log knows its leader epoch (LOG-8);
changes of metadata are applied one after another, each whole, and :attr:`ReplicaHost.applied_offset` names the last one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.live_settings import LiveSettings
from esp.broker.replication.directories import ReplicaDirectories
from esp.broker.replication.directory_assignments import DirectoryAssignments
from esp.broker.replication.final_ends import find_final_ends
from esp.broker.replication.gone_logs import GoneLogs
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.loading import LoadedReplica, ReplicaLoading
from esp.broker.replication.log_dir_moves import LogDirMoves
from esp.broker.replication.replica_files import NewReplica, ReplicaFiles
from esp.broker.replication.roles import ReplicaRoles
from esp.broker.replication.rotten_replicas import RottenReplicas
from esp.broker.replication.throttles import ReplicaThrottles
from esp.broker.tasks import Tasks
from esp.controller.directories import NOWHERE
from esp.controller.image import ClusterDelta, ClusterImage, TopicImage
from esp.controller.leadership import acceptable_leaders
from esp.controller.offset_floors import FinalEnd
from esp.model.ids import LOST_DIRECTORY, NO_NODE, BrokerEpoch, DirectoryId, NodeId, TopicId, TopicPartition
from esp.model.partition import PartitionState
from esp.ports.env import Env
from esp.settings.broker import BrokerSettings
from esp.settings.throttled_replicas import REPAIRED_REPLICAS
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

TURN_MAX: Final = 64
"""Replicas that change in one turn of the loop, or of a worker: some milliseconds of work."""

Item = TypeVar("Item")


def in_turns(items: Iterable[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items, in their order, in parts of :data:`TURN_MAX`: the work of one turn of the loop."""
    iterator = iter(items)
    while turn := list(islice(iterator, TURN_MAX)):
        yield turn


class ReplicaFlushes:
    """Flushes of replicas that are asked for at each append: one at a time for each log, and one more for all that came meanwhile (SYNC-2).

    Args:
        flush: flushes one replica's log.
        tasks: where the flushes live.
    """

    def __init__(self, flush: Callable[[HostedPartition], Awaitable[None]], tasks: Tasks) -> None:
        self._flush = flush
        self._tasks = tasks
        self._running: dict[HostedPartition, bool] = {}
        """True: more was appended since the running flush began, so that another one has to follow it."""

    def flush_later(self, hosted: HostedPartition) -> None:
        """Flush what was appended before this call, soon."""
        if hosted in self._running:
            self._running[hosted] = True
        else:
            self._running[hosted] = False
            self._tasks.start(self._run(hosted), name=f"flush {hosted.name}")

    async def _run(self, hosted: HostedPartition) -> None:
        again = True
        while again:
            self._running[hosted] = False
            await self._flush(hosted)
            again = self._running[hosted]
        del self._running[hosted]


_LOADING_TURN_US: Final = 20_000
"""The time for which logs are opened before the metadata log may be cut again; a log that has to be recovered may take longer."""


class ReplicaHost:
    """Owns the node's logs and the cores that lead them.

    Args:
        env: the outside.
        node_id: this node.
        settings: the node's own settings.
        directories: the open data directories.
        directories_lock: the node's, for all of them.
        tasks: where background work lives.
        on_leading: called with each replica that begins to lead, in each of its epochs; that it does so no more, its waiters are told.
        on_directory_failed: called when :attr:`offline_directories` has grown: the controller should know at once.
        on_final_ends: called with the ends of logs of deleted partitions that this node led last: the controller should know at once.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        settings: BrokerSettings,
        directories: Sequence[LogDirectory],
        directories_lock: asyncio.Lock,
        tasks: Tasks,
        *,
        on_leading: Callable[[HostedPartition], None],
        on_directory_failed: Callable[[], None],
        on_final_ends: Callable[[Sequence[FinalEnd]], None],
    ) -> None:
        self._env = env
        self._node_id = node_id
        self.settings = LiveSettings(node_id, settings)
        """The settings in effect now, with what was changed at run time."""
        self._tasks = tasks
        self._directories = ReplicaDirectories(env.host, directories)
        self._files = ReplicaFiles(env, self._directories)
        self._roles = ReplicaRoles(env, node_id, settings, tasks, self)
        self._assignments: DirectoryAssignments | None = None
        self.by_topic: dict[str, dict[int, HostedPartition]] = {}
        """The replicas here by topic name and partition: the hot paths look here directly."""
        self.by_topic_id: dict[bytes, dict[int, HostedPartition]] = {}
        """The replicas here by the 16 bytes of the topic's id, and by partition."""
        self.applied_offset = -1
        """Metadata offset up to which the replicas here are as the metadata says."""
        self.directories_lock = directories_lock
        """Held while a thread works on the data directories' logs or checkpoints, and while a log is cut."""
        self.throttles = ReplicaThrottles(env.clock, settings)
        self._rotten = RottenReplicas(
            node_id,
            tasks,
            self.directories_lock,
            self.tell_directory,
            self._renew,
            lambda state: acceptable_leaders(self.image, state),
        )
        self.moves = LogDirMoves(env, node_id, tasks, self, self.throttles.moves)
        """Replicas on their way from one data directory to another."""
        self._channel: tuple[ControllerCalls, Callable[[], BrokerEpoch]] | None = None
        """The way to the controller, and this node's epoch, once it is connected."""
        self._unfinished_moves: list[LoadedReplica] = []
        self._gone = GoneLogs(env, node_id, tasks, self._files.find_trashed, self.make_missing)
        self._on_leading = on_leading
        self._on_directory_failed = on_directory_failed
        self._on_final_ends = on_final_ends
        self._unmade: dict[tuple[TopicId, int], None] = {}
        """Replicas that should be here, and could not be made."""
        self._to_wake: dict[HostedPartition, None] = {}
        self._flushes = ReplicaFlushes(self.flush, tasks)

    @property
    def image(self) -> ClusterImage:
        """The metadata that the replicas here follow, or are being made to follow."""
        return self._roles.image

    def find(self, topic: str, partition: int) -> HostedPartition | None:
        """Find a replica of this node; None if it is not here."""
        partitions = self.by_topic.get(topic)
        return partitions.get(partition) if partitions is not None else None

    def __iter__(self) -> Iterator[HostedPartition]:
        """Iterate over the replicas here, by topic in the order in which the topics were first seen."""
        for partitions in tuple(self.by_topic.values()):
            yield from tuple(partitions.values())

    def led(self) -> Iterator[HostedPartition]:
        """The replicas that lead."""
        return (hosted for hosted in self if hosted.leader is not None)

    def followed(self) -> Iterator[HostedPartition]:
        """The replicas that follow."""
        return (hosted for hosted in self if hosted.follower is not None)

    @property
    def directories(self) -> ReplicaDirectories:
        """The entries of ``log.dirs``."""
        return self._directories

    @property
    def offline_directories(self) -> tuple[DirectoryId, ...]:
        """The log directories that have failed since the node started."""
        return self._directories.failed

    @property
    def are_whole(self) -> bool:
        """True if no log had anything missing when it was opened (BRK-3)."""
        return all(hosted.log.is_whole for hosted in self)

    def is_online(self, directory: LogDirectory) -> bool:
        """True if the log directory, one of this node's, has not failed."""
        return directory in self._directories.online

    # The cluster.

    def connect(self, channel: ControllerCalls, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        """Fetch from other brokers and speak to the controller from now on; before, the node lives for itself.

        Args:
            channel: the channel to the controller.
            broker_epoch: this node's, as registered last.
        """
        self._channel = channel, broker_epoch
        self._assignments = DirectoryAssignments(self._env, self._node_id, channel, broker_epoch, self._tasks)
        self._update_throttles(self.image)
        self._roles.connect(channel, broker_epoch)
        for topic, directory, copy in self._unfinished_moves:
            self.moves.begin(self.by_topic[topic.name][copy.partition.partition], directory, copy)
        self._unfinished_moves.clear()

    def disconnect(self) -> None:
        """Ask other nodes nothing more; what they ask is still answered."""
        self._roles.disconnect()
        if self._assignments is not None:
            self._assignments.close()
            self._assignments = self._channel = None

    def stop_leading(self) -> None:
        """Lead no partition until newer metadata says so: this broker's registration counts no more (BRK-4)."""
        for hosted in tuple(self.led()):
            self._roles.give_up(hosted)

    def began_to_lead(self, hosted: HostedPartition) -> None:
        """Notify the owner that a partition is led here in a new epoch."""
        self._on_leading(hosted)

    def may_join(self, hosted: HostedPartition) -> None:
        """Propose, soon, that a follower of a partition that is led here joins its in-sync set."""
        self._roles.may_join(hosted)

    # Metadata.

    async def load(self, image: ClusterImage) -> None:
        """Open, and recover where that is needed, every replica that stands in the data directories: in turns of a worker thread.

        One that the metadata does not know is put aside as a stray: it is never adopted by a topic of the same name (REASSIGN-4). Between
        two turns the metadata log may be cut, which is open already: its offsets stand in the checkpoints of one of the directories.

        Raises:
            OperatorError: a log cannot be opened.
        """
        clock = self._env.clock
        self.settings.update(image)
        loading = ReplicaLoading(self._node_id, self._directories.online, image, self.settings, clock.wall_ms())
        steps = loading.steps_blocking()

        def has_more_blocking() -> bool:
            end_us = clock.monotonic_us() + _LOADING_TURN_US
            return any(clock.monotonic_us() > end_us for _ in steps)

        has_more = True
        while has_more:
            async with self.directories_lock:
                has_more = await self._env.cpu.run(has_more_blocking)
        for loaded in loading.replicas.values():
            self._add(loaded.topic, loaded.log)
        self._unfinished_moves = list(loading.copies.values())
        self._gone.found = loading.gone

    async def tell_gone(self, channel: ControllerCalls, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        """Tell the controller which logs are not there though they should be, and return when it knows (BRK-11); none is made before."""
        for directory in tuple(self._directories.online):
            if directory.is_offline:  # it failed when it was asked for what is in it
                self.fail(directory, f"{directory.path} cannot be flushed")
        await self._gone.report_found(channel, broker_epoch)

    async def apply(self, image: ClusterImage, delta: ClusterDelta, publish: Callable[[ClusterImage], None]) -> None:
        """Make the replicas here what ``image`` says, then ``publish`` it.

        Args:
            image: the metadata now.
            delta: the changes since the image that was applied last.
            publish: tells clients.
        """
        async with self.directories_lock:
            await self._change_replicas(image, delta)
        publish(image)
        self.applied_offset = image.offset

    async def _change_replicas(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self._roles.image = image
        await self._delete(image, delta.deleted_topics.values())
        if delta.purged_topics:
            self._fail_all(await self._files.purge(delta.purged_topics.keys()))
        if delta.changed_broker_configs:
            self.settings.update(image)
        changed = image.topics_by_id if delta.changed_broker_configs else delta.changed_topic_configs
        for topic_id in changed:
            self._change_settings(image, image.topics_by_id[topic_id])
        if changed:
            self._update_throttles(image)
        await self._take_over(
            (image.topics_by_id[topic_id], number)
            for topic_id, numbers in delta.changed_partitions.items()
            for number in sorted(numbers)
        )
        # Only now: a lesser min.insync.replicas must not meet an in-sync set that the same metadata has replaced (ELR-3).
        for topic_id in changed:
            for hosted in self.by_topic.get(image.topics_by_id[topic_id].name, {}).values():
                self._roles.update_settings(hosted)
        await self._rotten.care()
        if delta.changed_brokers:
            self._roles.update_brokers(sorted(delta.changed_brokers))

    async def make_missing(self) -> None:
        """Try again to make the replicas for which there was no room, or that have rotted."""
        async with self.directories_lock:
            await self._rotten.care()
            unmade, self._unmade = self._unmade, {}
            topics = self.image.topics_by_id
            missing = [(topics[topic_id], number) for topic_id, number in unmade if topic_id in topics]
            await self._take_over((topic, number) for topic, number in missing if number < len(topic.partitions))

    async def _take_over(self, changed: Iterable[tuple[TopicImage, int]]) -> None:
        """Let partitions here be as the metadata says; the loop goes on between many of them."""
        for turns_before, turn in enumerate(in_turns(changed)):
            if turns_before:
                await self._env.clock.sleep_us(0)
            states = [(topic, topic.partitions[number]) for topic, number in turn]
            await self._make(states)
            leaving = []
            for topic, state in states:
                if (hosted := self.find(topic.name, state.partition)) is None:
                    continue
                if self._node_id in state.replicas:
                    await self._take_role(hosted, state)
                elif hosted.state is None or state.partition_epoch > hosted.state.partition_epoch:
                    leaving.append(hosted)
            await self._remove(leaving)

    async def _take_role(self, hosted: HostedPartition, state: PartitionState) -> None:
        try:
            await self._roles.take_over(hosted, state)
        except OSError as error:
            self.on_disk_error(hosted, error)
        self.tell_directory(hosted)

    async def _make(self, states: Sequence[tuple[TopicImage, PartitionState]]) -> None:
        """Make the replicas that should be here and are not."""
        missing = [
            (topic, state)
            for topic, state in states
            if self._node_id in state.replicas and self.find(topic.name, state.partition) is None
        ]
        missing, withheld = self._gone.report_unrestored(missing, self._channel)
        self._unmade.update(dict.fromkeys(withheld))
        wanted = [
            NewReplica(
                TopicPartition(topic.name, state.partition),
                topic.topic_id,
                self.settings.of_topic(self.image, topic),
                state.start_offset,
            )
            for topic, state in missing
        ]
        for (topic, state), opened in zip(missing, await self._files.create(wanted), strict=True):
            if opened is None:
                self._unmade[topic.topic_id, state.partition] = None
            else:
                self._add(topic, opened)

    def _update_throttles(self, image: ClusterImage) -> None:
        repairs = any(REPAIRED_REPLICAS in topic.configs for topic in image.topics_by_id.values())
        self.throttles.on_settings(self.settings.current, repairs=repairs)

    def _change_settings(self, image: ClusterImage, topic: TopicImage) -> None:
        settings = self.settings.of_topic(image, topic)
        for hosted in self.by_topic.get(topic.name, {}).values():
            hosted.log.settings = settings

    def _add(self, topic: TopicImage, opened: Log) -> HostedPartition:
        hosted = HostedPartition(opened.partition, topic.topic_id, opened, self._wake_later, self._flushes.flush_later)
        partitions = self.by_topic.setdefault(topic.name, {})
        self.by_topic_id[topic.topic_id.bytes] = partitions
        partitions[opened.partition.partition] = hosted
        self.watch_log(hosted)
        return hosted

    def watch_log(self, hosted: HostedPartition) -> None:
        """Watch a replica's new log for rot, also for rot that was found while it was opened.

        Rot of the log before concerns the replica no more: a copy in another directory has only batches that match their checksums.
        """
        self._rotten.forget(hosted)
        hosted.log.on_rot = partial(self._rotten.add, hosted)
        if hosted.log.rot is not None:
            hosted.log.on_rot()

    async def _renew(self, hosted: HostedPartition) -> None:
        """Put a replica's files aside and begin it anew, empty."""
        topic = self.image.topics_by_id.get(hosted.topic_id)
        if topic is not None and self.find(*hosted.name) is hosted:
            await self._remove([hosted])
            await self._take_over([(topic, hosted.name.partition)])

    async def _delete(self, image: ClusterImage, topics: Iterable[TopicImage]) -> None:
        leaving: list[HostedPartition] = []
        trashed: list[HostedPartition] = []
        for topic in topics:
            self.settings.forget(topic.topic_id)
            if topic.topic_id.bytes in self.by_topic_id:  # else there is nothing here, or a topic of the same name
                group = trashed if topic.topic_id in image.trashed_topics else leaving
                group += self.by_topic[topic.name].values()
        for turn in in_turns(leaving):
            await self._remove(turn)
        for turn in in_turns(trashed):
            await self._remove(turn, into_trash=True)
        if ends := tuple(find_final_ends(self.image, self._node_id, (*leaving, *trashed))):
            self._on_final_ends(ends)

    async def _remove(self, leaving: Sequence[HostedPartition], *, into_trash: bool = False) -> None:
        """Let go of replicas that should be here no more, and of their files (REASSIGN-4), or put these in the trash (TRASH-2)."""
        for hosted in leaving:
            topic, number = hosted.name
            partitions = self.by_topic[topic]
            del partitions[number]
            if not partitions:
                del self.by_topic[topic]
                del self.by_topic_id[hosted.key[0]]
            self._roles.give_up(hosted)
            self._rotten.forget(hosted)
            await self.moves.cancel(hosted)
            if self._assignments is not None:
                self._assignments.withdraw(hosted)
        async with AsyncExitStack() as held:
            for hosted in leaving:
                await held.enter_async_context(hosted.busy)
            logs = [hosted.log for hosted in leaving]
            if into_trash:
                failures = await self._files.put_in_trash(logs, self.image)
            else:
                failures = await self._files.put_aside(logs)
        self._fail_all(failures)

    def _fail_all(self, failures: Mapping[LogDirectory, OSError]) -> None:
        for directory, error in failures.items():
            self.fail(directory, f"replicas in {directory.path} cannot be put aside: {error}")

    def tell_directory(self, hosted: HostedPartition) -> None:
        """Make sure that the controller knows in which directory a replica is (KIP-858)."""
        if self._assignments is None or hosted.state is None:
            return
        here = self._place_to_tell(hosted)
        if here is None:
            return
        state = hosted.state
        known = state.directories[state.replicas.index(self._node_id)] if state.directories else here
        if state.leader != NO_NODE or known == LOST_DIRECTORY:
            self._gone.forget((hosted.topic_id, state.partition))
        if self.withholds_directory(hosted):
            # An empty log counts as gone until there is a leader (BRK-11): it is reported again of a log that was begun anew while
            # there was a leader, if that leader went before anything was fetched. Where other replicas are candidates that matters only
            # for an unclean election, and only if the controller takes the replica for one that is offline.
            is_needless = known == LOST_DIRECTORY or not state.directories or hosted.is_offline
            candidates = (*state.elr, *state.last_known_elr)
            if is_needless or (candidates and (self._directories.is_online(known) or self._node_id in candidates)):
                self._assignments.withdraw(hosted)
            else:
                self._assignments.tell(hosted, NOWHERE)
        elif known != here:
            self._assignments.tell(hosted, here)
        else:
            self._assignments.withdraw(hosted)

    def withholds_directory(self, hosted: HostedPartition) -> bool:
        """True if the controller is not to know the directory of a replica before its partition has a leader (BRK-11).

        The log of such a replica is empty, and the replica is not known to be complete; the metadata that says so may be to come yet.
        """
        state = hosted.state
        if state is None or state.leader != NO_NODE or hosted.log.log_end_offset > state.start_offset:
            return False
        is_candidate = self._node_id in (*state.isr, *state.elr, *state.last_known_elr)
        return not is_candidate or self._gone.is_reported((hosted.topic_id, state.partition))

    def _place_to_tell(self, hosted: HostedPartition) -> DirectoryId | None:
        """Where the controller is to know a replica: nowhere that is online if it cannot lead; None if nothing is to be told.

        One in a directory that has failed is told of with that directory, which the controller may not have known as its place.
        """
        directory = self._directories.holding(hosted.log)
        if directory is None:
            return self._directories.failed_with(hosted.log)
        if hosted.is_offline or self._rotten.has_lost_directory(hosted):
            return LOST_DIRECTORY
        announced = self.moves.announced_directory(hosted)
        return announced or (None if directory.meta is None else DirectoryId(directory.meta.directory_id))

    # Errors of the disk.

    def on_disk_error(self, hosted: HostedPartition, error: Exception) -> None:
        """A replica's log could not be changed: take its directory offline, so that others lead.

        Where a partition has no other replica, and a failed write was undone, that would help no client: the log stays online, and takes
        records again once there is room.
        """
        alone = hosted.state is not None and len(hosted.state.replicas) == 1
        directory = self._directories.holding(hosted.log)
        if directory is not None and (hosted.log.is_offline or not alone):
            self.fail(directory, f"{hosted.log.path} cannot be written: {error}")

    def take_offline(self, hosted: HostedPartition, error: Exception) -> None:
        """A replica cannot follow without losing records: stop it, and leave its files as they are (TRUNC-8).

        The controller is told, so that it is not elected.
        """
        log.critical("%s is offline until an operator repairs it: %s", hosted.log.path, error)
        hosted.is_offline = True
        self._roles.give_up(hosted)
        self.tell_directory(hosted)

    def fail(self, directory: LogDirectory, reason: str) -> None:
        """Take a directory offline, and the replicas in it."""
        if directory not in self._directories.online:
            return
        affected = [hosted for hosted in self if self._directories.holding(hosted.log) is directory]
        self._directories.fail(directory, reason)
        for hosted in affected:
            hosted.is_offline = True
            self._roles.give_up(hosted)
            self.tell_directory(hosted)
        self.moves.on_directory_failed(directory)
        self._on_directory_failed()

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
        """Flush one replica's log; nothing happens if it was deleted before its turn.

        An error is final (SYNC-1): the directory goes offline. What there was no room for is left to the next flush
        (:meth:`esp.storage.log.Log.flush`).
        """
        async with hosted.busy:
            if self.find(*hosted.name) is hosted:
                try:
                    is_flushed = await hosted.log.flush()
                except OSError as error:
                    directory = self._directories.holding(hosted.log)
                    if directory is not None:
                        self.fail(directory, f"{hosted.log.path} cannot be flushed: {error}")
                    return
                if is_flushed:
                    hosted.flushed()
