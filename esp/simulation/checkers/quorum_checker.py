"""Holds the members of the metadata quorum against one another: their logs as their disks have them, their epochs and their leaders."""

from collections.abc import Callable

from esp.model.ids import METADATA_TOPIC, ZERO_UUID, TopicId, TopicPartition
from esp.raft.voters import VoterSet, is_majority
from esp.simulation.checkers import probe
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.checkers.voter_checker import VoterChecker
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode


class _Member:
    """One member in one life, as it was when it was last looked at."""

    def __init__(self, view: ReplicaView, driver: object, epoch: int, voters: VoterSet) -> None:
        self.view = view
        self.voters = voters
        self.driver = driver
        self.epoch = epoch
        self.is_leader = False
        self.names_others = False
        """True if its log may name other voters than those that it was seen to count."""


class QuorumChecker:
    """Follows the logs and roles of the members of the quorum.

    Args:
        ledger: knows whose device lies: after a failed sync it lacks what the node must believe to be there (SYNC-1).
        now_s: the simulation's time.
    """

    def __init__(self, ledger: Ledger, now_s: Callable[[], float]) -> None:
        self._ledger = ledger
        self._voters = VoterChecker(now_s)
        self.committed = CommittedLog(TopicPartition(METADATA_TOPIC, 0), TopicId(ZERO_UUID))
        self._members: dict[int, _Member] = {}
        self._former: dict[int, ReplicaView] = {}
        """The logs of members when they lost their disks: a leader may have heard of them, and count them later."""
        self._leaders: dict[int, tuple[int, int]] = {}
        self._led_epochs: dict[int, int] = {}

    @property
    def last_led_epoch(self) -> int:
        """The last epoch that any node has led; -1 if there is none."""
        return max(self._leaders, default=-1)

    def look(self, node: SimulatedNode) -> None:
        """Compare a node's member with what it was. Raises ViolationError."""
        driver = probe.raft(node)
        log = probe.metadata_log(node)
        if driver is None or log is None:
            return
        member = self._members.get(node.node_id)
        if member is None or member.driver is not driver:
            member = self._begin(node, driver.epoch)
        view = member.view
        if (
            log.log_end_offset != view.end_offset
            or driver.high_watermark != view.high_watermark
            or log.log_start_offset != view.log_start_offset
        ):
            self._check_log(node, member)
        if driver.epoch != member.epoch or driver.is_leader != member.is_leader:
            self._check_epoch(node, member)
        member.voters = driver.voters

    def _begin(self, node: SimulatedNode, epoch: int) -> _Member:
        log = probe.metadata_log(node)
        assert log is not None
        if node.lost_of_member is not None:
            raise ViolationError(
                "INV-RAFT-VOTE", node.name, f"takes part without {node.lost_of_member} (RAFT-2, RAFT-45)"
            )
        led = self._led_epochs.get(node.node_id, 0)
        if epoch < led:
            raise ViolationError(
                "INV-RAFT-EPOCH", node.name, f"came up in epoch {epoch} after it led epoch {led} (RAFT-2)"
            )
        who = f"{node.name}, metadata"
        view = ReplicaView(who, node.disk, log.path, TopicId(ZERO_UUID), log.log_start_offset)
        view.high_watermark = log.log_start_offset
        driver = probe.raft(node)
        assert driver is not None
        self._voters.on_voters(driver.voters)
        member = self._members[node.node_id] = _Member(view, driver, epoch, driver.voters)
        return member

    def on_new_disk(self, node: SimulatedNode) -> None:
        """A dead node's disk holds something else from now on: it is another member."""
        if node.node_id in self._ledger.strangers:
            self._led_epochs.pop(node.node_id, None)
            former = self._members.pop(node.node_id, None)
            if former is not None:
                self._former[node.node_id] = former.view

    def _check_epoch(self, node: SimulatedNode, member: _Member) -> None:
        driver = probe.raft(node)
        assert driver is not None
        if driver.epoch < member.epoch:
            raise ViolationError("INV-RAFT-EPOCH", node.name, f"epoch {driver.epoch} after {member.epoch}")
        if driver.is_leader:
            leader = self._leaders.setdefault(driver.epoch, (node.node_id, node.lives))
            if leader != (node.node_id, node.lives):
                raise ViolationError(
                    "INV-RAFT-ELECTION",
                    node.name,
                    f"leads epoch {driver.epoch} in life {node.lives}, which node {leader[0]} led in life {leader[1]} (RAFT-2, RAFT-5)",
                )
            self._led_epochs[node.node_id] = driver.epoch
            last = self.committed.last
            # One that learns of its election late may lead an epoch before that in which others have committed meanwhile.
            is_late = last is not None and last.leader_epoch > driver.epoch
            if not member.is_leader and not is_late and not self.committed.is_held_by(member.view):
                raise ViolationError(
                    "INV-RAFT-COMPLETE",
                    node.name,
                    f"leads epoch {driver.epoch} with a log that ends at {member.view.end_offset}; committed is {self.committed.last}",
                )
        member.epoch, member.is_leader = driver.epoch, driver.is_leader

    def _check_log(self, node: SimulatedNode, member: _Member) -> None:
        driver, log, view = probe.raft(node), probe.metadata_log(node), member.view
        assert driver is not None
        assert log is not None
        if log.log_start_offset > view.end_offset:
            view.restart(log.log_start_offset)
        was_cut = view.cut(log.log_start_offset, log.log_end_offset)
        if was_cut and view.end_offset < view.high_watermark:
            raise ViolationError(
                "INV-NO-TRUNC-BELOW-HW",
                view.who,
                f"cut to {view.end_offset}, below its high watermark {view.high_watermark} (RAFT-10)",
            )
        names_others = was_cut
        before: BatchView | None = view.batches[-1] if view.batches else None
        for batch in view.read_to(log.log_end_offset):
            self.committed.on_batch(view, before, batch)
            before = batch
            names_others |= batch.is_control
            if driver.is_leader and batch.leader_epoch == driver.epoch:
                self._voters.on_append(node, view, batch, self._find_view)
        view.log_start_offset = log.log_start_offset
        if not probe.is_between_steps(node):
            member.names_others |= names_others
            return  # what the core knows to be committed may be about to come to the disk
        if names_others or member.names_others:
            member.names_others = False
            self._voters.check_newest(node, view)
        old, new = view.high_watermark, driver.high_watermark
        if new and new < old:
            raise ViolationError("INV-RAFT-HW-MONO", node.name, f"the high watermark fell from {old} to {new}")
        if new > old:
            view.high_watermark = new
            added = self.committed.on_high_watermark(view, old, min(new, view.end_offset))
            self._voters.on_committed(added)
            if driver.is_leader:
                self._check_evidence(node, member, added)

    def _check_evidence(self, node: SimulatedNode, leader: _Member, added: list[BatchView]) -> None:
        driver = probe.raft(node)
        assert driver is not None
        # Voters that came with this turn may have come behind what it committed.
        sets = [[voter.key.node_id for voter in voters.voters] for voters in (leader.voters, driver.voters)]
        for batch in added:
            holders = {node_id for node_id in {*sets[0], *sets[1]} if self._is_held_by(node_id, batch)}
            if not any(is_majority(len(holders.intersection(voters)), len(voters)) for voters in sets):
                raise ViolationError(
                    "INV-RAFT-EVIDENCE",
                    node.name,
                    f"{batch} is committed; of the voters {sets[1]} only {sorted(holders)} have it on their devices (RAFT-11, RAFT-12)",
                )

    def _is_held_by(self, node_id: int, batch: BatchView) -> bool:
        """True if a member has a batch on its device, or had it when it lost that."""
        if node_id in self._ledger.strangers:
            former = self._former.get(node_id)
            known = former.find(batch.base_offset) if former is not None else None
            return known is not None and known.is_same(batch)
        view = self._find_view(node_id)
        found = view.find(batch.base_offset) if view is not None else None
        if found is None or not found.is_same(batch) or not found.still_stands():
            return False
        return found.is_durable() or node_id in self._ledger.poisoned

    def _find_view(self, node_id: int) -> ReplicaView | None:
        member = self._members.get(node_id)
        return member.view if member is not None else None
