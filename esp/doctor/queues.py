"""Rules about share groups."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_partition, shell_word
from esp.doctor.snapshot import Snapshot

FAILING_MS: Final = 10_000
"""Letters that could not be written for so long do not wait for an election any more."""


def _blocked(snapshot: Snapshot) -> Iterator[Hit]:
    for queue in snapshot.queues:
        if queue.is_held_by_letters or queue.span < queue.span_max:
            continue  # the other rule has what letters hold
        holder = (
            "no member has it" if queue.holder is None else f"{queue.holder} has had it for {queue.held_ms // 1000} s"
        )
        topic, number = queue.partition
        group = shell_word(queue.group)
        yield Hit(
            at_partition(queue.partition),
            f"group {queue.group}: {queue.span} offsets since {queue.start_offset}, which is not done with: {holder}",
            f"`esp queues peek --group {group} --topic {topic} --partition {number} --max 1` shows the record; "
            "see why its member does not release it",
        )


def _letters_wait(snapshot: Snapshot) -> Iterator[Hit]:
    for queue in snapshot.queues:
        if queue.letters_failing_ms < FAILING_MS and not queue.is_held_by_letters:
            continue
        group = shell_word(queue.group)
        stops = ", and nothing is delivered meanwhile" if queue.is_held_by_letters else ""
        yield Hit(
            at_partition(queue.partition),
            f"group {queue.group}: {queue.letter_count} letters wait, for {queue.letters_failing_ms // 1000} s{stops}",
            f"`esp queues describe --group {group}`, then see the log of the partition's leader, and the dead-letter queue: "
            "its leader, its replicas in sync, and the permission of the node to write to it",
        )


def _kept(snapshot: Snapshot) -> Iterator[Hit]:
    for queue in snapshot.queues:
        group = shell_word(queue.group)
        for kept in queue.kept:
            yield Hit(
                at_partition(queue.partition),
                f"group {queue.group}: {kept.member_id} has had {kept.record_count} records for up to {kept.held_ms // 1000} s, "
                f"of which one was delivered {kept.deliveries} times",
                f"`esp queues describe --group {group} --members`; have the member acknowledge each record, or renew its lock while "
                "it works, or give it a longer one: "
                f"`esp configs --alter --entity-type groups --entity-name {group} --add-config share.record.lock.duration.ms=60000`",
            )


RULES: Final = (
    Rule(
        "queue-blocked",
        Severity.WARNING,
        "queues that deliver nothing new until one record is done with",
        "Members get records from a window of share.partition.max.record.locks offsets only; the oldest one that they keep holds it.",
        "`esp queues peek --group GROUP --topic TOPIC --partition PARTITION --max 1`; see why its member does not release it",
        _blocked,
    ),
    Rule(
        "queue-records-kept",
        Severity.WARNING,
        "members of queues that keep records until their locks end, again and again",
        "Each such delivery counts: the records are late, and are given up when their attempts are over.",
        "`esp queues describe --group GROUP --members`; have the member acknowledge each record, or renew its lock while it works, or "
        "give it a longer one: "
        "`esp configs --alter --entity-type groups --entity-name GROUP --add-config share.record.lock.duration.ms=60000`",
        _kept,
    ),
    Rule(
        "dead-letters-wait",
        Severity.WARNING,
        "dead letters that cannot be written",
        "Their records are not archived before, and when many wait, their queue stops.",
        "`esp queues describe --group GROUP`; see the leader's log, and the leader, replicas and permissions of the dead-letter queue",
        _letters_wait,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
