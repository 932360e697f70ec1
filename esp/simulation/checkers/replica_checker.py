"""Holds the replicas of all nodes against one another, after every turn in which their nodes did something."""

import dataclasses
from collections.abc import Callable, Collection, Iterator

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.ids import TRANSACTIONS_TOPIC, TopicId, TopicPartition
from esp.replication.partition_leader import PartitionLeader
from esp.simulation.checkers import probe
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.compacted_records import CompactedRecords
from esp.simulation.checkers.log_start_checker import LogStartChecker
from esp.simulation.checkers.recovery import LostLife, check_epochs, check_producers
from esp.simulation.checkers.renewed_replicas import RenewedReplicas
from esp.simulation.checkers.replacements import Replacements
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.rises import Rises
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.outcome import Outcome
from esp.simulation.workload.batch_mark import BatchMark
from esp.storage.log import Log

Key = tuple[TopicId, int]
"""A partition of a topic that may be created again under the same name."""


class ReplicaChecker:
    """Keeps a view of every replica and the committed log of every partition, and checks each against the others.

    Args:
        min_isr: the effective ``min.insync.replicas`` of a partition, while it had an epoch.
        min_isr_since: the least of a partition's in that epoch and all later ones.
        is_flushed: whether a topic's records count only when they are flushed.
        leader_epoch: of a partition, by the metadata that counts.
        ledger: what was allowed to be lost.
    """

    def __init__(
        self,
        min_isr: Callable[[TopicId, int, int], int],
        min_isr_since: Callable[[TopicId, int, int], int],
        is_flushed: Callable[[TopicId], bool],
        leader_epoch: Callable[[TopicId, int], int],
        ledger: Ledger,
    ) -> None:
        self.committed: dict[Key, CommittedLog] = {}
        self.on_committed: Callable[[TopicPartition, list[BatchView]], None] = lambda _name, _batches: None
        """Told of the batches that are committed for the first time."""
        self.views: dict[int, dict[Key, ReplicaView]] = {}
        """The replicas of each node in its present life."""
        self.highest_log_starts: dict[Key, int] = {}
        """The highest log start that any replica of a partition ever had."""
        self.on_loss: Callable[[TopicPartition, int, str], None] = lambda _partition, _epoch, _who: None
        """Called when a replica begins to lead a partition in an epoch and lacks committed records, beyond what is promised."""
        self.log_starts = LogStartChecker(self.committed, lambda key: leader_epoch(*key) >= 0)
        self.rises = Rises()
        self.replacements = Replacements()
        self.begin_compacted: Callable[[str], CompactedRecords | None] | None = None
        """Makes the model of a partition of a topic, by its name; None if the topic is not compacted."""
        self._left: dict[HostedPartition, frozenset[int]] = {}
        """The committed records of a compacted replica when it was last read, by offset: others may be cut, and are not compacted away."""
        self.fallen_starts = 0
        """The number of times that a log was cut below its start, which fell with its end."""
        self.forgotten_starts = 0
        """The number of times that a replica came back with records below its log start, because the file that says it had rotted."""
        self.copies_found = 0
        """The number of times that a replica came back as a copy that a failed log directory had kept, and was newer than the replica."""
        self.half_cuts = 0
        """The number of cuts that failed halfway, so that the files hold less than their log, which is offline."""
        self.late_fetches = 0
        """Batches that were committed by the fetch of a follower that has lost its disk since it sent the fetch."""
        self.excused_folds: dict[str, None] = {}
        """The replicas whose producers' states were held against the batches alone that have not rotted, by name."""
        self.moved = 0
        """The number of times that a replica moved to another log directory."""
        self._renewed = RenewedReplicas()
        self._hosted: dict[int, dict[HostedPartition, ReplicaView]] = {}
        self._lost: dict[int, dict[Key, LostLife]] = {}
        self._left_behind: dict[int, dict[tuple[Key, str], list[BatchView]]] = {}
        """The batches of replicas that each node gave up, and could not remove: their log directory had failed."""
        self._away: dict[int, dict[Key, LostLife]] = {}
        """The replicas in log directories that are away."""
        self._returned: dict[int, dict[Key, LostLife]] = {}
        """The replicas in log directories that have come back since the node's last life."""
        self._starts: dict[Key, int] = {}
        self._unassigned: set[tuple[int, Key]] = set()
        self._min_isr = min_isr
        self._min_isr_since = min_isr_since
        self._is_flushed = is_flushed
        self._leader_epoch = leader_epoch
        self._ledger = ledger

    def on_begun(self, key: Key, start_offset: int) -> None:
        """A partition begins by the metadata, where the one of its name before it has ended (FLOOR-2)."""
        self._starts[key] = start_offset
        self.log_starts.on_begun(key, start_offset)

    def look(self, node: SimulatedNode) -> None:
        """Compare a node's replicas with what they were. Raises ViolationError."""
        known = self._hosted.setdefault(node.node_id, {})
        replicas = probe.hosted_partitions(node)
        replaced = self.replacements.to_look_at
        changed: list[HostedPartition] = []
        # All replicas after each turn, in which hardly one has changed: a simulation's hottest loop.
        for hosted in replicas:
            view, log = known.get(hosted), hosted.log
            if (
                view is None
                or log.log_end_offset != view.end_offset
                or log.high_watermark != view.high_watermark
                or log.recovery_point != view.recovery_point
                or log.log_start_offset != view.log_start_offset
                or hosted.leader is not view.leader
                or log.files.path != view.path
                or (replaced and log.files in replaced)
            ):
                changed.append(hosted)
        if len(changed) > 1:  # a coordinator's record and the data that it lets in may be of one turn
            changed.sort(key=_is_of_no_coordinator)
        for hosted in changed:
            self._look_at(node, hosted, known)
        if len(known) > len(replicas):
            self._forget(node, known, replicas)
        for hosted in self._renewed.of(node.node_id, replicas):
            if hosted.leader is not None:
                self._renewed.check(node.name, hosted, self.views, self._leader_epoch)

    def before_start(self, node: SimulatedNode, log: Log, start_offset: int) -> None:
        """A log of a node is about to start later: what goes is looked at as long as it is there. Raises ViolationError."""
        known = self._hosted.setdefault(node.node_id, {})
        replicas = probe.hosted_partitions(node)
        hosted = next((each for each in replicas if each.log is log), None)
        if hosted is None:
            return
        if log.is_offline:
            note(Excuse.OFFLINE_LOG_STARTS)
            return
        if hosted in known and log.log_start_offset < known[hosted].log_start_offset:
            return  # it has begun anew with the batch in which it starts (TRUNC-5), and starts within that at once
        if _is_of_no_coordinator(hosted):  # a coordinator's record may have let in data of this log in this turn
            for each in replicas:
                if not _is_of_no_coordinator(each):
                    self._look_at(node, each, known)
        view = self._look_at(node, hosted, known)
        key = (hosted.topic_id, hosted.name.partition)
        if not self.committed[key].is_excused and not _is_half_cut(log, view):
            self.log_starts.on_moved(key, view, log.settings, start_offset, node.clock.latest_wall_ms())

    def _look_at(
        self, node: SimulatedNode, hosted: HostedPartition, known: dict[HostedPartition, ReplicaView]
    ) -> ReplicaView:
        """Compare a replica with what it was, and return the view of it as it is."""
        view = known.get(hosted)
        if view is None:
            view = known[hosted] = self._begin(node, hosted)
        log = hosted.log
        is_read_again = log.files in self.replacements.to_look_at and self._look_at_segments(hosted, view)
        self._update(node, hosted, view)
        if is_read_again and not _is_half_cut(log, view):
            self._check_derived(hosted, view)
        return view

    def on_end(self, node: SimulatedNode, *, keeps_page_cache: bool, has_faulty_disk: bool) -> None:
        """A node's process ended; called before its disk changes."""
        lost = self._lost.setdefault(node.node_id, {})
        if not keeps_page_cache or has_faulty_disk:
            for key, life in lost.items():  # of replicas that this process did not come to open
                lost[key] = life.after_power_loss()
        for hosted, view in self._hosted.pop(node.node_id, {}).items():
            self.rises.take(hosted.log)
            key = (hosted.topic_id, hosted.name.partition)
            if (node.node_id, key) not in self._unassigned:  # else it ended before it heard that it holds none any more
                lost[key] = LostLife.of(view, keeps_page_cache=keeps_page_cache, has_faulty_disk=has_faulty_disk)

    def on_start(self, node: SimulatedNode) -> None:
        """A node is about to start on its disk as it is."""
        lost = self._lost.get(node.node_id, {})
        for key, life in lost.items():
            lost[key] = life.as_found()

    def on_new_disk(self, node: SimulatedNode) -> None:
        """A dead node's disk holds something else from now on."""
        for known in (self._lost, self._left_behind, self._away, self._returned):
            known.pop(node.node_id, None)

    def on_moved_away(self, node: SimulatedNode, path: str) -> None:
        """An operator took a replica's directory out of the way."""
        lost = self._lost.get(node.node_id, {})
        for key in [key for key, life in lost.items() if life.view.path == path]:
            del lost[key]

    def on_away(self, node: SimulatedNode, path: str) -> None:
        """A dead node's log directory goes away for a while."""
        lost, away = self._lost.get(node.node_id, {}), self._away.setdefault(node.node_id, {})
        for key in [key for key, life in lost.items() if life.view.path.startswith(f"{path}/")]:
            away[key] = lost.pop(key).as_found().after_power_loss()

    def on_returned(self, node: SimulatedNode) -> None:
        """The log directory of a dead node is there again."""
        self._returned[node.node_id] = self._away.pop(node.node_id, {})

    def on_unassigned(self, node_id: int, key: Key) -> None:
        """A node holds no replica of a partition any more, by the metadata: what it has of it when it comes back may be gone."""
        self._unassigned.add((node_id, key))
        for known in (self._lost, self._away, self._returned):
            known.get(node_id, {}).pop(key, None)

    def on_assigned(self, node_id: int, key: Key) -> None:
        """A node is to hold a replica of a partition, by the metadata."""
        self._unassigned.discard((node_id, key))

    def check_deeply(self, node: SimulatedNode) -> None:
        """Checks that cost more: of the state that is derived from the log (INV-EPOCH-CACHE, INV-PROD-FOLD). Raises ViolationError."""
        for hosted, view in self._hosted.get(node.node_id, {}).items():
            if not _is_half_cut(hosted.log, view):
                self._check_derived(hosted, view)

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with what was met with in its replicas."""
        return dataclasses.replace(
            outcome,
            partitions=len(self.committed),
            excused_partitions=sum(committed.is_excused for committed in self.committed.values()),
            forgotten_producers=sum(len(committed.restarts) for committed in self.committed.values()),
            fallen_log_starts=self.fallen_starts,
            forgotten_log_starts=self.forgotten_starts,
            copies_found=self.copies_found,
            successors_log_starts=self.log_starts.of_successors,
            half_cuts=self.half_cuts,
            late_fetches=self.late_fetches,
            excused_folds=len(self.excused_folds),
            moved_replicas=self.moved,
            replaced_segments=self.replacements.count,
        )

    def _check_derived(self, hosted: HostedPartition, view: ReplicaView) -> None:
        """Check the state that a log derives from its batches, all of which the view has read. Raises ViolationError."""
        check_epochs(view, hosted.log)
        self._check_producers(view, hosted.log)
        self._check_records(hosted, view)

    def _look_at_segments(self, hosted: HostedPartition, view: ReplicaView) -> bool:
        """Read a log again whose segments compaction has replaced, as far as it was known; returns whether some were.

        What the log derives from them is as before (CLEAN-5): the caller checks that when the view has read the batches that are new, too.
        """
        log = hosted.log
        view.replaced_below = self.replacements.under_way.get(log.files, 0)
        if not self.replacements.take(log.files) or log.is_offline or log.path != view.path:
            return False
        end_offset = view.end_offset
        self._check_records(hosted, view)
        view.restart(log.log_start_offset)
        self._read(view, log, None, up_to=min(end_offset, log.log_end_offset))
        return True

    def _check_records(self, hosted: HostedPartition, view: ReplicaView) -> None:
        """INV-CLEAN-LATEST and INV-CLEAN-MARKER, of all committed records and markers that a replica should have. Raises ViolationError."""
        committed = self.committed[hosted.topic_id, hosted.name.partition]
        compacted, log = committed.compacted, hosted.log
        if compacted is None or view.path != log.path:
            return
        found, markers = compacted.offsets_in(view.batches), compacted.markers_in(view.batches)
        compacted.note_bare(found, markers)
        if committed.is_excused:
            return
        start_offset, end_offset = log.log_start_offset, min(view.end_offset, log.high_watermark, committed.end_offset)
        problem = None
        lost_marker = compacted.find_lost_marker(start_offset, end_offset, found, markers)
        lost = compacted.find_lost(start_offset, end_offset, found)
        if lost_marker is None and lost is None:
            pass
        elif log.rot is not None:
            note(Excuse.ROTTEN_REPLICAS)
        elif log.is_offline:
            note(Excuse.OFFLINE_REPLICAS)
        elif lost_marker is not None:
            raise ViolationError("INV-CLEAN-MARKER", view.who, lost_marker)
        else:
            problem = lost
        before = self._left.get(hosted, frozenset())
        problem = problem or compacted.find_returned(
            before - found, [offset for offset in sorted(found) if start_offset <= offset < end_offset]
        )
        self._left[hosted] = frozenset(offset for offset in found if offset < end_offset)
        if problem is not None:
            raise ViolationError("INV-CLEAN-LATEST", view.who, problem)

    def _check_producers(self, view: ReplicaView, log: Log) -> None:
        """INV-PROD-FOLD, and the count of what it excuses. Raises ViolationError."""
        if check_producers(view, log):
            self.excused_folds[view.who] = None

    def of_partition(self, key: Key) -> CommittedLog | None:
        """The committed log of a partition, or None if no replica has it."""
        return self.committed.get(key)

    def hosted_on(self, node_id: int, key: Key) -> HostedPartition | None:
        """The replica of a partition that a living node has open, or None."""
        for hosted in self._hosted.get(node_id, ()):
            if (hosted.topic_id, hosted.name.partition) == key:
                return hosted
        return None

    def leader_on(self, node_id: int, key: Key) -> PartitionLeader | None:
        """The core with which a living node leads a partition, or None."""
        hosted = self.hosted_on(node_id, key)
        return None if hosted is None else hosted.leader

    def is_excused(self, key: Key) -> bool:
        """True if a partition lost more than is promised to survive."""
        committed = self.committed.get(key)
        return committed is not None and committed.is_excused

    def is_given_up(self, key: Key) -> bool:
        """True if it is certain that a partition lost more than is promised."""
        committed = self.committed.get(key)
        return committed is not None and committed.is_excused and committed.doubted_epoch is None

    def is_retired(self, key: Key, mark: BatchMark) -> bool:
        """True if a batch was committed, and some replica's log starts behind it."""
        committed = self.committed.get(key)
        return committed is not None and committed.is_retired(mark, self.highest_log_starts.get(key, 0))

    def awaits_help(self, key: Key) -> bool:
        """True if a partition lost so much that a replica of it waits for help: offline (TRUNC-8), or leading and rotten (REC-4)."""
        return self.is_excused(key) and any(
            hosted.is_offline or (hosted.leader is not None and hosted.log.rot is not None)
            for replicas in self._hosted.values()
            for hosted in replicas
            if (hosted.topic_id, hosted.name.partition) == key
        )

    def replicas(self, key: Key) -> Iterator[tuple[int, ReplicaView]]:
        """All views of one partition with their nodes."""
        for node_id, views in self.views.items():
            if key in views:
                yield node_id, views[key]

    # ---------------------------------------------------------------------------------------------------------------------------

    def _forget(
        self, node: SimulatedNode, known: dict[HostedPartition, ReplicaView], replicas: Collection[HostedPartition]
    ) -> None:
        """Replicas are gone from a node that lives: by the metadata that it follows they must not be there, or they have rotted."""
        for hosted in [hosted for hosted in known if hosted not in replicas]:
            view = known.pop(hosted)
            self._left.pop(hosted, None)
            self.rises.take(hosted.log)
            key = (hosted.topic_id, hosted.name.partition)
            if hosted.log.is_offline:
                self._left_behind.setdefault(node.node_id, {})[key, view.path] = view.batches + view.read_rest()
            self._renewed.note(node, key)
            views = self.views[node.node_id]
            if views.get(key) is view:
                del views[key]
            topic = probe.followed_image(node).topics_by_id.get(hosted.topic_id)
            if (
                topic is not None
                and node.node_id in topic.partitions[hosted.name.partition].replicas
                and hosted.log.rot is None
            ):
                raise ViolationError("INV-REASSIGN", view.who, "is removed, and by the metadata it should be there")

    def _begin(self, node: SimulatedNode, hosted: HostedPartition) -> ReplicaView:
        """A replica appeared: new, or recovered from its files."""
        log = hosted.log
        key = (hosted.topic_id, hosted.name.partition)
        if key not in self.committed:
            name = TopicPartition(hosted.name.topic, hosted.name.partition)
            self.committed[key] = CommittedLog(name, hosted.topic_id)
            self.committed[key].end_offset = self._starts.get(key, 0)
            if self.begin_compacted is not None:
                self.committed[key].compacted = self.begin_compacted(name.topic)
        who = f"{node.name}, {hosted.name}"
        view = ReplicaView(who, node.disk, log.path, hosted.topic_id, log.log_start_offset)
        if not self.committed[key].is_excused:
            self.log_starts.on_found(key, view, log.log_start_offset)
        self._read(view, log, None)
        if node.node_id in self._ledger.poisoned:
            view.judged_from = view.end_offset
        self._check_recovered(node, key, view)
        self.views.setdefault(node.node_id, {})[key] = view
        self._note_log_start(hosted)
        check_epochs(view, log)
        self._check_producers(view, log)
        self._check_records(hosted, view)
        return view

    def _check_recovered(self, node: SimulatedNode, key: Key, view: ReplicaView) -> None:
        """INV-RECOVER-PREFIX, of a replica that appeared. Raises ViolationError."""
        lost = self._lost.get(node.node_id, {}).pop(key, None)
        returned = self._returned.get(node.node_id, {}).pop(key, None)
        left_behind = self._left_behind.get(node.node_id, {}).pop((key, view.path), [])
        committed = self.committed[key]
        if committed.is_excused:
            return
        if returned is not None and returned.view.path == view.path:
            self.forgotten_starts += returned.check(view, committed.compacted)
            left_behind = [*returned.front, *returned.batches]
        if lost is not None:
            is_elsewhere = bool(left_behind) and lost.view.path != view.path
            self.copies_found += is_elsewhere
            self.forgotten_starts += lost.check(view, committed.compacted, left_behind if is_elsewhere else ())

    def _note_log_start(self, hosted: HostedPartition) -> None:
        key = (hosted.topic_id, hosted.name.partition)
        self.highest_log_starts[key] = max(self.highest_log_starts.get(key, 0), hosted.log.log_start_offset)

    def _update(self, node: SimulatedNode, hosted: HostedPartition, view: ReplicaView) -> None:
        log = hosted.log
        committed = self.committed[hosted.topic_id, hosted.name.partition]
        leader = hosted.leader
        if log.log_start_offset > view.log_start_offset and not committed.is_excused:
            key = (hosted.topic_id, hosted.name.partition)
            self.log_starts.on_moved(key, view, log.settings, log.log_start_offset, node.clock.latest_wall_ms())
        if log.log_start_offset < view.log_start_offset and leader is not None and leader is view.leader:
            raise ViolationError(
                "INV-LOG-START",
                view.who,
                f"the log start of a leader fell from {view.log_start_offset} to {log.log_start_offset}",
            )
        has_moved = log.path != view.path
        if has_moved:
            self._follow(view, log)
        if log.log_start_offset > view.end_offset:
            view.restart(log.log_start_offset)
        was_cut = view.cut(log.log_start_offset, log.log_end_offset)
        if _is_half_cut(log, view):
            self.half_cuts += was_cut
            return
        if was_cut and view.end_offset < view.high_watermark and not committed.is_excused:
            raise ViolationError(
                "INV-NO-TRUNC-BELOW-HW",
                view.who,
                f"cut to {view.end_offset}, below its high watermark {view.high_watermark}",
            )
        left = min(view.high_watermark, view.end_offset)
        start_left = min(view.log_start_offset, view.end_offset)
        self._read(view, log, node.name if leader is not None and leader is view.leader else None)
        if was_cut or has_moved:  # or it lost all its segments to retention
            check_epochs(view, log)
            self._check_producers(view, log)
        if not log.log_start_offset <= log.high_watermark <= log.log_end_offset:
            raise ViolationError(
                "INV-ORDER",
                view.who,
                f"{log.log_start_offset} <= {log.high_watermark} <= {log.log_end_offset} does not hold",
            )
        if leader is not None and leader is not view.leader:
            self._check_new_leader(leader, view, committed)
        self._check_falls(hosted, view, left, start_left)
        self._check_high_watermark(hosted, view, committed, is_same_leader=leader is view.leader and leader is not None)
        if log.recovery_point != view.recovery_point:
            self._check_synced(view, log.recovery_point, log.log_start_offset)
        view.high_watermark = log.high_watermark
        view.log_start_offset = log.log_start_offset
        self._note_log_start(hosted)
        view.recovery_point = log.recovery_point
        view.leader = leader

    def _follow(self, view: ReplicaView, log: Log) -> None:
        """A replica has moved to another log directory (KIP-113): what it had is there, and on the device what was on that before.

        Raises:
            ViolationError: INV-MOVED, and what the batches that are read there violate.
        """
        end_offset, recovery_point = view.end_offset, view.recovery_point
        if log.log_end_offset < end_offset or log.recovery_point < recovery_point:
            raise ViolationError(
                "INV-MOVED",
                view.who,
                f"ends at {log.log_end_offset} in {log.path}, {log.recovery_point} of that on the device; "
                f"in {view.path} at {end_offset}, {recovery_point} of that",
            )
        view.move(log.path, log.log_start_offset)
        self._read(view, log, None, up_to=end_offset)
        self.moved += 1

    def _check_new_leader(self, leader: PartitionLeader, view: ReplicaView, committed: CommittedLog) -> None:
        is_doubted = committed.is_settled_by(leader.leader_epoch)
        committed.on_led(view, leader.leader_epoch)
        if is_doubted and committed.is_excused:
            self.on_loss(committed.name, leader.leader_epoch, view.who)
        if committed.is_excused or committed.is_held_by(view):
            return
        # A leader that learns of its election after another one has no followers, and may lack what the next one committed (ISR-8). Of a
        # deleted topic that leader tells, or what it has written.
        newest_epoch = self._leader_epoch(committed.topic_id, committed.name.partition)
        if newest_epoch < 0:
            newest_epoch = committed.newest_epoch
        if leader.leader_epoch < newest_epoch:
            note(Excuse.LATE_ELECTIONS)
            return
        raise ViolationError(
            "INV-LEADER-COMPLETE",
            view.who,
            f"leads with a log that ends at {view.end_offset}; committed is {committed.last}",
        )

    def _read(self, view: ReplicaView, log: Log, leader: str | None, up_to: int | None = None) -> None:
        before: BatchView | None = view.batches[-1] if view.batches else None
        new = view.read_to(log.log_end_offset if up_to is None else up_to)
        if not new:
            return
        committed = self.committed[view.topic_id, _partition_of(view)]
        for batch in new:
            if self._ledger.rotten and not batch.is_whole():
                raise ViolationError(
                    "INV-NO-ROT-SERVED", view.who, f"{batch} was taken over, and does not match its checksum"
                )
            committed.on_batch(view, before, batch)
            if leader is not None:
                committed.on_leader_append(view, leader, batch)
            before = batch

    def _check_falls(self, hosted: HostedPartition, view: ReplicaView, left: int, start_left: int) -> None:
        """Neither high watermark nor log start of a replica falls in one life (READ-6), but to what is left of a log that was cut.

        Args:
            hosted: the replica.
            view: as it was before.
            left: the high watermark of before, or where the log ends that was cut below it.
            start_left: the log start of before, or where the log ends that was cut below it.
        """
        log = hosted.log
        if log.high_watermark < left:
            raise ViolationError(
                "INV-HW-MONO", view.who, f"the high watermark fell from {left} to {log.high_watermark}"
            )
        if log.log_start_offset < start_left:
            raise ViolationError(
                "INV-HW-MONO", view.who, f"the log start fell from {start_left} to {log.log_start_offset}"
            )
        self.fallen_starts += log.log_start_offset < view.log_start_offset

    def _check_high_watermark(
        self, hosted: HostedPartition, view: ReplicaView, committed: CommittedLog, *, is_same_leader: bool
    ) -> None:
        old, new = view.high_watermark, hosted.log.high_watermark
        if new < old and is_same_leader:
            raise ViolationError("INV-HW-MONO", view.who, f"the high watermark of a leader fell from {old} to {new}")
        if new <= old:
            return
        added = committed.on_high_watermark(view, max(old, hosted.log.log_start_offset), new)
        if added:
            self.on_committed(hosted.name, added)
        sizes = self.rises.take(hosted.log)
        leader = hosted.leader
        if not sizes and leader is not None:
            sizes = {leader.state.partition_epoch: len(leader.state.isr)}
        if not sizes or not added:
            return
        minima = {epoch: self._min_isr(hosted.topic_id, hosted.name.partition, epoch) for epoch in sizes}
        for epoch, isr_size in sizes.items():
            if isr_size < minima[epoch] and not committed.is_excused:
                raise ViolationError(
                    "INV-HW-STRICT", view.who, f"rose to {new} with {isr_size} in the ISR, fewer than {minima[epoch]}"
                )
        least = min(self._min_isr_since(hosted.topic_id, hosted.name.partition, epoch) for epoch in sizes)
        self._check_evidence(hosted, view, added, least)

    def _check_evidence(self, hosted: HostedPartition, view: ReplicaView, added: list[BatchView], min_isr: int) -> None:
        must_be_durable = self._is_flushed(hosted.topic_id)
        key = (hosted.topic_id, hosted.name.partition)
        if self._leader_epoch(*key) < 0:
            note(Excuse.DELETED_TOPICS)
            return  # the topic is deleted, and followers that said what they hold may have heard of it first
        for batch in added:
            holders = []
            for node_id, replica in self.replicas(key):
                found = replica.find(batch.base_offset)
                if found is None or not found.is_same(batch):
                    continue
                if not must_be_durable or found.base_offset < replica.judged_from or found.is_durable():
                    holders.append(node_id)
            # A fetch may come late: of a process that had the batch, and whose disk is gone by now.
            gone = self._ledger.copies.keys() & _in_sync(hosted) - {*holders}
            if len(holders) < min_isr <= len(holders) + len(gone):
                self.late_fetches += 1
            elif len(holders) < min_isr:
                raise ViolationError(
                    "INV-HW-EVIDENCE",
                    view.who,
                    f"{batch} is committed and held by the nodes {holders}, fewer than {min_isr}",
                )

    def _check_synced(self, view: ReplicaView, recovery_point: int, log_start_offset: int) -> None:
        for batch in view.from_offset(max(view.recovery_point, view.judged_from)):
            if log_start_offset < batch.next_offset <= recovery_point and not batch.is_durable():
                raise ViolationError(
                    "INV-DISK-ORDER",
                    view.who,
                    f"the recovery point is {recovery_point}, and {batch} is not on the device",
                )


def _in_sync(hosted: HostedPartition) -> frozenset[int]:
    """The replicas on which a leader counts; none at a follower."""
    return frozenset() if hosted.leader is None else frozenset(hosted.leader.state.isr)


def _partition_of(view: ReplicaView) -> int:
    return int(view.path.rpartition("-")[2])


def _is_of_no_coordinator(hosted: HostedPartition) -> bool:
    return hosted.name.topic != TRANSACTIONS_TOPIC


def _is_half_cut(log: Log, view: ReplicaView) -> bool:
    """True after a cut that failed halfway (LOG-13): the log serves nothing any more, and the next process goes by its files.

    A log that went offline in the turn in which it had appended has all of it in its files.
    """
    if not log.is_offline or view.end_offset >= log.log_end_offset:
        return False
    rest = view.read_rest()
    return not rest or rest[-1].next_offset < log.log_end_offset
