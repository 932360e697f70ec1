"""Which faults a run may have so that only what is promised is demanded of it (PROMISE-1).

Deaths of processes, pauses and cuts are free: no number of them may lose anything. What loses written bytes, a power loss or a failed
sync, is counted per node from the fault until the cluster is whole again, and a partition promises to survive one less than its effective
``min.insync.replicas``. A partition whose leaders and followers count flushed records only (``flush.messages=1``) survives any number of
power losses (SYNC-4).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from esp.simulation.profile import TopicProfile


def lossy_restarts_allowed(topics: Iterable[TopicProfile]) -> int:
    """How many nodes may lose unsynced bytes before the cluster is whole again."""
    allowed = [topic.min_insync_replicas - 1 for topic in topics if not is_flushed(topic.configs)]
    return min(allowed, default=1_000_000)


def is_flushed(configs: Mapping[str, str]) -> bool:
    """Whether a topic's records count only when they are flushed."""
    return configs.get("flush.messages") == "1"


@dataclass(slots=True)
class Ledger:
    """The account of one run.

    Args:
        allowed: see :func:`lossy_restarts_allowed`.
    """

    allowed: int
    lossy_s: dict[int, float] = field(default_factory=dict)
    """When a node lost bytes last, in the whole run."""
    outstanding: dict[int, float] = field(default_factory=dict)
    """Nodes that lost bytes since the cluster was whole."""
    poisoned: dict[int, None] = field(default_factory=dict)
    """Nodes whose device lost bytes behind a sync that failed: another loss of power would take what the node must believe to be safe."""

    def may_lose_power(self, node_id: int) -> bool:
        """Whether the promise covers that this node loses unsynced bytes now."""
        return node_id not in self.poisoned and self._may_lose(node_id)

    def may_fail_syncs(self, node_id: int) -> bool:
        """Whether the promise covers that a sync of this node fails now. Whatever was not synced is in doubt from then on."""
        return self._may_lose(node_id)

    def on_power_loss(self, node_id: int, now_s: float) -> None:
        """The node lost power."""
        self.lossy_s[node_id] = self.outstanding[node_id] = now_s

    def on_failed_sync(self, node_id: int, now_s: float) -> None:
        """A sync of the node failed, or is going to."""
        self.poisoned[node_id] = None
        self.on_power_loss(node_id, now_s)

    def on_whole(self) -> None:
        """Every partition has all its replicas in sync again."""
        self.outstanding.clear()

    def was_lossy_since(self, node_id: int, since_s: float) -> bool:
        """Whether the node lost bytes at or after a moment."""
        return self.lossy_s.get(node_id, -1.0) >= since_s

    def _may_lose(self, node_id: int) -> bool:
        return len(self.outstanding.keys() | {node_id}) <= self.allowed
