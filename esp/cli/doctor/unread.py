"""The consumer groups that retention overtakes, or is about to: found without reading a record."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from esp.cli.kafka.held_records import hold_groups
from esp.doctor.snapshot import UnreadRecords
from esp.groups.group_patterns import group_patterns
from esp.model.ids import TopicPartition

CLEANUP_POLICY: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"
HOLD_GROUPS: Final = "retention.hold.groups"
RETENTION_BYTES: Final = "retention.bytes"
HOLD_MAX_MS: Final = "retention.hold.max.ms"
HOLD_MAX_BYTES: Final = "retention.hold.max.bytes"
SETTINGS: Final = (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES, HOLD_GROUPS, HOLD_MAX_MS, HOLD_MAX_BYTES)
"""The settings of topics that are looked at. A release that does not know some of them does not tell these."""

_NONE: Final = -1


class GroupReads(Protocol):
    """The admin API as far as it tells of groups and logs. Partitions and groups for which no broker answers are left out."""

    def group_offsets(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """The committed offsets of groups."""

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that each partition's next record gets."""

    def offsets_since(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The offset of each partition's first record that is not older; -1: there is none."""


def find_unread(
    admin: GroupReads,
    groups: Iterable[str],
    settings: Mapping[str, Mapping[str, str]],
    led: Mapping[TopicPartition, int],
    now_ms: int,
) -> tuple[UnreadRecords, ...]:
    """Return the groups and topics of which unread records are gone, have lived for nine tenths of their time, or have nine tenths of the
    bytes that are kept.

    Args:
        admin: the cluster.
        groups: the ids of its consumer groups.
        settings: by topic those of :data:`SETTINGS`.
        led: the partitions that have a leader which serves, with their bytes.
        now_ms: milliseconds since the Unix epoch.
    """
    committed = {
        (group, partition): offset
        for group, offsets in sorted(admin.group_offsets(groups).items())
        for partition, offset in sorted(offsets.items())
        if partition in led and "delete" in settings.get(partition.topic, {}).get(CLEANUP_POLICY, "")
    }
    first = admin.first_offsets({partition for _, partition in committed})
    old = _find_old(admin, committed, settings, now_ms)
    full = _find_full(admin, committed, settings, led, first)
    found: dict[tuple[str, str], UnreadRecords] = {}
    for (group, partition), offset in committed.items():
        if partition not in first:
            continue
        is_near = max(offset, first[partition]) < old.get((group, partition), _NONE)
        deleted = max(0, first[partition] - offset)
        is_full = (group, partition) in full
        if not deleted and not is_near and not is_full:
            continue
        limit_ms, is_held = _limit(settings[partition.topic], group)
        limit_bytes, is_held_by_size = _limit_bytes(settings[partition.topic], group)
        known = found.get(
            (group, partition.topic),
            UnreadRecords(group, partition.topic, 0, 0, limit_ms, is_held, 0, limit_bytes, is_held_by_size),
        )
        found[group, partition.topic] = known._replace(
            deleted_offsets=known.deleted_offsets + deleted,
            near_partitions=known.near_partitions + is_near,
            nearly_full_partitions=known.nearly_full_partitions + is_full,
        )
    return tuple(found.values())


def _find_full(
    admin: GroupReads,
    committed: Mapping[tuple[str, TopicPartition], int],
    settings: Mapping[str, Mapping[str, str]],
    sizes: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
) -> set[tuple[str, TopicPartition]]:
    """The groups and partitions whose unread records have nine tenths of the bytes that are kept: of a log its share of offsets."""
    limits = {
        key: limit
        for key in committed
        if key[1] in first and (limit := _limit_bytes(settings[key[1].topic], key[0])[0]) > 0
        if sizes[key[1]] * 10 >= limit * 9
    }
    ends = admin.end_offsets({partition for _, partition in limits}) if limits else {}
    found = set()
    for (group, partition), limit in limits.items():
        start, end = first[partition], ends.get(partition, 0)
        unread = end - max(start, committed[group, partition])
        if unread > 0 and sizes[partition] * unread * 10 >= limit * 9 * (end - start):
            found.add((group, partition))
    return found


def _find_old(
    admin: GroupReads,
    committed: Iterable[tuple[str, TopicPartition]],
    settings: Mapping[str, Mapping[str, str]],
    now_ms: int,
) -> dict[tuple[str, TopicPartition], int]:
    """The offsets below which records are in the last tenth of their time, for each group and partition whose records have a limit."""
    by_limit: dict[int, list[tuple[str, TopicPartition]]] = {}
    for group, partition in committed:
        limit_ms, _ = _limit(settings[partition.topic], group)
        if limit_ms > 0:
            by_limit.setdefault(limit_ms, []).append((group, partition))
    found: dict[tuple[str, TopicPartition], int] = {}
    for limit_ms, keys in by_limit.items():
        partitions = {partition for _, partition in keys}
        since = admin.offsets_since(partitions, now_ms - limit_ms * 9 // 10)
        without = {partition for partition, offset in since.items() if offset == _NONE}
        since |= admin.end_offsets(without) if without else {}
        found |= {key: since[key[1]] for key in keys if key[1] in since}
    return found


def _limit(settings: Mapping[str, str], group: str) -> tuple[int, bool]:
    """The age at which records go that a group has not read, -1: at none; and whether it is that of the group's hold."""
    age_ms = int(settings.get(RETENTION_MS) or _NONE)
    if age_ms < 0 or not group_patterns(hold_groups(settings)).matches(group):
        return age_ms, False
    cap_ms = int(settings.get(HOLD_MAX_MS) or _NONE)
    return (_NONE, True) if cap_ms < 0 else (max(age_ms, cap_ms), cap_ms > age_ms)


def _limit_bytes(settings: Mapping[str, str], group: str) -> tuple[int, bool]:
    """As :func:`_limit`, the bytes of a partition from which on records go that a group has not read."""
    size, age_ms = int(settings.get(RETENTION_BYTES) or _NONE), int(settings.get(RETENTION_MS) or _NONE)
    if not group_patterns(hold_groups(settings)).matches(group):
        return size, False
    cap = int(settings.get(HOLD_MAX_BYTES) or _NONE)
    if cap < 0 or (size < 0 and age_ms < 0):
        return _NONE, False
    return (cap, True) if age_ms >= 0 else (max(size, cap), cap > size)
