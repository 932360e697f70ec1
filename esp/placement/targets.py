"""The place of a new replica of a partition: the emptiest broker that no constraint forbids."""

from esp.model.ids import NodeId
from esp.placement.constraints import Constraint, Violation
from esp.placement.draft import Draft
from esp.placement.shares import Shares


def choose_target(draft: Draft, shares: Shares, position: int, leaving: NodeId | None) -> NodeId | Violation:
    """The broker for a new replica.

    A rack that has none of the other replicas comes first, also where fewer racks are required.

    Args:
        draft: the placement so far.
        shares: the fair shares.
        position: the partition.
        leaving: the broker whose place the new replica takes; None if it is one more.

    Returns:
        the broker, or the constraint that forbids every broker that is left.
    """
    if draft.partitions[position].is_reassigning:
        return _violation(draft, position, Constraint.NOT_MOVING, "it is being reassigned already")
    replicas = draft.replicas[position]
    others = [node for node in replicas if node != leaving]
    used_racks = {draft.rack[node] for node in others}
    candidates = [node for node in draft.targets if node not in replicas]
    if not candidates:
        reason = f"it needs {len(others) + 1} replica(s), and only {len(draft.targets)} broker(s) may hold one"
        return _violation(draft, position, Constraint.BROKER_COUNT, reason)
    required = draft.required_racks(position, len(others) + 1)
    if len(used_racks) < required:
        candidates = [node for node in candidates if draft.rack[node] not in used_racks]
        if not candidates:
            return _violation(draft, position, Constraint.RACKS_APART, "no broker is left in a rack of its own")
    with_room = [node for node in candidates if draft.has_room(position, node)]
    if not with_room:
        size_bytes = draft.partitions[position].size_bytes
        brokers = ", ".join(map(str, sorted(candidates)))
        reason = f"no disk of the brokers {brokers} has room for {size_bytes} bytes below its limit"
        return _violation(draft, position, Constraint.DISK_LIMIT, reason)
    return min(with_room, key=lambda node: (draft.rack[node] in used_racks, shares.load(draft, node), draft.rank[node]))


def _violation(draft: Draft, position: int, constraint: Constraint, reason: str) -> Violation:
    return Violation(constraint, str(draft.partitions[position].name), reason)
