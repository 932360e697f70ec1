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
HOLD_MAX_MS: Final = "retention.hold.max.ms"
SETTINGS: Final = (CLEANUP_POLICY, RETENTION_MS, HOLD_GROUPS, HOLD_MAX_MS)
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
    led: Collection[TopicPartition],
    now_ms: int,
) -> tuple[UnreadRecords, ...]:
    """Return the groups and topics of which unread records are gone, or have lived for nine tenths of their time.

    Args:
        admin: the cluster.
        groups: the ids of its consumer groups.
        settings: by topic those of :data:`SETTINGS`.
        led: the partitions that have a leader which serves.
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
    found: dict[tuple[str, str], UnreadRecords] = {}
    for (group, partition), offset in committed.items():
        if partition not in first:
            continue
        is_near = max(offset, first[partition]) < old.get((group, partition), _NONE)
        deleted = max(0, first[partition] - offset)
        if not deleted and not is_near:
            continue
        limit_ms, is_held = _limit(settings[partition.topic], group)
        known = found.get((group, partition.topic), UnreadRecords(group, partition.topic, 0, 0, limit_ms, is_held))
        found[group, partition.topic] = known._replace(
            deleted_offsets=known.deleted_offsets + deleted, near_partitions=known.near_partitions + is_near
        )
    return tuple(found.values())


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
