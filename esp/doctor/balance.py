"""Rules about load: brokers hold about as much as they should, by the measures and shares of the planner."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_broker, at_partition
from esp.doctor.snapshot import Snapshot
from esp.model.ids import NodeId
from esp.placement.measures import LoadCount
from esp.placement.shares import fair_shares
from esp.placement.step import BrokerLoad

UNEVEN_FACTOR: Final = 1.25
"""A load that is less than a quarter above the share is not worth the bytes that a move costs."""
UNEVEN_COUNT_MIN: Final = 2
"""Things that cannot be divided are uneven from so many on above the share, rounded up."""
UNEVEN_BYTES_MIN: Final = 256 << 20
"""Bytes above the share that make no difference."""
DISK_FILLING: Final = 0.85
DISK_FULL: Final = 0.95
_SPREAD: Final = "`esp rebalance plan spread`"
_GIB: Final = 1 << 30


def _loads(snapshot: Snapshot) -> tuple[BrokerLoad, ...]:
    """The loads of the brokers that may get replicas; nothing if there are fewer than two."""
    if len(snapshot.targets) < 2:
        return ()
    loads = LoadCount(snapshot.targets, snapshot.targets)
    loads.add(snapshot.view.partitions)
    return loads.loads()


def _shares(snapshot: Snapshot, weights: Mapping[int, int]) -> dict[NodeId, float]:
    """The share of each broker, as racks allow it (:mod:`esp.placement.shares`)."""
    racks: defaultdict[str | None, list[NodeId]] = defaultdict(list)
    for broker in snapshot.targets:
        racks[broker.rack].append(broker.broker_id)
    return fair_shares(racks, weights)


def _uneven_replicas(snapshot: Snapshot) -> Iterator[Hit]:
    loads = _loads(snapshot)
    if loads:
        shares = _shares(snapshot, Counter(len(partition.replicas) for partition in snapshot.view.partitions))
        for load in loads:
            if _is_crowded(load.replicas, shares[load.broker_id]):
                yield _uneven(
                    load.broker_id, f"{load.replicas} replicas, {shares[load.broker_id]:.0f} would be its share"
                )


def _uneven_leaders(snapshot: Snapshot) -> Iterator[Hit]:
    loads = _loads(snapshot)
    share = sum(load.leaders for load in loads) / max(len(loads), 1)
    for load in loads:
        if _is_crowded(load.leaders, share):
            yield _uneven(
                load.broker_id, f"preferred leader of {load.leaders} partitions, {share:.0f} would be its share"
            )


def _uneven_disks(snapshot: Snapshot) -> Iterator[Hit]:
    loads = _loads(snapshot)
    if loads:
        weights: Counter[int] = Counter()
        for partition in snapshot.view.partitions:
            weights[len(partition.replicas)] += partition.size_bytes
        shares = _shares(snapshot, weights)
        for load in loads:
            share = shares[load.broker_id]
            if load.size_bytes > max(share * UNEVEN_FACTOR, share + UNEVEN_BYTES_MIN):
                detail = f"{load.size_bytes / _GIB:.2f} GiB, {share / _GIB:.2f} GiB would be its share"
                yield _uneven(load.broker_id, detail)


def _is_crowded(amount: int, share: float) -> bool:
    return amount > share * UNEVEN_FACTOR and amount - ceil(share) >= UNEVEN_COUNT_MIN


def _uneven(node: NodeId, detail: str) -> Hit:
    return Hit(at_broker(node), detail, _SPREAD)


def _empty_broker(snapshot: Snapshot) -> Iterator[Hit]:
    loads = _loads(snapshot)
    replicas = sum(load.replicas for load in loads)
    for load in loads:
        if not load.replicas and replicas > len(loads):
            yield Hit(at_broker(load.broker_id), f"holds no replicas; the others hold {replicas}", _SPREAD)


def _disk_use(snapshot: Snapshot) -> Iterator[tuple[float, Hit]]:
    for broker in snapshot.serving:
        if broker.disk_capacity_bytes:
            used = broker.disk_used_bytes / broker.disk_capacity_bytes
            free = (broker.disk_capacity_bytes - broker.disk_used_bytes) / _GIB
            remedy = f"{_SPREAD}, if others have room; else reduce the retention, or use a larger disk"
            yield used, Hit(at_broker(broker.broker_id), f"{used:.0%} full, {free:.1f} GiB free", remedy)


def _disk_filling(snapshot: Snapshot) -> Iterator[Hit]:
    yield from (hit for used, hit in _disk_use(snapshot) if DISK_FILLING <= used < DISK_FULL)


def _disk_full(snapshot: Snapshot) -> Iterator[Hit]:
    yield from (hit for used, hit in _disk_use(snapshot) if used >= DISK_FULL)


def _leader_not_preferred(snapshot: Snapshot) -> Iterator[Hit]:
    for partition in snapshot.view.partitions:
        preferred = partition.replicas[0]
        could = preferred in partition.isr and snapshot.is_usable(partition, preferred)
        if could and partition.leader not in (None, preferred) and partition.name not in snapshot.moving:
            remedy = "`esp leader-election --election-type preferred --all-topic-partitions`"
            detail = f"led by {partition.leader}, and {preferred} is in sync"
            yield Hit(at_partition(partition.name), detail, remedy)


RULES: Final = (
    Rule(
        "disk-full",
        Severity.ERROR,
        f"disks that are {DISK_FULL:.0%} full and more",
        "A full log directory goes offline, with all its replicas.",
        f"{_SPREAD}, if others have room; else reduce the retention, or use a larger disk",
        _disk_full,
    ),
    Rule(
        "disk-filling",
        Severity.WARNING,
        f"disks that are {DISK_FILLING:.0%} full and more",
        "There is little room for growth, and none for copies from other brokers.",
        f"{_SPREAD}, if others have room; else reduce the retention, or use a larger disk",
        _disk_filling,
    ),
    Rule(
        "uneven-disks",
        Severity.WARNING,
        "brokers that hold more bytes than their share",
        "The fullest disk limits the capacity of the whole cluster.",
        _SPREAD,
        _uneven_disks,
    ),
    Rule(
        "uneven-replicas",
        Severity.WARNING,
        "brokers that hold more replicas than their share",
        "They carry more load than the others, and more partitions are affected when they are down.",
        _SPREAD,
        _uneven_replicas,
    ),
    Rule(
        "uneven-leaders",
        Severity.WARNING,
        "brokers that are preferred leaders of more partitions than their share",
        "Leaders serve the clients: these brokers are busy while others are idle.",
        _SPREAD,
        _uneven_leaders,
    ),
    Rule(
        "empty-broker",
        Severity.WARNING,
        "brokers that run and hold no replicas",
        "A new broker gets new partitions only: existing partitions do not move to it automatically.",
        _SPREAD,
        _empty_broker,
    ),
    Rule(
        "leader-not-preferred",
        Severity.NOTE,
        "partitions that their preferred leader could lead and does not",
        "After a rolling restart, leadership gathers on the brokers that were restarted first.",
        "`esp leader-election --election-type preferred --all-topic-partitions`, or wait for leader.imbalance.check.interval.seconds",
        _leader_not_preferred,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
