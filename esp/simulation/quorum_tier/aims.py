"""Faults at the moments where one hurts most: a voter dies when it has just voted, a leader when it was just elected, or just committed.

Faults that come at any time meet these moments rarely; the bugs of quorums live in them (KAFKA-10527, KAFKA-12619, KAFKA-14618).
"""

from typing import TYPE_CHECKING

from esp.simulation.quorum_tier.liveness import LOST_LEADER_US, check_replaced
from esp.simulation.quorum_tier.member import QuorumMember
from esp.simulation.quorum_tier.profile import SECOND_US

if TYPE_CHECKING:
    from esp.simulation.quorum_tier.cluster import QuorumCluster

_SOON_US = 30_000
_RARE = {"committed": 0.02, "voted": 0.3}
"""Moments that come often get fewer faults; the rest get one by the profile."""


class QuorumAims:
    """Aims by the profile's ``targeted``.

    Args:
        cluster: what suffers.
    """

    def __init__(self, cluster: "QuorumCluster") -> None:
        self._cluster = cluster

    def on_moment(self, member: QuorumMember, moment: str) -> None:
        """Let something happen at a member, right after a moment: ``elected``, ``voted``, ``committed`` or ``voters``."""
        cluster = self._cluster
        random = cluster.random
        if random.random() >= cluster.profile.targeted * _RARE.get(moment, 1):
            return
        delay_us = random.randrange(_SOON_US) if random.random() < 0.7 else 0
        cluster.notes.append(f"{cluster.now_us} aimed at {member.node_id}, {moment}")
        kind = random.choice(("snapshots", "restart", "power", "cut"))
        if kind == "snapshots":
            cluster.after(member, delay_us, self._write_snapshots)
        elif kind == "cut":
            cluster.after(member, delay_us, lambda: cluster.inflict("cut", member))
        else:
            cluster.after(member, delay_us, lambda: self._restart(member, loses_power=kind == "power"))

    def _restart(self, member: QuorumMember, *, loses_power: bool) -> None:
        """Let it die and be back before anybody misses it."""
        self._cluster.kill(member, loses_power=loses_power, restart_us=self._cluster.random.randrange(1_000, 60_000))

    def _write_snapshots(self) -> None:
        for member in self._cluster.members.values():
            if member.paused_until_us <= self._cluster.now_us:
                member.write_snapshot()

    def lose_leader(self, calm_us: int) -> None:
        """Heal everything, then cut the leader off without a word: the others must replace it, if they are a majority (RAFT-6)."""
        cluster = self._cluster
        cluster.heal()
        cluster.run_until(cluster.now_us + calm_us // 2)
        leader = next((member for member in cluster.members.values() if member.is_leader), None)
        if leader is None:
            return
        for other in cluster.members.values():
            if other is not leader:
                cluster.cuts |= {(leader.node_id, other.node_id), (other.node_id, leader.node_id)}
        cluster.run_until(cluster.now_us + LOST_LEADER_US)
        if cluster.checks.durability_is_owed:
            check_replaced(cluster.members, leader)

    def roll_back(self) -> None:
        """Let a majority of the voters come back with older disks: from then on only RAFT-10 is owed of what was committed."""
        cluster = self._cluster
        cluster.checks.durability_is_owed = False
        voters = [cluster.members[voter.key.node_id] for voter in cluster.first_voters.voters]
        for member in cluster.random.sample(voters, len(voters) // 2 + 1):
            cluster.kill(member, restart_us=cluster.random.randrange(SECOND_US))
            member.disk.roll_back(cluster.random)
