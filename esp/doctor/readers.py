"""Rules about consumer groups that retention overtakes."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_topic
from esp.doctor.snapshot import Snapshot

_HOLD: Final = "retention.hold.groups"


def _deleted(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.unread:
        if each.deleted_offsets:
            yield Hit(
                at_topic(each.topic),
                f"group {each.group_id} had not read {each.deleted_offsets} offsets that are gone",
                f"`esp groups --describe --group {each.group_id} --times`; if nothing reads for the group any more, "
                f"`esp groups --delete-offsets --group {each.group_id} --topic {each.topic}`",
            )


def _near_deletion(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.unread:
        if not each.near_partitions:
            continue
        partitions = "1 partition" if each.near_partitions == 1 else f"{each.near_partitions} partitions"
        holds = f", up to which {_HOLD} keeps them" if each.is_held else ""
        yield Hit(
            at_topic(each.topic),
            f"group {each.group_id} has unread records in the last tenth of {each.limit_ms} ms{holds}, in {partitions}",
            f"`esp groups --describe --group {each.group_id} --times`, and let the group catch up; or give records more time: "
            f"`esp configs --alter --entity-type topics --entity-name {each.topic} --add-config "
            + (f"retention.hold.max.ms={2 * each.limit_ms}`" if each.is_held else f"{_HOLD}={each.group_id}`"),
        )


RULES: Final = (
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
