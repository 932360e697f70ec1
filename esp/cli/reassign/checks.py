"""Looks at what a reassignment names before anything is changed: is it there, and where is it now."""

from collections.abc import Mapping, Sequence

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import ReassignmentAdmin, Replica
from esp.rebalance.reassignment_json import Assignment
from esp.rebalance.reassignment_text import joined


def check_brokers(admin: ReassignmentAdmin, assignments: Sequence[Assignment], source: str) -> None:
    """See that every broker that gets replicas is there and alive.

    Raises:
        OperatorError: the entry is named that names one which is not.
    """
    known = admin.brokers()
    alive = sorted(broker.node_id for broker in known.values() if not broker.fenced)
    for number, each in enumerate(assignments):
        for broker in each.replicas:
            if broker not in alive:
                state = "it is down" if broker in known else "there is none"
                raise OperatorError(
                    f"{source}: partitions[{number}] ({each.partition}): Unknown broker id {broker}: {state}",
                    f"Brokers that are alive: {joined(alive)}.",
                )


def find_partitions(
    admin: ReassignmentAdmin, assignments: Sequence[Assignment], source: str
) -> dict[TopicPartition, tuple[int, ...]]:
    """The current replicas of the partitions that a reassignment names.

    Raises:
        OperatorError: a partition does not exist; its entry is named.
    """
    found = admin.topics({each.partition.topic for each in assignments})
    for number, (partition, _, _) in enumerate(assignments):
        where = f"{source}: partitions[{number}] ({partition})"
        if partition.topic not in found:
            raise OperatorError(f"{where}: Topic {partition.topic} not found.", "See the topics: esp topics --list")
        if partition.partition not in found[partition.topic]:
            raise OperatorError(
                f"{where}: Unable to find partition: {partition}",
                f"Topic {partition.topic} has {len(found[partition.topic])}, counted from 0.",
            )
    return {each.partition: found[each.partition.topic][each.partition.partition].replicas for each in assignments}


def find_log_dirs(admin: ReassignmentAdmin, assignments: Mapping[TopicPartition, Sequence[int]]) -> dict[Replica, str]:
    """The directories of replicas whose brokers answer."""
    replicas = [Replica(partition, broker) for partition, brokers in assignments.items() for broker in brokers]
    log_dirs = admin.log_dirs({replica.broker for replica in replicas})
    return {
        replica: log_dir.path
        for replica in replicas
        for log_dir in log_dirs.get(replica.broker, ())
        if replica.partition in log_dir.sizes
    }
