"""Invariants that must hold at every moment of a simulated partition; each check bears the name of its invariant."""

from collections.abc import Sequence
from itertools import pairwise

from esp.model.partition import PartitionState
from esp.replication.partition_leader import PartitionLeader, effective_min_isr
from esp.simulation.checkers.reassignment import check_reassignment
from esp.simulation.excuses import Excuse, note
from esp.simulation.partition_tier.controller import Election, Image
from esp.simulation.partition_tier.memory_log import KeptBatch, LogWatcher, MemoryLog
from esp.simulation.partition_tier.node import PartitionNode


class InvariantError(AssertionError):
    """An invariant does not hold.

    Args:
        invariant: its name.
        what: what was found.
    """

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


class PartitionChecks(LogWatcher):
    """Sees all replicas from outside, and remembers what was committed and acknowledged.

    Args:
        unclean_allowed: ``unclean.leader.election.enable``.
    """

    def __init__(self, *, unclean_allowed: bool = False) -> None:
        self._unclean_allowed = unclean_allowed
        self.nodes: Sequence[PartitionNode] = ()
        self.owner: dict[MemoryLog, PartitionNode] = {}
        self.durability_is_owed = True
        """False once more went wrong than what is promised against, such as an unclean election: order and matching still hold."""
        self.acked: dict[int, bytes] = {}
        """Acknowledged payloads by base offset."""
        self.committed_end = 0
        """The largest high watermark of any replica."""
        self.log_start = 0
        """The largest log start that any client asked for."""
        self._let_go: dict[PartitionNode, int] = {}
        """By node: the partition epoch by which it was no replica any more, and dropped its records."""
        self._least_min_isr: dict[int, int] = {}
        """By partition epoch: the least minimum of in-sync replicas while it lasted."""
        self._state: PartitionState | None = None
        self._committed: dict[int, KeptBatch] = {}
        self._known: dict[tuple[int, int], tuple[bytes, tuple[int, int] | None]] = {}
        self._appenders: dict[int, int] = {}
        self._elected: dict[int, int] = {}

    def fail(self, invariant: str, what: str) -> None:
        """Raise what ends the run."""
        raise InvariantError(invariant, what)

    # --- logs ----------------------------------------------------------------------------------------------------------------------

    def appended(self, log: MemoryLog) -> None:
        """INV-LOGMATCH, INV-EPOCH-LEADER, INV-SEQ, on the batch that is new."""
        batch = log.batches[-1]
        earlier = log.batches[:-1][-1:] or log.hidden[-1:]
        before = earlier[0].key if earlier else None
        known = self._known.setdefault(batch.key, (batch.data, before))
        if known[0] != batch.data or (known[1] != before and None not in (known[1], before)):
            self.fail("INV-LOGMATCH", f"two logs differ at or before {batch.key}: {known[1]} and {before}")
        node = self.owner[log]
        if isinstance(node.role, PartitionLeader):
            epoch = batch.header.leader_epoch
            if self._appenders.setdefault(epoch, node.node_id) != node.node_id or self._elected[epoch] != node.node_id:
                self.fail("INV-EPOCH-LEADER", f"{node.node_id} appends in epoch {epoch}")
        self._check_epochs(log)

    def truncated(self, log: MemoryLog, high_watermark: int) -> None:
        """INV-NO-TRUNC-BELOW-HW, INV-EPOCH-CACHE."""
        if self.durability_is_owed and log.log_end_offset < high_watermark:
            self.fail("INV-NO-TRUNC-BELOW-HW", f"cut to {log.log_end_offset}, below {high_watermark}")
        node = self.owner[log]
        state = self._state
        is_sound = self.durability_is_owed and node.is_running and not node.is_incomplete
        if is_sound and state is not None and node.node_id in (*state.isr, *state.elr):
            self._check_complete("INV-CANDIDATE-COMPLETE", node)
        self._check_epochs(log)

    def let_go(self, node: PartitionNode, partition_epoch: int) -> None:
        """A node has dropped its records, as it is no replica any more in this epoch of the partition."""
        self._let_go[node] = partition_epoch

    def deleted(self, offset: int) -> None:
        """A client asked a leader to let go of the records below an offset."""
        self.log_start = max(self.log_start, offset)

    def _check_log_start(self, log: MemoryLog) -> None:
        """INV-LOG-START: nothing is gone but what a client asked to be deleted (LOG-12)."""
        if log.log_start_offset > self.log_start:
            self.fail("INV-LOG-START", f"a log starts at {log.log_start_offset}, deleted is up to {self.log_start}")

    def stopped(self, why: str) -> None:
        """INV-NO-TRUNC-BELOW-HW, as the follower itself sees it."""
        if self.durability_is_owed:
            self.fail("INV-NO-TRUNC-BELOW-HW", why)

    def committed(self, log: MemoryLog, before: int) -> None:
        """INV-ORDER, INV-HW-MONO, INV-COMMIT-STABLE, and at a leader INV-HW-STRICT, INV-MAXISR, INV-HW-EVIDENCE."""
        offset = log.high_watermark
        if not log.log_start_offset <= offset <= log.log_end_offset:
            self.fail("INV-ORDER", f"{log.log_start_offset} <= {offset} <= {log.log_end_offset}")
        if offset < before:
            self.fail("INV-HW-MONO", f"from {before} to {offset}")
        self._check_log_start(log)
        if self.durability_is_owed:
            for batch in log.batches_between(max(before, log.log_start_offset), offset):
                first = self._committed.setdefault(batch.header.base_offset, batch)
                if first.data != batch.data:
                    self.fail("INV-COMMIT-STABLE", f"at {batch.header.base_offset}: {first.key} and {batch.key}")
            self.committed_end = max(self.committed_end, offset)
        node = self.owner[log]
        if isinstance(node.role, PartitionLeader):
            self._check_commit(node, node.role, offset)

    def _check_commit(self, node: PartitionNode, leader: PartitionLeader, offset: int) -> None:
        # By the minimum that counted when the ISR was decided, or came to count while that lasted: no other is right (ELR-3).
        min_isr = self._least_min_isr[leader.state.partition_epoch]
        if len(leader.state.isr) < min_isr:
            self.fail("INV-HW-STRICT", f"{node.node_id} commits {offset} with the ISR {leader.state.isr} of {min_isr}")
        if self._state is not None:
            self._check_maximal_isr(leader, self._state)
        if self.durability_is_owed and not any(other.is_incomplete for other in self.nodes):
            batch = node.log.batches[-1] if offset == node.log.log_end_offset else None
            copies = sum(
                other.log.log_end_offset >= offset
                and (
                    batch is None
                    or other.log.log_start_offset >= offset
                    or any(kept.key == batch.key for kept in other.log.batches_between(offset - 1, offset))
                )
                for other in self.nodes
            )
            if copies < min_isr <= copies + self._count_gone(leader.state, offset):
                self._check_newest_isr(offset)
            elif copies < min_isr:
                self.fail("INV-HW-EVIDENCE", f"{node.node_id} commits {offset} with {copies} copies")
        if leader.log.settings.flush_messages == 1 and offset > node.log.recovery_point:
            self.fail("INV-HW-EVIDENCE", f"{node.node_id} commits {offset}, flushed up to {node.log.recovery_point}")

    def _count_gone(self, state: PartitionState, offset: int) -> int:
        """Replicas in sync by a leader's metadata that newer metadata has taken from the partition, and that dropped their records then."""
        epoch = state.partition_epoch
        return sum(
            node.node_id in state.isr and self._let_go.get(node, -1) > epoch and node.log.log_end_offset < offset
            for node in self.nodes
        )

    def _check_newest_isr(self, offset: int) -> None:
        """A commit rests on replicas that are gone: those of the newest metadata must have it all the same (REASSIGN-2)."""
        assert self._state is not None, "replicas go by newer metadata"
        note(Excuse.LEAVERS_COMMITS)
        for node in self.nodes:
            if node.node_id in self._state.isr and node.log.log_end_offset < offset:
                self.fail("INV-HW-EVIDENCE", f"{offset} is committed, in sync is {node.node_id}, which lacks it")

    def check_promptness(self, node: PartitionNode, leader: PartitionLeader) -> None:
        """INV-HW-PROMPT: a leader has committed what it knows that all hold it has to wait for (HW-6, KAFKA-13091)."""
        log = node.log
        min_isr = effective_min_isr(log.settings.min_insync_replicas, len(leader.state.replicas))
        if len(leader.state.isr) < min_isr or log.settings.flush_messages == 1:
            return
        held = log.log_end_offset
        maximal_isr = leader.maximal_isr
        for other in leader.state.replicas:
            follower = leader.follower(other)
            if follower is not None and (other in maximal_isr or follower.log_end_offset >= 0):
                held = min(held, follower.log_end_offset)
        if log.high_watermark < held:
            self.fail("INV-HW-PROMPT", f"{node.node_id} has committed {log.high_watermark}, all hold {held}")

    def _check_epochs(self, log: MemoryLog) -> None:
        entries = log.leader_epochs.entries()
        if any(start >= following for (_, start), (_, following) in pairwise(entries)):
            self.fail("INV-EPOCH-CACHE", f"{entries}: start offsets do not rise (LOG-7)")
        while entries and entries[-1][1] >= log.log_end_offset:
            entries.pop()  # begun, without a batch
        batch = log.batches[-1] if log.batches else None
        if batch is not None and (not entries or entries[-1][0] != batch.header.leader_epoch):
            self.fail("INV-EPOCH-CACHE", f"{entries} at the end of a log of epoch {batch.header.leader_epoch}")

    # --- metadata ------------------------------------------------------------------------------------------------------------------

    def elected(self, election: Election) -> None:
        """INV-LEADER-COMPLETE."""
        self._elected[election.leader_epoch] = election.leader
        node = next(node for node in self.nodes if node.node_id == election.leader)
        if election.kind == "unclean" or (election.kind == "last-known" and node.is_incomplete):
            self.durability_is_owed = False
        elif self.durability_is_owed and not node.is_incomplete:
            self._check_complete("INV-LEADER-COMPLETE", node)

    def begin(self, image: Image) -> None:
        """The first metadata."""
        self._least_min_isr[image.partition.partition_epoch] = image.min_isr

    def changed(self, image: Image) -> None:
        """INV-ISR-SUBSET, INV-ISR-UNFENCED, INV-MAXISR, INV-CANDIDATE-COMPLETE, INV-REASSIGN."""
        before, state, min_isr = self._state, image.partition, image.min_isr
        self._state = state
        epoch = state.partition_epoch
        self._least_min_isr[epoch] = min(min_isr, self._least_min_isr.get(epoch, min_isr))
        if before is not None and before is not state:
            check_reassignment(before, state, "the partition", min_isr=min_isr, may_be_unclean=self._unclean_allowed)
        isr, elr = set(state.isr), set(state.elr)
        if not isr <= set(state.replicas) or not elr <= set(state.replicas) or isr & elr:
            self.fail("INV-ISR-SUBSET", f"ISR {isr}, ELR {elr} of {state.replicas}")
        if len(isr) >= min_isr and elr:
            self.fail("INV-ISR-SUBSET", f"ISR {isr} is large enough, and yet there is the ELR {elr}")
        for node in self.nodes:
            if node.node_id in isr and image.brokers[node.node_id].epoch > node.lost_epoch:
                node.is_incomplete = False
            if node.node_id in isr and not image.brokers[node.node_id].is_active:
                self.fail("INV-ISR-UNFENCED", f"{node.node_id} is in the ISR")
            if self.durability_is_owed and node.node_id in isr | elr and not node.is_incomplete:
                self._check_complete("INV-CANDIDATE-COMPLETE", node)
            if isinstance(node.role, PartitionLeader):
                self._check_maximal_isr(node.role, state)

    def _check_maximal_isr(self, leader: PartitionLeader, state: PartitionState) -> None:
        """INV-MAXISR: every replica that could be elected next counts."""
        if leader.leader_epoch == state.leader_epoch:
            candidates = set(state.isr)
            if leader.has_enough_replicas():
                candidates |= set(state.elr)
            if not candidates <= leader.maximal_isr:
                self.fail("INV-MAXISR", f"{candidates} are candidates, the leader counts {set(leader.maximal_isr)}")

    def _check_complete(self, invariant: str, node: PartitionNode) -> None:
        """Check that a candidate holds all that was committed (ELR-2)."""
        if node.log.log_end_offset < self.committed_end:
            self.fail(invariant, f"{node.node_id} ends at {node.log.log_end_offset}, committed is {self.committed_end}")

    def answered(self, node: PartitionNode, leader_epoch: int, asked_epoch: int) -> None:
        """INV-EPOCH-LEADER: a follower in an epoch is answered by its leader, in that epoch (TRUNC-3.2)."""
        if asked_epoch != leader_epoch:
            self.fail(
                "INV-EPOCH-LEADER", f"{node.node_id}, leader of {leader_epoch}, serves a follower of {asked_epoch}"
            )

    # --- clients -------------------------------------------------------------------------------------------------------------------

    def acknowledged(self, base_offset: int, payload: bytes) -> None:
        """A producer was told that its records are committed."""
        if self.acked.setdefault(base_offset, payload) != payload and self.durability_is_owed:
            self.fail("INV-ACK-DURABLE", f"offset {base_offset} was given to two batches")

    def check_end(self, state: PartitionState) -> None:
        """LIVE-ISR, LIVE-PRODUCE; INV-ACK-DURABLE and INV-SEQ, on every log of a healed cluster; and that all logs are the same."""
        replicas = [node for node in self.nodes if node.node_id in state.replicas]
        ends = [(node.log.high_watermark, node.log.log_end_offset) for node in replicas]
        if set(state.isr) != set(state.replicas) or len(set(ends)) != 1 or ends[0][0] != ends[0][1]:
            self.fail("LIVE-ISR", f"{state}, high watermarks and ends {ends}")
        if state.is_reassigning:
            self.fail("LIVE-ISR", f"{state} is still being reassigned")
        strays = [node for node in self.nodes if node not in replicas and node.log.log_end_offset]
        if strays:
            self.fail("INV-REASSIGN", f"{strays} have data of a partition that is not theirs: {state}")
        first = replicas[0].log
        start = self.log_start
        for node in replicas:
            self._check_log_start(node.log)
            mine, its = node.log, first
            if [kept.data for kept in mine.batches_between(start, mine.log_end_offset)] != [
                kept.data for kept in its.batches_between(start, its.log_end_offset)
            ]:
                self.fail("INV-LOGMATCH", f"the logs of {node.node_id} and {replicas[0].node_id} differ in the end")
        if self.durability_is_owed:
            kept = {batch.header.base_offset: batch.data for batch in first.batches}
            for base_offset, payload in self.acked.items():
                if base_offset >= start and not kept.get(base_offset, b"").endswith(payload):
                    self.fail("INV-ACK-DURABLE", f"the acknowledged batch at {base_offset} is gone")
        headers = [batch.header for batch in first.batches if batch.header.producer_id >= 0]
        if len({(header.producer_id, header.base_sequence) for header in headers}) < len(headers):
            self.fail("INV-SEQ", "a batch of an idempotent producer is there twice")
