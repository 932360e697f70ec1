"""Which replicas of a topic are throttled: ``leader.replication.throttled.replicas`` and ``follower.replication.throttled.replicas``.

And which of them self-repair makes: ``rebalance.throttled.replicas``, which is none of Kafka's, and nobody's but the controller's to set.
"""

import re
from typing import Final, NamedTuple

ALL_REPLICAS: Final = "*"

REPAIRED_REPLICAS: Final = "rebalance.throttled.replicas"
"""The replicas of a topic, as ``partition:broker``, that self-repair is adding (REPAIR-4). It names the broker that gets the copy; whoever
leads the partition goes by it too."""

_REPLICA: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


class ThrottledReplicas(NamedTuple):
    """The value of one of the two settings (KIP-73): all replicas of the topic, or pairs of partition and broker.

    A broker goes by the pairs that name it, in whichever role the setting is for.
    """

    is_all: bool = False
    replicas: frozenset[tuple[int, int]] = frozenset()

    def covers(self, partition: int, node_id: int) -> bool:
        """Whether the replica of ``partition`` on the broker ``node_id`` is meant."""
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
    """The value of ``rebalance.throttled.replicas`` from the metadata log; what is no pair there does not count."""
    parts = tuple(part for part in text.split(",") if _REPLICA.fullmatch(part))
    return parse_throttled_replicas(parts)
