"""Partitions as a cluster holds them, and the times of the first records that a reader has not read."""

from collections.abc import Iterable, Mapping
from typing import Final

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.configs import ConfigsAdmin, ResourceType
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.kafka.record_times import read_times
from esp.model.unread_records import HeldRecords, Retention
from esp.rebalance.looking import replica_sizes

_NONE: Final = Retention()


def look_at_held(servers: str, admin: GroupsAdmin, ends: Mapping[PartitionId, int]) -> dict[PartitionId, HeldRecords]:
    """Return what the cluster holds of partitions.

    Args:
        servers: bootstrap servers.
        admin: a connection to them.
        ends: the partitions, whose leaders answer, with the offset that the next record of each gets.

    Raises:
        OperatorError: a leader does not answer, or a topic is not there any more.
    """
    earliest = admin.earliest(ends)
    retention = _retention(servers, {each.topic for each in ends})
    are_bounded = any(each.size_bytes is not None for each in retention.values())
    sizes = _sizes(servers) if are_bounded else {}
    return {
        each: HeldRecords(earliest[each], end, retention.get(each.topic, _NONE), sizes.get(each))
        for each, end in ends.items()
    }


def first_unread_times(
    servers: str, offsets: Mapping[PartitionId, int], held: Mapping[PartitionId, HeldRecords]
) -> dict[PartitionId, int]:
    """Return the timestamps of the first records that a reader has not read, in milliseconds since the Unix epoch.

    A partition is missing if all is read, or as :func:`~esp.cli.kafka.record_times.read_times` says.

    Args:
        servers: bootstrap servers.
        offsets: the offsets that the reader goes on from.
        held: what the cluster holds.

    Raises:
        OperatorError: no broker answers.
    """
    first = {each: held[each].first_unread(offset) for each, offset in offsets.items() if each in held}
    return read_times(servers, {each: offset for each, offset in first.items() if offset is not None})


def _retention(servers: str, topics: Iterable[str]) -> dict[str, Retention]:
    found = {}
    with ConfigsAdmin(servers) as admin:
        for topic, entries in admin.settings(ResourceType.TOPIC, sorted(topics)).items():
            settings = {entry.name: entry.value or "" for entry in entries}
            found[topic] = (
                Retention(_bound(settings, "retention.ms"), _bound(settings, "retention.bytes"))
                if "delete" in settings.get("cleanup.policy", "")
                else _NONE
            )
    return found


def _bound(settings: Mapping[str, str], name: str) -> int | None:
    value = int(settings.get(name) or -1)
    return value if value >= 0 else None


def _sizes(servers: str) -> dict[PartitionId, int]:
    """The sizes of partitions: of each the largest replica, of the brokers that answer."""
    found: dict[PartitionId, int] = {}
    with ReassignmentsAdmin(servers) as admin:
        alive = [node for node, broker in admin.brokers().items() if not broker.fenced]
        for replica, size in replica_sizes(admin.log_dirs(alive)).items():
            partition = PartitionId(replica.partition.topic, replica.partition.partition)
            found[partition] = max(size, found.get(partition, 0))
    return found
