"""Subscriptions of the tools' consumers that are members of groups."""

from typing import Any


def subscribe(client: Any, topic: str) -> None:
    """Have a consumer of the library share the topic's partitions with its group, and learn them before it joins.

    The library compares the partitions by which a leader of a group has assigned with those that metadata names later. Until metadata comes
    that was asked for after it subscribed, it takes them for none, so that it would join a second time. Once that second assignment is
    made it no longer sees that it has to join (kafka-python 3.0.12, ``ConsumerCoordinator.need_rejoin``): if a poll ends then, no later one
    takes the assignment. The member sends no heartbeats, commits nothing, and is expelled when its session is over.
    """
    client.subscribe([topic])
    client.topics()
