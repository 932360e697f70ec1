"""``esp topics trash``, ``restore`` and ``purge``: deleted topics that can be restored."""

import time
from collections.abc import Collection
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.topics import TopicsAdmin
from esp.cli.kafka.trash import Trashed, list_trash, purge_topic, restore_topic
from esp.cli.output import print_columns, print_json, print_line, print_warning, working
from esp.model.errors import OperatorError
from esp.model.ids import TopicId, uuid_to_base64

PATIENCE_S: Final = 10
"""A broker looks for the logs of restored topics at once, and again each second while it cannot open one."""

_LOOK_AGAIN_S: Final = 0.2


class TrashAction(StrEnum):
    """The actions of ``esp topics`` that are about the trash."""

    TRASH = "trash"
    RESTORE = "restore"
    PURGE = "purge"


def run_trash(servers: str, action: TrashAction, topic: str | None, *, is_forced: bool, json: bool) -> None:
    """Carry an action out.

    Args:
        servers: bootstrap servers.
        action: which.
        topic: a name or an id; only ``trash`` can do without.
        is_forced: restore a topic though some partitions have no complete replica left.
        json: show the trash as one JSON document.

    Raises:
        OperatorError: nothing was done, for the reason that it gives.
    """
    if action is not TrashAction.TRASH and topic is None:
        raise OperatorError(
            f"esp topics {action} needs a topic",
            f"Write esp topics {action} NAME, or the topic's id; see them: esp topics trash",
        )
    found = [each for each in list_trash(servers) if topic in (None, each.name, _text_of(each))]
    if action is TrashAction.TRASH:
        _show(found, json)
        return
    if not found:
        raise OperatorError(f"there is no topic {topic} in the trash", "See the topics there: esp topics trash")
    if action is TrashAction.PURGE:
        for each in found:
            _purge(servers, each)
    else:
        _restore(servers, found[-1], is_forced=is_forced)


def _show(found: list[Trashed], json: bool) -> None:
    if json:
        print_json(
            [
                {
                    "name": each.name,
                    "id": _text_of(each),
                    "partitions": each.partitions,
                    "deleted_ms": each.trashed_ms,
                    "purged_ms": each.until_ms,
                }
                for each in found
            ]
        )
        return
    print_columns(
        (("TOPIC", 20), ("ID", 22), ("PARTITIONS", 10), ("DELETED", 20), ("PURGED", 20)),
        [
            (each.name, _text_of(each), str(each.partitions), _time_of(each.trashed_ms), _time_of(each.until_ms))
            for each in found
        ],
    )


def _restore(servers: str, wanted: Trashed, *, is_forced: bool) -> None:
    """The topic of the name that was deleted last."""
    try:
        offline = restore_topic(servers, wanted.topic_id, is_forced=is_forced)
    except RefusedError as error:
        raise OperatorError(
            f"topic {wanted.name} is not restored: {error.message}", "Nothing has changed; see esp topics trash."
        ) from error
    print_line(f"Restored topic {wanted.name}.")
    with working("waiting for leaders"):
        unled = find_unled(servers, wanted.name, offline)
    if unled:
        print_warning(
            f"after {PATIENCE_S} s {len(unled)} partitions have no leader ({', '.join(map(str, unled))}): no broker has opened a"
            " complete log of them yet; nothing is lost, and it is tried again. Brokers that are down have to be started; the logs of the"
            " others say why, as a disk that is full; see esp doctor"
        )
    if offline:
        print_warning(
            f"no complete replica is left of {len(offline)} partitions ({', '.join(map(str, offline))}): they have no leader until such"
            " a broker is back, or until esp leader-election --election-type unclean"
        )


def find_unled(servers: str, topic: str, offline: Collection[int]) -> list[int]:
    """Return the partitions that have got no leader within ``PATIENCE_S``, but for those of which no leader is to be expected.

    Args:
        servers: bootstrap servers.
        topic: that was just restored.
        offline: its partitions without a complete replica.
    """
    until_s = time.monotonic() + PATIENCE_S
    with TopicsAdmin(servers) as admin:
        while True:
            unled = [
                each.partition
                for found in admin.topics()
                if found.name == topic
                for each in found.partitions
                if each.leader < 0 and each.partition not in offline
            ]
            if not unled or time.monotonic() >= until_s:
                return unled
            time.sleep(_LOOK_AGAIN_S)


def _purge(servers: str, wanted: Trashed) -> None:
    try:
        purge_topic(servers, wanted.topic_id)
    except RefusedError as error:
        raise OperatorError(
            f"topic {wanted.name} is not purged: {error.message}", "See what is there: esp topics trash"
        ) from error
    print_line(f"Purged topic {wanted.name}.")


def _text_of(each: Trashed) -> str:
    return uuid_to_base64(TopicId(each.topic_id))


def _time_of(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
