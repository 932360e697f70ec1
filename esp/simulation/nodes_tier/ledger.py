"""The faults that a run may have so that only what is promised is demanded of it (PROMISE-1).

Deaths of processes, pauses and cuts are free: no number of them may lose anything. What loses written bytes, a power loss or a failed
sync, is counted per node from the fault until the cluster is whole again, and a partition promises to survive one less than its effective
``min.insync.replicas``. Rot of records, and a disk that is replaced, count as that too: rot until nothing of it is left, as it may not be
found before. Of the quorum's members fewer than a majority may lose their disks in a whole run. A partition whose leaders and followers
count flushed records only (``flush.messages=1``) survives any number of power losses (SYNC-4), and loses a copy to rot and replaced disks
as any other.

Where nodes do not believe the running marker, the end of a process is an unclean stop (decision 34): it loses nothing, but the replica is
not eligible when it comes back, though it is complete. So there a node loses no unsynced bytes while others that ended so need not be in
sync again, and none is killed while another one that has lost what it had flushed may be in an in-sync set yet. A node that loses that has
others in sync beside it anyway. The same holds everywhere for a process that ends before it serves: its registration may be recorded, and
the running marker names the registration before, as logs that were not found whole yet can vouch for nothing (decision 26).
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from esp.model.ids import TopicPartition
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.outcome import Outcome

RECKLESS = "reckless"
"""The topic whose leaders may be elected uncleanly, by its settings or because an administrator asks: it is promised nothing then."""

SURVEYED = "surveyed"
"""The surveyor's own topic, whose batches leaders recompress or stamp: they cannot be told by what was sent."""

GUARDED_TOPICS = ("guarded-writes-0", "guarded-writes-1")
"""The topics that rules of access open and close: a client tries each batch once, and those that it may not write must not be there."""

PASSING = ("passing-0", "passing-1", RECKLESS)
"""The topics that come, change and go."""


def lossy_restarts_allowed(topics: Iterable[TopicProfile]) -> int:
    """The number of nodes that may lose unsynced bytes before the cluster is whole again."""
    allowed = [topic.min_insync_replicas - 1 for topic in topics if not is_flushed(topic.configs)]
    return min(allowed, default=1_000_000)


def copies_lost_allowed(topics: Iterable[TopicProfile]) -> int:
    """The number of nodes that may lose what they had flushed before the cluster is whole again: one, if any.

    A second one could leave a replica that has rotted as the only one in sync, from which the rotted records cannot be fetched.
    """
    return min((1, *(topic.min_insync_replicas - 1 for topic in topics)))


def is_flushed(configs: Mapping[str, str]) -> bool:
    """True if a topic's records count only when they are flushed."""
    return configs.get("flush.messages") == "1"


@dataclass(slots=True)
class Ledger:
    """The account of one run.

    Args:
        allowed: see :func:`lossy_restarts_allowed`.
        copies_allowed: see :func:`copies_lost_allowed`.
        members_allowed: how many members of the quorum may lose their disks.
        is_beyond_promise: whether any number of nodes may lose unsynced bytes.
        believes_markers: whether the end of a process that serves costs no eligibility.
    """

    allowed: int
    copies_allowed: int = 0
    members_allowed: int = 0
    is_beyond_promise: bool = False
    believes_markers: bool = True
    lossy_s: dict[int, float] = field(default_factory=dict)
    """The time at which a node lost bytes last, in the whole run."""
    outstanding: dict[int, float] = field(default_factory=dict)
    """Nodes that lost bytes since the cluster was whole."""
    poisoned: dict[int, None] = field(default_factory=dict)
    """Nodes whose device lost bytes behind a sync that failed: another loss of power would take what the node must believe to be safe."""
    copies: dict[int, None] = field(default_factory=dict)
    """Nodes that lost what they had flushed since the cluster was whole."""
    rotten: dict[int, None] = field(default_factory=dict)
    """Nodes on whose disks records have rotted, and still stand."""
    rotted_s: dict[tuple[int, TopicPartition], float] = field(default_factory=dict)
    """The time at which records of a partition rotted last on a node, in the whole run."""
    ended: dict[int, None] = field(default_factory=dict)
    """Nodes whose process did not stop in order since the cluster was whole, where that alone may cost their eligibility."""
    claimed: dict[int, None] = field(default_factory=dict)
    """Nodes whose id a second process claims: they may have to leave their in-sync and eligible sets, though they lose nothing."""
    members: dict[int, None] = field(default_factory=dict)
    """Members of the quorum whose disks are lost, or may be."""
    moved: dict[int, None] = field(default_factory=dict)
    """Members of the quorum that listen elsewhere than the settings of the others say."""
    strangers: dict[int, None] = field(default_factory=dict)
    """Members among them that have another disk by now: they vote no more (RAFT-45)."""
    rotten_files: int = 0
    replaced_disks: int = 0
    lost_caches: int = 0
    """The number of times that a device lost with the power what it had said to hold."""
    lost_parts: int = 0
    """The number of times that a device lost with the power a part of what it had said to hold."""
    lost_files: int = 0
    """The number of times that directories or files vanished while a node was down."""
    returned_directories: int = 0
    """The number of times that a log directory came back after a life of its node without it."""
    markers_in_place: int = 0
    """The number of times that an old copy came back with the running marker of an earlier life in the same file."""
    last_lives: int = 0
    """The number of times that an old copy of the life that had just ended came back, with its running marker in the same file."""
    repairs: int = 0
    """The number of times that an operator had to repair a node that ended itself over rot."""

    def may_lose_power(self, node_id: int) -> bool:
        """True if the promise covers that this node loses unsynced bytes now."""
        return node_id not in self.poisoned and (self.is_beyond_promise or self._may_lose_tail(node_id))

    def may_fail_syncs(self, node_id: int) -> bool:
        """True if the promise covers that a sync of this node fails now. Bytes that were not synced are in doubt from then on."""
        return self._may_lose_tail(node_id)

    def may_lose_copy(self, node_id: int) -> bool:
        """True if the promise covers that a node loses records that it had flushed."""
        return len(self.copies.keys() | {node_id}) <= self.copies_allowed and self._may_lose(node_id)

    def leaves_others(self, node_id: int, in_sync: Collection[int]) -> bool:
        """True if others of a partition's in-sync replicas stay eligible: the end of a process may have cost a node that already."""
        return any(other != node_id and other not in self.ended for other in in_sync)

    def may_end(self, node_id: int, *, is_starting: bool) -> bool:
        """True if the promise covers that a node's process ends now: always, unless it starts or nodes do not believe markers."""
        return (self.believes_markers and not is_starting) or not self.copies.keys() - {node_id}

    def on_end(self, node_id: int, *, was_starting: bool) -> None:
        """The node's process has ended, and not in order."""
        if was_starting or not self.believes_markers:
            self.ended[node_id] = None

    def may_be_claimed(self, node_id: int) -> bool:
        """True if a node may have to leave its in-sync and eligible sets now: no other node has lost anything, or one more may."""
        lossy = self.outstanding.keys() | self.copies.keys() | self.rotten.keys() | self.poisoned.keys()
        return lossy <= {node_id} or self.may_lose_copy(node_id)

    def may_lose_member(self, node_id: int) -> bool:
        """True if the promise covers that a member of the quorum loses its disk, moved ones included."""
        return len(self.members.keys() | self.moved.keys() | {node_id}) <= self.members_allowed

    def may_move_member(self, node_id: int) -> bool:
        """True if a member of the quorum may listen elsewhere; it counts like one that loses its disk from then on."""
        if not self.may_lose_member(node_id):
            return False
        self.moved[node_id] = None
        return True

    def on_copy_lost(self, node_id: int, now_s: float) -> None:
        """The node lost all records that it had flushed."""
        self.copies[node_id] = None
        self.on_power_loss(node_id, now_s)

    def on_rot(self, node_id: int, now_s: float, partition: TopicPartition | None) -> None:
        """Some of what the node had flushed has rotted: records of a partition, or what may cost it the disk as soon as it is found."""
        self.copies[node_id] = self.rotten[node_id] = None
        self.outstanding[node_id] = now_s
        if partition is not None:
            self.rotted_s[node_id, partition] = now_s

    def on_claim(self, node_id: int, now_s: float) -> None:
        """A second process claims the node's id from now on."""
        self.claimed[node_id] = self.copies[node_id] = None
        self.outstanding[node_id] = now_s

    def on_power_loss(self, node_id: int, now_s: float) -> None:
        """The node lost power."""
        self.lossy_s[node_id] = self.outstanding[node_id] = now_s

    def on_failed_sync(self, node_id: int, now_s: float) -> None:
        """A sync of the node failed, or is going to."""
        self.poisoned[node_id] = None
        self.on_power_loss(node_id, now_s)

    def on_whole(self) -> None:
        """Every partition has all its replicas in sync again."""
        lasting = self.rotten.keys() | self.claimed.keys()
        self.outstanding = {node: lost_s for node, lost_s in self.outstanding.items() if node in lasting}
        self.copies = {node: None for node in self.copies if node in lasting}
        self.ended = {}

    def was_lossy_since(self, node_id: int, since_s: float, partition: TopicPartition) -> bool:
        """True if the node lost bytes of a partition at or after a moment."""
        return max(self.lossy_s.get(node_id, -1.0), self.rotted_s.get((node_id, partition), -1.0)) >= since_s

    def may_be_rotten(self, node_id: int, partition: TopicPartition) -> bool:
        """True if records of a partition rotted on a node, and not all rot is gone from there."""
        return node_id in self.rotten and (node_id, partition) in self.rotted_s

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with what was allowed to be lost."""
        return dataclasses.replace(
            outcome,
            poisoned_nodes=len(self.poisoned),
            rotten_files=self.rotten_files,
            replaced_disks=self.replaced_disks,
            lost_caches=self.lost_caches,
            lost_parts=self.lost_parts,
            lost_files=self.lost_files,
            returned_directories=self.returned_directories,
            markers_in_place=self.markers_in_place,
            last_lives=self.last_lives,
            repairs=self.repairs,
        )

    def _may_lose_tail(self, node_id: int) -> bool:
        return self._may_lose(node_id) and len(self.ended.keys() | {node_id}) <= self.allowed

    def _may_lose(self, node_id: int) -> bool:
        return len(self.outstanding.keys() | {node_id}) <= self.allowed
