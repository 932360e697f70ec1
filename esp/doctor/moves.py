"""Rules about what moves, what does not get on, and what was left behind."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import CLUSTER, Hit, Place, PlaceKind, Rule, Severity, at_partition, at_topic, numbers
from esp.doctor.snapshot import BrokerCondition, Snapshot, ThrottleSetting

_CANCEL: Final = "cancel it: esp rebalance cancel PLAN, or esp reassign-partitions --cancel"


def _cannot_end(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        if partition.name not in snapshot.moving:
            continue
        away = [
            node
            for node in snapshot.lasting_replicas(partition)
            if snapshot.conditions[node] in (BrokerCondition.FENCED, BrokerCondition.GONE)
        ]
        if partition.leader is None:
            yield Hit(at_partition(partition.name), "there is no leader to copy from", "see offline-partition")
        elif away:
            detail = f"broker {numbers(away)} shall hold a copy and is down"
            yield Hit(at_partition(partition.name), detail, f"start it, or {_CANCEL}")


def _stalled(snapshot: Snapshot) -> Iterator[Hit]:
    for name, moving in snapshot.moving.items():
        if moving.is_stalled:
            detail = f"no new byte on broker {numbers(sorted(moving.adding))} between two looks"
            remedy = f"see what the log of that broker says, and its rebalance.bytes.per.second.max; or {_CANCEL}"
            yield Hit(at_partition(name), detail, remedy)


def _held(snapshot: Snapshot) -> Iterator[Hit]:
    for name, moving in snapshot.moving.items():
        if moving.held_to is not None:
            detail = f"its throttle allows {moving.held_to} bytes/s to broker {numbers(sorted(moving.adding))}"
            remedy = f"if a plan is paused: esp rebalance resume PLAN; else a higher throttle; or {_CANCEL}"
            yield Hit(at_partition(name), detail, remedy)


def _running(snapshot: Snapshot) -> Iterator[Hit]:
    for name, moving in snapshot.moving.items():
        detail = f"to broker {numbers(sorted(moving.adding))}, away from {numbers(sorted(moving.removing))}"
        yield Hit(at_partition(name), detail, "esp reassign-partitions --list")


def _left_behind(snapshot: Snapshot) -> Iterator[Hit]:
    if snapshot.moving or snapshot.is_moving_directories or not snapshot.has_controller:
        return
    for setting in snapshot.throttles:
        yield Hit(_whose(setting), ", ".join(setting.names), _delete(setting))


def _whose(setting: ThrottleSetting) -> Place:
    if setting.is_topic:
        return at_topic(setting.whose)
    return Place(PlaceKind.BROKER, setting.whose) if setting.whose else CLUSTER


def _delete(setting: ThrottleSetting) -> str:
    entity = "topics" if setting.is_topic else "brokers"
    name = f"--entity-name {setting.whose}" if setting.whose else "--entity-default"
    return f"esp configs --alter --entity-type {entity} {name} --delete-config {','.join(setting.names)}"


RULES: Final = (
    Rule(
        "reassignment-blocked",
        Severity.ERROR,
        "reassignments that cannot end",
        "They hold what they have copied, and stand in the way of other moves of the partition, until somebody acts.",
        "start the broker, or `esp rebalance cancel PLAN`, or `esp reassign-partitions --cancel`",
        _cannot_end,
    ),
    Rule(
        "reassignment-stalled",
        Severity.WARNING,
        "reassignments that do not get on",
        "A move that hangs keeps both copies on the disks, and no throttle is low enough to explain it.",
        "the log of the broker that gets the copy says more; or `esp reassign-partitions --cancel`",
        _stalled,
    ),
    Rule(
        "throttle-left-behind",
        Severity.WARNING,
        "throttles of replication while nothing moves",
        "The next replica that falls behind catches up at that rate, or never.",
        "`esp configs --alter --entity-type topics --entity-name TOPIC --delete-config NAMES`, the same for brokers",
        _left_behind,
    ),
    Rule(
        "reassignment-running",
        Severity.NOTE,
        "partitions that move",
        "Until it has ended, their disks hold both copies.",
        "`esp reassign-partitions --list` or `esp rebalance status PLAN` show how far it is",
        _running,
    ),
    Rule(
        "reassignment-held",
        Severity.NOTE,
        "reassignments that a throttle holds, or slows to a crawl",
        "A paused plan waits for somebody to resume it; a throttle below what is produced never ends.",
        "`esp rebalance resume PLAN`, a higher throttle, or `esp reassign-partitions --cancel`",
        _held,
    ),
)
"""In the order in which findings of one severity are shown."""
