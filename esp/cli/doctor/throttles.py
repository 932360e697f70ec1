"""The moves that a throttle slows so much that no progress shows for a while, found from the settings that the doctor has read."""

from collections.abc import Mapping
from typing import Final

from esp.model.ids import TopicPartition
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    ConfigTarget,
    Partition,
    Reassignment,
)
from esp.settings.throttled_replicas import parse_throttled_replicas

_BATCH_BYTES: Final = 1 << 20
"""About ``message.max.bytes``: a throttle lets a batch through whole, however low it is, and makes the next one wait for it."""

Settings = Mapping[str, str]


def find_held(
    reassignments: Mapping[TopicPartition, Reassignment],
    topics: Mapping[str, Mapping[int, Partition]],
    settings: Mapping[str, Settings],
    own: Mapping[ConfigTarget, Settings],
    watched_s: float,
) -> dict[TopicPartition, int]:
    """The moves that need not get a byte for so long because of their throttle, and the bytes per second that it allows.

    Args:
        reassignments: what moves.
        topics: the partitions of each topic.
        settings: of each topic.
        own: the rates that all brokers have by default, and those that brokers have of their own.
        watched_s: time between two looks. All that is throttled may wait for one another's batches.
    """
    rates: dict[TopicPartition, int] = {}
    for name, moving in reassignments.items():
        leader = topics[name.topic][name.partition].leader
        allowed = _rates(name, moving, leader, settings[name.topic], own)
        if allowed:
            rates[name] = min(allowed)
    return {name: rate for name, rate in rates.items() if rate * watched_s < _BATCH_BYTES * len(rates)}


def _rates(
    name: TopicPartition,
    moving: Reassignment,
    leader: int,
    settings: Settings,
    own: Mapping[ConfigTarget, Settings],
) -> list[int]:
    """The rates that throttles allow the source and the brokers that get a copy; empty if there are no throttles."""
    ends = (
        (LEADER_THROTTLED_REPLICAS, LEADER_THROTTLED_RATE, (leader,)),
        (FOLLOWER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_RATE, moving.adding),
    )
    found: list[int] = []
    for listed, rate, brokers in ends:
        replicas = tuple(part.strip() for part in settings.get(listed, "").split(",") if part.strip())
        throttled = parse_throttled_replicas(replicas)
        for broker in brokers:
            text = own.get(ConfigTarget(broker=str(broker)), {}).get(rate, own[ALL_BROKERS].get(rate))
            if text is not None and throttled.covers(name.partition, broker):
                found.append(int(text))
    return found
