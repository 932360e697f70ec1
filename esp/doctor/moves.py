"""Rules about moves: moves that run, moves that make no progress, and remains of past ones."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import CLUSTER, Hit, Place, PlaceKind, Rule, Severity, at_partition, at_topic, numbers
from esp.doctor.snapshot import BrokerCondition, Snapshot, ThrottleSetting
from esp.model.ids import TopicPartition


def _cancel(snapshot: Snapshot, name: TopicPartition) -> str:
    """The command that cancels the reassignment of one partition, whichever tool began it; for a shell that has ``<(...)``."""
    replicas = [
        node
        for partition in snapshot.topics[name.topic]
        if partition.name == name
        for node in partition.replicas
        if node not in snapshot.moving[name].adding
    ]
    entry = f'{{"topic":"{name.topic}","partition":{name.partition},"replicas":{replicas}}}'.replace(" ", "")
    document = f'{{"version":1,"partitions":[{entry}]}}'
    return f"`esp reassign-partitions --cancel --reassignment-json-file <(echo '{document}')`"


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
            detail = f"broker {numbers(away)} is to receive a copy and is down"
            yield Hit(
                at_partition(partition.name),
                detail,
                f"start it; or cancel the move: {_cancel(snapshot, partition.name)}",
            )


def _stalled(snapshot: Snapshot) -> Iterator[Hit]:
    for name, moving in snapshot.moving.items():
        if moving.is_stalled:
            detail = f"no new bytes on broker {numbers(sorted(moving.adding))} between two samples"
            remedy = (
                "see the log of that broker, and its rebalance.bytes.per.second.max; or cancel the move: "
                f"{_cancel(snapshot, name)}"
            )
            yield Hit(at_partition(name), detail, remedy)


def _held(snapshot: Snapshot) -> Iterator[Hit]:
    for name, moving in snapshot.moving.items():
        if moving.held_to is not None:
            target = f"broker {numbers(sorted(moving.adding))}"
            if moving.is_paused:
                detail = f"the plan that moves it to {target} is paused"
                remedy = "resume the plan: esp rebalance resume, with the file of the plan"
            else:
                detail = f"its throttle allows {moving.held_to} bytes/s to {target}"
                remedy = "raise the throttle"
            yield Hit(at_partition(name), detail, f"{remedy}; or cancel the move: {_cancel(snapshot, name)}")


def _running(snapshot: Snapshot) -> Iterator[Hit]:
    for name, moving in snapshot.moving.items():
        if moving.is_stalled or moving.held_to is not None:
            continue  # told by a rule of its own
        ways = (("to", moving.adding), ("away from", moving.removing))
        detail = ", ".join(f"{way} broker {numbers(sorted(nodes))}" for way, nodes in ways if nodes)
        yield Hit(at_partition(name), detail or "the order of its replicas changes", "`esp reassign-partitions --list`")


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
    return f"`esp configs --alter --entity-type {entity} {name} --delete-config {','.join(setting.names)}`"


RULES: Final = (
    Rule(
        "reassignment-blocked",
        Severity.ERROR,
        "reassignments that cannot end",
        "Their copies use disk space, and block other moves of the partition, until an operator acts.",
        "start the broker, or `esp rebalance cancel PLAN`, or `esp reassign-partitions --cancel`",
        _cannot_end,
    ),
    Rule(
        "reassignment-stalled",
        Severity.WARNING,
        "reassignments that make no progress",
        "A stalled move keeps both copies on the disks, and no throttle is low enough to explain it.",
        "see the log of the broker that gets the copy; or `esp reassign-partitions --cancel`",
        _stalled,
    ),
    Rule(
        "throttle-left-behind",
        Severity.WARNING,
        "replication throttles while no partition moves",
        "The next replica that falls behind catches up at that rate, or never.",
        "`esp configs --alter --entity-type topics --entity-name TOPIC --delete-config NAMES`, the same for brokers",
        _left_behind,
    ),
    Rule(
        "reassignment-running",
        Severity.NOTE,
        "partitions that are being reassigned",
        "Until a move has ended, the disks hold both copies.",
        "`esp reassign-partitions --list` or `esp rebalance status PLAN` show the progress",
        _running,
    ),
    Rule(
        "reassignment-held",
        Severity.NOTE,
        "reassignments that a throttle stops, or slows too much",
        "A paused plan moves nothing until it is resumed; a move that is throttled below the produce rate never ends.",
        "`esp rebalance resume PLAN`, a higher throttle, or `esp reassign-partitions --cancel`",
        _held,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
