"""Partitions as a cluster holds them, and the times of the first records that a reader has not read."""

from collections.abc import Iterable, Mapping
from typing import Final

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.configs import ConfigsAdmin, ResourceType
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.kafka.record_times import read_times
from esp.groups.group_patterns import group_patterns
from esp.model.unread_records import HeldRecords, Retention
from esp.rebalance.looking import replica_sizes

_NONE: Final = Retention()


def look_at_held(
    servers: str, admin: GroupsAdmin, ends: Mapping[PartitionId, int], group: str | None = None
) -> dict[PartitionId, HeldRecords]:
    """Return what the cluster holds of partitions.

    Args:
        servers: bootstrap servers.
        admin: a connection to them.
        ends: the partitions, whose leaders answer, with the offset that the next record of each gets.
        group: the reader's; None: it commits no offsets, by which records could be held for it.

    Raises:
        OperatorError: a leader does not answer, or a topic is not there any more.
    """
    earliest = admin.earliest(ends)
    bounds = {topic: _bounds(told, group) for topic, told in _settings(servers, {each.topic for each in ends}).items()}
    are_of_size = any(each is not None and each.size_bytes is not None for both in bounds.values() for each in both)
    sizes = _sizes(servers) if are_of_size else {}
    found = {}
    for each, end in ends.items():
        retention, hold = bounds.get(each.topic, (_NONE, None))
        found[each] = HeldRecords(earliest[each], end, retention, sizes.get(each), hold)
    return found


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


def _settings(servers: str, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    with ConfigsAdmin(servers) as admin:
        told = admin.settings(ResourceType.TOPIC, sorted(topics))
    return {topic: {entry.name: entry.value or "" for entry in entries} for topic, entries in told.items()}


def _bounds(settings: Mapping[str, str], group: str | None) -> tuple[Retention, Retention | None]:
    """The bounds of a topic's retention, and of its hold for a group; None: it holds nothing for it."""
    if "delete" not in settings.get("cleanup.policy", ""):
        return _NONE, None
    retention = Retention(_bound(settings, "retention.ms"), _bound(settings, "retention.bytes"))
    if group is None or not group_patterns(hold_groups(settings)).matches(group):
        return retention, None
    return retention, Retention(_bound(settings, "retention.hold.max.ms"), _bound(settings, "retention.hold.max.bytes"))


def hold_groups(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The groups for which a topic with these settings holds records, names and patterns."""
    return tuple(name for name in map(str.strip, settings.get("retention.hold.groups", "").split(",")) if name)


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
