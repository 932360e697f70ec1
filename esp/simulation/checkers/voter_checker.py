"""Holds the changes of the quorum's voters against what is allowed of them: RAFT-40 to RAFT-43, as the logs on the disks tell them."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.voters_record.v0.data import VotersRecord

from esp.broker.node_directories import controller_endpoints
from esp.model.ids import NodeId
from esp.raft.voters import VoterSet
from esp.records.batch import iterate_records
from esp.schemas.control_records import decode_control_record
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.node import SimulatedNode

CAUGHT_UP_S: Final = 5.0
"""A node that becomes a voter had all of the leader's log that long ago: two fetch time-outs, and what clocks may differ by (RAFT-42)."""

FindView = Callable[[int], ReplicaView | None]


class VoterChecker:
    """Follows the voters that the logs on the disks name, and checks each change of them.

    Args:
        now_s: the simulation's time.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._committed: VoterSet | None = None
        self._ends: dict[tuple[int, int], deque[tuple[float, int]]] = {}
        """The ends of the log of a leader, by node and epoch, with their times."""

    def on_voters(self, voters: VoterSet) -> None:
        """A member knows voters; the voters of the beginning are the ones that the first change changes."""
        if self._committed is None and voters.voters:
            self._committed = voters

    def on_append(self, node: SimulatedNode, view: ReplicaView, batch: BatchView, find_view: FindView) -> None:
        """A leader has appended in its own epoch; ``find_view`` finds the log of any member.

        Raises:
            ViolationError: INV-RAFT-VOTERS.
        """
        driver = probe.raft(node)
        assert driver is not None, "it leads"
        ends = self._ends.setdefault((node.node_id, batch.leader_epoch), deque())
        voters = read_voters(batch)
        if voters is not None:
            before = self._require_turn(node, view, batch, driver.high_watermark)
            _require_one_step(node.name, before or self._committed, voters)
            for key in sorted(voters.keys() - (before or self._committed or voters).keys()):
                self._require_caught_up(node, key.node_id, ends, find_view(key.node_id))
        ends.append((self._now_s(), batch.next_offset))
        while len(ends) > 1 and ends[1][0] < self._now_s() - CAUGHT_UP_S:
            ends.popleft()

    def check_newest(self, node: SimulatedNode, view: ReplicaView) -> None:
        """After a change of a member's log: the newest voters in it count, committed or not, and no others (RAFT-40).

        Raises:
            ViolationError: INV-RAFT-VOTERS.
        """
        driver = probe.raft(node)
        assert driver is not None, "its log was seen"
        newest = next((voters for batch in reversed(view.batches) if (voters := read_voters(batch)) is not None), None)
        if newest is not None and newest.keys() != driver.voters.keys():
            raise ViolationError(
                "INV-RAFT-VOTERS",
                node.name,
                f"the newest voters in its log are {_numbers(newest)}; it counts {_numbers(driver.voters)} (RAFT-40)",
            )

    def on_committed(self, batches: Iterable[BatchView]) -> None:
        """Batches came to be committed. Raises ViolationError: INV-RAFT-VOTERS."""
        for batch in batches:
            voters = read_voters(batch)
            if voters is not None:
                _require_one_step("the quorum", self._committed, voters)
                self._committed = voters

    def _require_turn(
        self, node: SimulatedNode, view: ReplicaView, batch: BatchView, high_watermark: int
    ) -> VoterSet | None:
        """Check that nothing of the leader's epoch or of the voters was open (RAFT-41); return the voters before, if the log has them."""
        below = [other for other in view.batches if other.next_offset <= batch.base_offset]
        committed = next((other for other in reversed(below) if other.next_offset <= high_watermark), None)
        if committed is not None and committed.leader_epoch != batch.leader_epoch:
            raise ViolationError(
                "INV-RAFT-VOTERS", node.name, f"{batch} changes the voters before a commit of its epoch (RAFT-41)"
            )
        for other in reversed(below):
            voters = read_voters(other)
            if voters is not None:
                if other.next_offset > high_watermark:
                    raise ViolationError(
                        "INV-RAFT-VOTERS",
                        node.name,
                        f"{batch} changes the voters while {other} is not committed (RAFT-41)",
                    )
                return voters
        return None

    def _require_caught_up(
        self, node: SimulatedNode, added: NodeId, ends: Iterable[tuple[float, int]], view: ReplicaView | None
    ) -> None:
        before_s = self._now_s() - CAUGHT_UP_S
        due = max((end for at_s, end in ends if at_s <= before_s), default=0)
        held = view.end_offset if view is not None else 0
        if held < due:
            raise ViolationError(
                "INV-RAFT-VOTERS",
                node.name,
                f"makes node {added} a voter, whose log ends at {held}; {CAUGHT_UP_S:g} s ago the leader's did at {due} (RAFT-42)",
            )


def read_voters(batch: BatchView) -> VoterSet | None:
    """The voters that a batch names, if it does."""
    if not batch.is_control:
        return None
    data = batch.content.written(batch.position, batch.position + batch.size)
    for record in iterate_records(data):
        entity = decode_control_record(record.key, record.value)
        if isinstance(entity, VotersRecord):
            return VoterSet.from_record(entity)
    return None


def find_quorum_problems(nodes: Iterable[SimulatedNode]) -> list[str]:
    """The problems of a quorum that is left alone, as sentences.

    One member leads, which is a voter (RAFT-43), and all have its voters.
    """
    serving = list(nodes)
    leader = probe.active_controller(serving)
    driver = probe.raft(leader) if leader is not None else None
    if leader is None or driver is None:
        return ["the quorum has no leader"]
    found = []
    if driver.voters.find_node(NodeId(leader.node_id)) is None:
        found.append(f"{leader.name} leads the quorum and is no voter")
    for node in serving:
        other = probe.raft(node)
        if other is None or other.voters.keys() != driver.voters.keys():
            found.append(f"{node.name} does not know the voters of {leader.name}")
    return found


def find_misplaced_voters(nodes: Iterable[SimulatedNode]) -> list[str]:
    """The voters that some member knows at another address than the one at which they listen, as sentences (KIP-853)."""
    serving = {node.node_id: node for node in nodes}
    found = []
    for node in serving.values():
        driver = probe.raft(node)
        for voter in driver.voters.voters if driver is not None else ():
            other = serving.get(voter.key.node_id)
            member = probe.raft(other) if other is not None else None
            if other is None or member is None or member.config.local != voter.key:
                continue  # not there, or another disk in its place
            listens = controller_endpoints(other.settings, other.host)
            if voter.endpoints != listens:
                found.append(f"{node.name} knows {other.name} at {voter.endpoints}; it listens at {listens}")
    return found


def _require_one_step(who: str, before: VoterSet | None, after: VoterSet) -> None:
    if not after.voters or (before is not None and len(before.keys() ^ after.keys()) > 1):
        old = _numbers(before) if before is not None else []
        raise ViolationError("INV-RAFT-VOTERS", who, f"the voters {old} become {_numbers(after)} (RAFT-41)")


def _numbers(voters: VoterSet) -> list[NodeId]:
    return [voter.key.node_id for voter in voters.voters]
