"""Which replicas of a topic are throttled: ``leader.replication.throttled.replicas`` and ``follower.replication.throttled.replicas``."""

from typing import Final, NamedTuple

ALL_REPLICAS: Final = "*"


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
