"""The replicas of a topic that are throttled: ``leader.replication.throttled.replicas``, ``follower.replication.throttled.replicas``.

A third setting, ``rebalance.throttled.replicas``, names the replicas that self-repair is making. It is not a setting of Kafka; only the
controller writes it.
"""

import re
from typing import Final, NamedTuple

ALL_REPLICAS: Final = "*"

REPAIRED_REPLICAS: Final = "rebalance.throttled.replicas"
"""The replicas of a topic, as ``partition:broker``, that self-repair is adding (REPAIR-4). It names the broker that gets the copy; the
leader of the partition goes by it too."""

_REPLICA: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


class ThrottledReplicas(NamedTuple):
    """The value of one of the two settings (KIP-73): all replicas of the topic, or pairs of partition and broker.

    A broker goes by the pairs that name it, in the role that the setting is for.
    """

    is_all: bool = False
    replicas: frozenset[tuple[int, int]] = frozenset()

    def covers(self, partition: int, node_id: int) -> bool:
        """True if the replica of ``partition`` on the broker ``node_id`` is meant."""
        return self.is_all or (partition, node_id) in self.replicas


NO_REPLICAS: Final = ThrottledReplicas()


def parse_throttled_replicas(parts: tuple[str, ...]) -> ThrottledReplicas:
    """The setting's value from its list, which was checked: ``*``, or ``partition:broker`` each; empty for none."""
    if not parts:
        return NO_REPLICAS
    if parts[0] == ALL_REPLICAS:
        return ThrottledReplicas(is_all=True)
    pairs = (part.split(":") for part in parts)
    return ThrottledReplicas(replicas=frozenset((int(partition), int(broker)) for partition, broker in pairs))


def read_repaired_replicas(text: str) -> ThrottledReplicas:
    """The value of ``rebalance.throttled.replicas`` from the metadata log; entries there that are no pairs do not count."""
    parts = tuple(part for part in text.split(",") if _REPLICA.fullmatch(part))
    return parse_throttled_replicas(parts)
