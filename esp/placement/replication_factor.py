"""The partitions of a topic get more replicas, or fewer."""

from esp.model.ids import NodeId
from esp.placement.constraints import Violation
from esp.placement.draft import Draft
from esp.placement.shares import Shares, fair
from esp.placement.targets import choose_target


def change_replication_factor(draft: Draft, topic: str, factor: int) -> list[Violation]:
    """Add and remove replicas until each partition of the topic has so many.

    Returns:
        the partitions for which there is no place.
    """
    concerned = [position for position, partition in enumerate(draft.partitions) if partition.topic == topic]
    wanted = dict.fromkeys(concerned, factor)
    shares = fair(draft, lambda position: wanted.get(position, len(draft.replicas[position])))
    violations = []
    for position in sorted(concerned, key=lambda position: (-draft.partitions[position].size_bytes, position)):
        while len(draft.replicas[position]) > factor:
            leaving = _choose_leaving(draft, shares, position)
            kept = tuple(node for node in draft.replicas[position] if node != leaving)
            draft.set_replicas(position, kept)
        while len(draft.replicas[position]) < factor:
            target = choose_target(draft, shares, position, None)
            if isinstance(target, Violation):
                violations.append(target)
                break
            draft.set_replicas(position, (*draft.replicas[position], target))
    return violations


def _choose_leaving(draft: Draft, shares: Shares, position: int) -> NodeId:
    """The replica that is needed least: dead, out of sync, in a rack that has another; else on the fullest broker, the leader's last."""
    replicas = draft.replicas[position]
    in_sync = draft.partitions[position].isr
    racks = [draft.rack[node] for node in replicas]

    def need(node: NodeId) -> tuple[bool, bool, bool, bool, float, int]:
        return (
            draft.is_alive(node),
            node in in_sync,
            racks.count(draft.rack[node]) == 1,
            node == replicas[0],
            -shares.load(draft, node) if node in shares.size_bytes else -float("inf"),
            draft.rank[node],
        )

    return min(replicas, key=need)
