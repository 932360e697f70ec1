"""Rules about deleted topics that can be restored."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_broker
from esp.doctor.snapshot import Snapshot

NEAR_PERCENT: Final = 5
"""So much above the room below which topics in the trash are purged, a disk is near it."""


def _without_room(snapshot: Snapshot) -> Iterator[Hit]:
    if not snapshot.trash:
        return
    first = snapshot.trash[0]
    others = len(snapshot.trash) - 1
    topics = first if not others else f"{first} and {others} {'other' if others == 1 else 'others'}"
    for disk in snapshot.disks:
        if disk.total_bytes <= 0 or disk.usable_bytes * 100 >= disk.total_bytes * (disk.least_percent + NEAR_PERCENT):
            continue
        free_percent = disk.usable_bytes * 100 // disk.total_bytes
        goes = "goes" if disk.usable_bytes * 100 < disk.total_bytes * disk.least_percent else "will go"
        yield Hit(
            at_broker(disk.broker),
            f"{disk.path} has {free_percent}% free: below {disk.least_percent}% the trash {goes}, {topics} first",
            f"`esp topics restore {first}`, if it was deleted by mistake; or `esp topics purge {first}`; or make room",
        )


RULES: Final = (
    Rule(
        "trash-without-room",
        Severity.WARNING,
        "disks without room for the trash",
        "Deleted topics that could be restored are purged before their time, on all nodes, when one disk lacks room.",
        "`esp topics trash`, then `esp topics restore TOPIC` what was deleted by mistake, and make room: `esp topics purge TOPIC`",
        _without_room,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
