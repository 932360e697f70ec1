"""Looks at a cluster: for a planner everything, for an executor what its plan is about."""

from collections.abc import Collection, Mapping

from esp.model.ids import NodeId, TopicPartition
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.rebalance.cluster import Broker, ConfigTarget, LogDir, Partition, ReassignmentAdmin, Replica
from esp.rebalance.execution import Execution, Sight
from esp.settings.rebalance import DRAINING


def look_for_planner(admin: ReassignmentAdmin, draining: Collection[int] = ()) -> ClusterView:
    """Everything that a planner wants to know.

    Args:
        admin: the cluster.
        draining: brokers that get no replicas, beside those that are marked as such (``broker.draining``, which Kafka has not).

    Raises:
        OperatorError: the cluster does not answer.
    """
    brokers = admin.brokers()
    topics = admin.topics()
    moving = admin.reassignments()
    log_dirs = admin.log_dirs(node for node, broker in brokers.items() if not broker.fenced)
    min_isr = admin.min_in_sync_replicas(topics) if topics else {}
    own = admin.settings([ConfigTarget(broker=str(node)) for node in log_dirs], [DRAINING])
    marked = {int(target.broker or "") for target, settings in own.items() if settings.get(DRAINING) == "true"}
    return make_view(admin.cluster_id(), brokers, topics, moving, log_dirs, min_isr, {*draining, *marked})


def make_view(
    cluster_id: str,
    brokers: Mapping[int, Broker],
    topics: Mapping[str, Mapping[int, Partition]],
    moving: Collection[TopicPartition],
    log_dirs: Mapping[int, Collection[LogDir]],
    min_isr: Mapping[str, int],
    draining: Collection[int] = (),
) -> ClusterView:
    """Return the planners' view of a cluster's answers. A broker whose log directories are not among ``log_dirs`` counts as down."""
    sizes = replica_sizes(log_dirs)
    assigned = {
        replica for partitions in topics.values() for partition in partitions.values() for replica in partition.replicas
    }
    views = []
    for node in sorted({*brokers, *assigned}):
        known = brokers.get(node)
        capacity, used = _disk(log_dirs.get(node))
        views.append(
            BrokerView(
                NodeId(node),
                known.rack if known is not None else None,
                known is not None and node in log_dirs,
                node in draining,
                capacity,
                used,
            )
        )
    partitions = [
        PartitionView(
            topic,
            number,
            tuple(map(NodeId, found.replicas)),
            NodeId(found.leader) if found.leader >= 0 else None,
            tuple(map(NodeId, sorted(found.isr))),
            max(sizes.get(Replica(TopicPartition(topic, number), replica), 0) for replica in found.replicas),
            min_isr[topic],
            TopicPartition(topic, number) in moving,
        )
        for topic, by_number in sorted(topics.items())
        for number, found in sorted(by_number.items())
    ]
    return ClusterView(cluster_id, tuple(views), tuple(partitions))


def look_for_executor(admin: ReassignmentAdmin, execution: Execution) -> Sight:
    """Look at the progress of a plan's partitions.

    The reassignments are read first: a partition that is no longer among them has its new replicas in the answers that follow.
    Raises:
        OperatorError: the cluster does not answer.
    """
    moving = admin.reassignments()
    topics = admin.topics({each.move.topic for each in execution.moves})
    brokers = admin.brokers()
    active = [each.move for each in execution.moves if each.stage.is_active or each.move.name in moving]
    concerned = {broker for move in active for broker in (*move.before, *move.after)}
    alive = [broker for broker in concerned if broker in brokers and not brokers[broker].fenced]
    return Sight(
        brokers,
        {
            TopicPartition(topic, number): partition
            for topic, partitions in topics.items()
            for number, partition in partitions.items()
        },
        moving,
        replica_sizes(admin.log_dirs(alive)) if alive else {},
    )


def replica_sizes(log_dirs: Mapping[int, Collection[LogDir]]) -> dict[Replica, int]:
    """The sizes of all replicas, in bytes."""
    return {
        Replica(partition, broker): size
        for broker, directories in log_dirs.items()
        for directory in directories
        for partition, size in directory.sizes.items()
    }


def _disk(log_dirs: Collection[LogDir] | None) -> tuple[int | None, int]:
    """Capacity and use of a broker's directories together; without those of a broker that does not tell."""
    if not log_dirs or any(each.total_bytes < 0 or each.usable_bytes < 0 for each in log_dirs):
        return None, sum(sum(each.sizes.values()) for each in log_dirs or ())
    total = sum(each.total_bytes for each in log_dirs)
    return total, total - sum(each.usable_bytes for each in log_dirs)
