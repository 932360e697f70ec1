"""The replica that a consumer should read from: the nearest one with the wanted offset (KIP-392; Kafka's ``RackAwareReplicaSelector``)."""

from collections.abc import Callable

from esp.model.ids import NodeId
from esp.replication.partition_leader import PartitionLeader


def preferred_read_replica(
    leader: PartitionLeader, fetch_offset: int, client_rack: str, rack_of: Callable[[NodeId], str | None]
) -> NodeId | None:
    """The follower that a consumer in ``client_rack`` should fetch from; None for the leader itself.

    Only members of the ISR that hold the offset are chosen. Such a follower may know of a lower high watermark than the leader: it then
    answers without records until it has learned more. Of several the one furthest on is taken, then the one caught up last, then the
    lowest id.

    Args:
        leader: the partition's leader.
        fetch_offset: the consumer's position.
        client_rack: its ``client.rack``, empty if it has none.
        rack_of: a broker's ``broker.rack``; None if it has none, or does not serve at present.
    """
    if not client_rack or rack_of(leader.state.leader) == client_rack:
        return None
    candidates = [
        (-follower.log_end_offset, -follower.last_caught_up_us, node)
        for node, follower in leader.in_sync_followers(fetch_offset)
        if rack_of(node) == client_rack
    ]
    return min(candidates)[2] if candidates else None
