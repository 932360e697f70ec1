"""The replicas that a throttle has to name so that it slows moves and nothing else, in the settings of Kafka (KIP-73).

A leader is slowed towards followers that are not in sync, a follower where it is not in sync (THROTTLE-1): naming the old replicas of a
partition as leaders and its new ones as followers leaves the replication of everything else as fast as it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from esp.model.ids import TopicPartition
from esp.rebalance.cluster import (
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
    Reassignment,
)


class Copying(NamedTuple):
    """The brokers that have a partition, and those that get a copy of it."""

    sources: frozenset[int]
    destinations: frozenset[int]


def copying_now(reassignments: Mapping[TopicPartition, Reassignment]) -> dict[TopicPartition, Copying]:
    """The copies in progress, by partition."""
    return {partition: Copying(each.original, each.adding) for partition, each in reassignments.items()}


def copying_with(
    now: Mapping[TopicPartition, Copying],
    current: Mapping[TopicPartition, Sequence[int]],
    proposed: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Copying]:
    """The copies in progress once ``proposed`` is begun beside the moves that go on ``now``.

    A partition that is moving already keeps its sources: the replicas added to it are not complete (REASSIGN-1).
    """
    found = dict(now)
    for partition, replicas in proposed.items():
        sources = now[partition].sources if partition in now else frozenset(current[partition])
        found[partition] = Copying(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(copying: Mapping[TopicPartition, Copying]) -> dict[str, dict[str, str]]:
    """The settings of each topic: lists of ``partition:broker``, sorted as text, as Kafka's tool writes them."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, number), each in copying.items():
        leaders.setdefault(topic, set()).update(_pairs(number, each.sources))
        followers.setdefault(topic, set()).update(_pairs(number, each.destinations))
    return {
        topic: {
            LEADER_THROTTLED_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_THROTTLED_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in leaders
    }


def brokers_of(copying: Mapping[TopicPartition, Copying]) -> set[int]:
    """Return the brokers that send or receive a copy."""
    return {broker for each in copying.values() for broker in each.sources | each.destinations}


def _pairs(number: int, brokers: Iterable[int]) -> list[str]:
    return [f"{number}:{broker}" for broker in brokers]
