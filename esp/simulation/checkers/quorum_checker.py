"""Holds the members of the metadata quorum against one another: their logs as their disks have them, their epochs and their leaders."""

from esp.model.ids import METADATA_TOPIC, ZERO_UUID, TopicId, TopicPartition
from esp.raft.quorum import is_majority
from esp.simulation.checkers import probe
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.ledger import Ledger
from esp.simulation.node import SimulatedNode


class _Member:
    """One member in one life, as it was when it was last looked at."""

    def __init__(self, view: ReplicaView, driver: object, epoch: int) -> None:
        self.view = view
        self.driver = driver
        self.epoch = epoch
        self.is_leader = False


class QuorumChecker:
    """See the module.

    Args:
        ledger: knows whose device lies: after a failed sync it lacks what the node must believe to be there (SYNC-1).
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.committed = CommittedLog(TopicPartition(METADATA_TOPIC, 0), TopicId(ZERO_UUID))
        self._members: dict[int, _Member] = {}
        self._leaders: dict[int, tuple[int, int]] = {}
        self._led_epochs: dict[int, int] = {}

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

    def _begin(self, node: SimulatedNode, epoch: int) -> _Member:
        log = probe.metadata_log(node)
        assert log is not None
        led = self._led_epochs.get(node.node_id, 0)
        if epoch < led:
            raise ViolationError(
                "INV-RAFT-EPOCH", node.name, f"came up in epoch {epoch} after it led epoch {led} (RAFT-2)"
            )
        who = f"{node.name}, metadata"
        view = ReplicaView(who, node.disk, log.path, TopicId(ZERO_UUID), log.log_start_offset)
        view.high_watermark = log.log_start_offset
        member = self._members[node.node_id] = _Member(view, probe.raft(node), epoch)
        return member

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
            if not member.is_leader and not self.committed.is_held_by(member.view):
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
        if view.cut(log.log_start_offset, log.log_end_offset) and view.end_offset < view.high_watermark:
            raise ViolationError(
                "INV-NO-TRUNC-BELOW-HW",
                view.who,
                f"cut to {view.end_offset}, below its high watermark {view.high_watermark} (RAFT-10)",
            )
        before: BatchView | None = view.batches[-1] if view.batches else None
        for batch in view.read_to(log.log_end_offset):
            self.committed.on_batch(view, before, batch)
            before = batch
        view.log_start_offset = log.log_start_offset
        if not probe.is_between_steps(node):
            return  # what the core knows to be committed may be about to come to the disk
        old, new = view.high_watermark, driver.high_watermark
        if new and new < old:
            raise ViolationError("INV-RAFT-HW-MONO", node.name, f"the high watermark fell from {old} to {new}")
        if new > old:
            view.high_watermark = new
            added = self.committed.on_high_watermark(view, old, min(new, view.end_offset))
            if driver.is_leader:
                self._check_evidence(node, added)

    def _check_evidence(self, node: SimulatedNode, added: list[BatchView]) -> None:
        driver = probe.raft(node)
        assert driver is not None
        voters = [voter.key.node_id for voter in driver.voters.voters]
        for batch in added:
            holders = []
            for node_id in voters:
                member = self._members.get(node_id)
                found = member.view.find(batch.base_offset) if member is not None else None
                if found is None or not found.is_same(batch) or not found.still_stands():
                    continue
                if found.is_durable() or node_id in self._ledger.poisoned:
                    holders.append(node_id)
            if not is_majority(len(holders), len(voters)):
                raise ViolationError(
                    "INV-RAFT-EVIDENCE",
                    node.name,
                    f"{batch} is committed; of the voters {voters} only {holders} have it on their devices (RAFT-11, RAFT-12)",
                )
