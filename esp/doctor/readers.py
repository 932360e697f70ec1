"""Rules about consumer groups: those that retention overtakes, and those that do not come to rest."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import CLUSTER, Hit, Rule, Severity, at_topic, shell_word
from esp.doctor.snapshot import Snapshot

_HOLD: Final = "retention.hold.groups"


def _deleted(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.unread:
        if each.deleted_offsets:
            group = shell_word(each.group_id)
            yield Hit(
                at_topic(each.topic),
                f"group {each.group_id} had not read {each.deleted_offsets} offsets that are gone",
                f"`esp groups --describe --group {group} --times`; if nothing reads for the group any more, "
                f"`esp groups --delete-offsets --group {group} --topic {each.topic}`",
            )


def _near_deletion(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.unread:
        for count, limit, unit, cap, is_held in (
            (each.near_partitions, each.limit_ms, "ms", "retention.hold.max.ms", each.is_held),
            (each.nearly_full_partitions, each.limit_bytes, "bytes", "retention.hold.max.bytes", each.is_held_by_size),
        ):
            if not count:
                continue
            partitions = "1 partition" if count == 1 else f"{count} partitions"
            holds = f", up to which {_HOLD} keeps them" if is_held else ""
            group = shell_word(each.group_id)
            more = "time" if unit == "ms" else "room"
            yield Hit(
                at_topic(each.topic),
                f"group {each.group_id} has unread records in the last tenth of {limit} {unit}{holds}, in {partitions}",
                f"`esp groups --describe --group {group} --times`, and let the group catch up; or give records more {more}: "
                f"`esp configs --alter --entity-type topics --entity-name {each.topic} --add-config "
                + (f"{cap}={2 * limit}`" if is_held else f"{shell_word(f'{_HOLD}={each.group_id}')}`"),
            )


def _rebalancing(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.rebalancing:
        group = shell_word(each.group_id)
        yield Hit(
            CLUSTER,
            f"group {each.group_id} was {each.state}, or rebalanced otherwise, in each look for {each.seconds:g} s",
            f"`esp groups --describe --group {group} --members`, once and again: a member whose id changes, or that comes and "
            "goes, restarts, or exceeds its max.poll.interval.ms; one that stays, and does not join, holds the others up",
        )


RULES: Final = (
    Rule(
        "group-rebalances",
        Severity.WARNING,
        "consumer groups that do not stop rebalancing",
        "Meanwhile their members read little, or nothing at all, and what they have not committed is read again.",
        "`esp groups --describe --group GROUP --members`, once and again: a member whose id changes, or that comes and goes, restarts, or "
        "exceeds its max.poll.interval.ms; one that stays, and does not join, holds the others up",
        _rebalancing,
    ),
    Rule(
        "unread-records-near-deletion",
        Severity.WARNING,
        "records that will be deleted soon, and that a group has not read",
        "Retention deletes records whether they were read or not; consumers then go on behind them, or end.",
        "`esp groups --describe --group GROUP --times`, and let the group catch up; or keep what it has not read: "
        "`esp configs --alter --entity-type topics --entity-name TOPIC --add-config retention.hold.groups=GROUP`",
        _near_deletion,
    ),
    Rule(
        "unread-records-deleted",
        Severity.WARNING,
        "records that were deleted before a group had read them",
        "The group goes on by auto.offset.reset, from the first record or from the end, and its readers may not notice.",
        "`esp groups --describe --group GROUP --times`; if nothing reads for the group any more, "
        "`esp groups --delete-offsets --group GROUP --topic TOPIC`",
        _deleted,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
