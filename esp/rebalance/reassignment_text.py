"""The texts of Kafka's reassignment tool, word by word: scripts look for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.rebalance.cluster import LogDir, Partition, Reassignment, Replica

EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition "
    "assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
MUST_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


class DirectoryMove(NamedTuple):
    """The progress of a replica's move to a directory. Paths are None where the broker shows no such copy."""

    replica: Replica
    target: str
    current: str | None
    future: str | None

    @property
    def is_active(self) -> bool:
        """True if the replica is being copied."""
        return self.current is not None and self.future is not None


def directory_moves(targets: Mapping[Replica, str], log_dirs: Mapping[int, Sequence[LogDir]]) -> list[DirectoryMove]:
    """The progress of moves between directories, sorted by broker."""
    return [
        DirectoryMove(
            replica,
            targets[replica],
            _where(replica.partition, ((each.path, each.sizes) for each in log_dirs.get(replica.broker, ()))),
            _where(replica.partition, ((each.path, each.future) for each in log_dirs.get(replica.broker, ()))),
        )
        for replica in in_order(targets)
    ]


def in_order(replicas: Iterable[Replica]) -> list[Replica]:
    """Replicas sorted by broker, then by partition."""
    return sorted(replicas, key=lambda replica: (replica.broker, replica.partition))


def _where(partition: TopicPartition, directories: Iterable[tuple[str, Mapping[TopicPartition, int]]]) -> str | None:
    return next((path for path, sizes in directories if partition in sizes), None)


def state_of_partition(
    partition: TopicPartition, target: Sequence[int], moving: Reassignment | None, found: Partition | None
) -> str:
    """The progress of a partition's move to ``target``."""
    if moving is not None:
        return f"Reassignment of partition {partition} is still in progress."
    replicas = found.replicas if found is not None else ()
    if replicas == tuple(target):
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {joined(replicas)} rather than "
        f"{joined(target)}."
    )


def state_of_directory_move(move: DirectoryMove) -> str:
    """The progress of a replica's move to another directory."""
    replica, target, current, future = move
    partition, broker = replica.partition, replica.broker
    if current is None:
        return f"Partition {partition} cannot be found in any live log directory on broker {broker}."
    if future is None:
        if current == target:
            return f"Reassignment of replica {replica} completed successfully."
        return f"Partition {partition} on broker {broker} is not being moved from log dir {current} to {target}."
    if future == target:
        return f"Reassignment of replica {replica} is still in progress."
    return f"Partition {partition} on broker {broker} is being moved to log dir {future} instead of {target}."


def list_of_reassignments(moving: Mapping[TopicPartition, Reassignment]) -> list[str]:
    """Return the lines that list the reassignments in progress, as Kafka's tool prints them."""
    if not moving:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for partition in sorted(moving):
        each = moving[partition]
        line = f"{partition}: replicas: {joined(each.replicas)}."
        if each.adding:
            line += f" adding: {joined(sorted(each.adding))}."
        if each.removing:
            line += f" removing: {joined(sorted(each.removing))}."
        lines.append(line)
    return lines


def joined(items: Iterable[object]) -> str:
    """Items with commas between them."""
    return ",".join(map(str, items))


def plural(word: str, items: Sequence[object]) -> str:
    """A word, in the plural unless there is one of it."""
    return word if len(items) == 1 else f"{word}s"
