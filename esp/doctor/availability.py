"""Rules about partitions, replicas and directories that do not do their work now."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_broker, at_partition, numbers
from esp.doctor.snapshot import Snapshot, min_isr_of
from esp.model.ids import NodeId
from esp.placement.cluster_view import PartitionView


def _bring_back(snapshot: Snapshot, partition: PartitionView, nodes: list[NodeId]) -> str:
    """The remedy for brokers whose replica is missing."""
    down = [node for node in nodes if not snapshot.view.brokers_by_id[node].is_alive]
    if down:
        return f"start broker {' or '.join(map(str, sorted(down)))}"
    stopped = [node for node in nodes if node in snapshot.offline.get(partition.name, ())]
    if stopped:
        return (
            f"see the log of broker {numbers(stopped)}: repair or replace the disk of a log directory that failed, or keep a copy of the "
            "replica that was stopped, and restart the broker"
        )
    unmade = snapshot.unmade.get(partition.name, frozenset())
    if unmade.issuperset(nodes):
        return f"wait until broker {numbers(nodes)} has copied it; if no bytes arrive, see the log of the broker"
    return (
        f"see why the replica on broker {numbers(nodes)} does not keep up: its log, its disk, the network, a throttle"
    )


def _give_up(partition: PartitionView) -> str:
    """The remedy where all brokers are up and none is known to have a complete copy."""
    name = partition.name
    return (
        "no broker is known to have all records (see the brokers' logs): put back the lost log directory and restart its broker, or give "
        f"up the missing records: `esp leader-election --election-type unclean --topic {name.topic} --partition {name.partition}`"
    )


def _missing(snapshot: Snapshot, partition: PartitionView) -> list[NodeId]:
    """The replicas that should be in sync and are not; replicas that a reassignment adds need not be yet."""
    moving = snapshot.moving.get(partition.name)
    awaited = moving.adding if moving is not None else frozenset()
    return [node for node in snapshot.lasting_replicas(partition) if node not in partition.isr and node not in awaited]


def _offline_partition(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        led_by = partition.leader
        if led_by is not None and not snapshot.view.brokers_by_id[led_by].is_alive and not snapshot.has_controller:
            detail = f"its last leader, broker {led_by}, does not answer, and no controller elects another"
            yield Hit(at_partition(partition.name), detail, _bring_back(snapshot, partition, [led_by]))
        elif led_by is None:
            good = [*partition.isr, *snapshot.eligible.get(partition.name, ())]
            down = [node for node in partition.replicas if not snapshot.is_usable(partition, node)]
            detail = f"replicas {numbers(partition.replicas)}, last in sync {numbers(good)}, down {numbers(down)}"
            awaited = [node for node in good if node in down] or down
            remedy = _bring_back(snapshot, partition, awaited) if good or down else _give_up(partition)
            yield Hit(at_partition(partition.name), detail, remedy)


def _under_min_isr(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        wanted = min_isr_of(partition)
        if partition.leader is not None and len(partition.isr) < wanted:
            detail = f"in sync {numbers(partition.isr)} of {numbers(partition.replicas)}, {wanted} needed"
            absent = [node for node in partition.replicas if node not in partition.isr]
            absent = [node for node in _missing(snapshot, partition) if node in absent] or absent
            yield Hit(at_partition(partition.name), detail, _bring_back(snapshot, partition, absent))


def _at_min_isr(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        missing = _missing(snapshot, partition)
        if missing and partition.leader is not None and len(partition.isr) == min_isr_of(partition):
            detail = f"in sync {numbers(partition.isr)} of {numbers(partition.replicas)}, all of them needed"
            yield Hit(at_partition(partition.name), detail, _bring_back(snapshot, partition, missing))


def _out_of_sync(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        behind = [node for node in _missing(snapshot, partition) if snapshot.is_usable(partition, node)]
        if behind and partition.leader is not None:
            unmade = snapshot.unmade.get(partition.name, frozenset())
            state = "is not made yet" if unmade.issuperset(behind) else "is behind"
            detail = f"the copy on broker {numbers(behind)} {state}, in sync {numbers(partition.isr)}"
            yield Hit(at_partition(partition.name), detail, _bring_back(snapshot, partition, behind))


def _offline_replica(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        moving = snapshot.moving.get(partition.name)
        awaited = moving.adding if moving is not None else frozenset()
        lasting = [node for node in snapshot.lasting_replicas(partition) if node not in awaited]
        offline = [node for node in lasting if not snapshot.is_usable(partition, node)]
        if offline:
            detail = f"the copy on broker {numbers(offline)} is offline"
            yield Hit(at_partition(partition.name), detail, _bring_back(snapshot, partition, offline))


def _offline_directory(snapshot: Snapshot) -> Iterator[Hit]:
    for failed in snapshot.failed_directories:
        remedy = f"repair or replace the disk and restart broker {failed.broker}"
        if snapshot.can_drain(failed.broker):
            remedy += f"; or give its copies to others: `esp rebalance plan drain {failed.broker}`"
        yield Hit(at_broker(failed.broker), f"{failed.path}: {failed.error}", remedy)


RULES: Final = (
    Rule(
        "offline-partition",
        Severity.ERROR,
        "partitions without a leader",
        "Clients can neither write to them nor read from them.",
        "start a broker that was last in sync. If none comes back: `esp leader-election --election-type unclean`, "
        "which gives up records",
        _offline_partition,
    ),
    Rule(
        "under-min-isr",
        Severity.ERROR,
        "partitions with fewer in-sync replicas than acks=all needs",
        "Producers with acks=all are refused (NOT_ENOUGH_REPLICAS).",
        "start the brokers that are down, or see why their replicas do not keep up",
        _under_min_isr,
    ),
    Rule(
        "offline-log-dir",
        Severity.ERROR,
        "log directories that have failed",
        "The replicas in them are offline; the broker continues with its other directories.",
        "repair or replace the disk and restart the broker",
        _offline_directory,
    ),
    Rule(
        "at-min-isr",
        Severity.WARNING,
        "partitions that cannot lose another in-sync replica",
        "With the next one, producers with acks=all stop.",
        "start the brokers that are down, or see why their replicas do not keep up",
        _at_min_isr,
    ),
    Rule(
        "offline-replica",
        Severity.WARNING,
        "replicas that are offline",
        "There are fewer copies than the replication factor, and no new ones are made automatically.",
        "start the broker, or give its copies to others: `esp rebalance plan drain BROKER`",
        _offline_replica,
    ),
    Rule(
        "out-of-sync-replica",
        Severity.WARNING,
        "replicas that are online but not in sync",
        "They cannot lead, and do not count for acks=all.",
        "see why they do not keep up: the broker's log, its disk, the network, a throttle",
        _out_of_sync,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
