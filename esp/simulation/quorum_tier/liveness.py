"""The duties of a quorum, and their times: leaders without a majority resign in time, and after calm all are as one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from esp.model.ids import NodeId
from esp.raft.messages import BeginQuorumEpochRequest, FetchRequest, FetchSnapshotRequest, Request
from esp.raft.voters import VoterKey
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.quorum_tier.member import QuorumMember
from esp.simulation.quorum_tier.profile import SECOND_US

CHECK_INTERVAL_US = SECOND_US // 2
LOST_LEADER_US = 14 * SECOND_US
"""The time that voters may take to replace a silent leader: a timeout until each has found out, one more until one asks again."""
_SLACK_US = SECOND_US // 2
_REMIND_US = 3 * SECOND_US
"""The time that a leader may wait for the answer to a message that was lost, and for the next one to be due."""
_PAUSE_US = 10 * SECOND_US
"""A member that stood still within this is left alone: it has to wake up first."""


@dataclass(slots=True)
class QuorumContacts:
    """The times at which members last asked leaders for records, as the network saw it (RAFT-7)."""

    _asked_us: dict[tuple[NodeId, NodeId], int] = field(default_factory=dict)
    _told_us: dict[tuple[NodeId, NodeId], int] = field(default_factory=dict)
    """The time at which a leader last sent word of itself to a voter (RAFT-9)."""

    def on_request(self, receiver: QuorumMember, request: Request, now_us: int) -> None:
        """A request has reached a member."""
        if isinstance(request, (FetchRequest, FetchSnapshotRequest)):
            self._asked_us[receiver.node_id, request.replica.node_id] = now_us

    def on_sent(self, sender: QuorumMember, request: Request, now_us: int) -> None:
        """A member has sent a request, wherever that gets."""
        if isinstance(request, BeginQuorumEpochRequest):
            self._told_us[sender.node_id, request.voter.node_id] = now_us

    def check(self, leader: QuorumMember, now_us: int) -> None:
        """Check that a leader has heard of a majority lately, or has not led for long; is a voter still (RAFT-43); and has reminded
        voters that do not fetch.
        """
        node = leader.node
        assert node is not None, "it leads"
        if node.voters.find(leader.key) is None and leader.disk.history().end_offset <= leader.applied:
            raise ViolationError(
                "INV-RAFT-RESIGN", f"node {leader.node_id}", "leads on, though its removal is committed"
            )
        if leader.paused_until_us > now_us - _PAUSE_US:
            return
        since_us = now_us - leader.settings.fetch_timeout_us * 3 // 2 - _SLACK_US
        voters = node.voters.voters
        if leader.leads_since_us > since_us or not voters:
            return
        heard = sum(
            voter.key.node_id == leader.node_id
            or self._asked_us.get((leader.node_id, voter.key.node_id), 0) >= since_us
            for voter in voters
        )
        if 2 * heard <= len(voters):
            raise ViolationError(
                "INV-RAFT-RESIGN", f"node {leader.node_id}", f"leads epoch {node.epoch}, heard of {heard} voters lately"
            )
        since_us -= _REMIND_US
        for voter in voters:
            link = leader.node_id, voter.key.node_id
            last_us = max(self._asked_us.get(link, 0), self._told_us.get(link, 0), leader.leads_since_us)
            if voter.key.node_id != leader.node_id and last_us < since_us:
                raise ViolationError(
                    "INV-RAFT-REMIND",
                    f"node {leader.node_id}",
                    f"{voter.key.node_id} does not fetch, and is not notified",
                )


def check_live(members: Mapping[NodeId, QuorumMember]) -> None:
    """After calm: one leader that all follow, whose log all have, and which has lately committed something."""
    leaders = [member for member in members.values() if member.is_leader]
    if not has_live_majority(members):
        return
    if len(leaders) != 1:
        states = {member.node_id: str(member.node and member.node.role) for member in members.values()}
        raise ViolationError("LIVE-RAFT", "quorum", f"not one leader after calm: {states}")
    leader = leaders[0]
    node = leader.node
    assert node is not None, "it leads"
    if leader.applied != node.log_end_offset:
        raise ViolationError(
            "LIVE-RAFT", f"node {leader.node_id}", f"commits {leader.applied} of {node.log_end_offset}"
        )
    for member in members.values():
        if member.followed != leader.node_id:
            raise ViolationError("LIVE-RAFT", f"node {member.node_id}", f"follows {member.followed} after calm")
        if (member.applied, member.digest) != (leader.applied, leader.digest):
            raise ViolationError("INV-META-SAME", f"node {member.node_id}", f"another state at {member.applied}")


def check_replaced(members: Mapping[NodeId, QuorumMember], lost: QuorumMember) -> None:
    """Check that one of the others leads by now, and has committed something, if they are a majority of the voters."""
    voters = lost.disk.history().voters.voters
    left = [voter for voter in voters if voter.key.node_id != lost.node_id and not _is_lost(members, voter.key)]
    if 2 * len(left) <= len(voters):
        return
    for member in members.values():
        node = member.node
        if member is not lost and member.is_leader and node is not None:
            assert node.epoch_start_offset is not None, "it leads"
            if member.applied > node.epoch_start_offset:
                return
    raise ViolationError("LIVE-RAFT", "quorum", f"no voter leads in place of {lost.node_id}, which is cut off")


def has_live_majority(members: Mapping[NodeId, QuorumMember]) -> bool:
    """True if a majority of the newest voters that any member has still has its disks."""
    newest = max(members.values(), key=lambda member: (member.disk.outline().last_epoch, member.disk.end_offset))
    voters = newest.disk.history().voters.voters
    alive = [voter for voter in voters if not _is_lost(members, voter.key)]
    return 2 * len(alive) > len(voters)


def _is_lost(members: Mapping[NodeId, QuorumMember], key: VoterKey) -> bool:
    return bool(key.directory_id.int) and key != members[key.node_id].key
