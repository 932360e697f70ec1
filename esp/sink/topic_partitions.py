"""The partitions of the topic that rows are written to."""

from esp.consumer.cluster import Cluster
from esp.consumer.errors import NO_ERROR, ConsumerError, describe


def count_partitions(cluster: Cluster, topic: str) -> int:
    """Return the number of a topic's partitions.

    Raises:
        ConsumerError: the topic is not there, or may not be seen.
    """
    info = cluster.describe([topic])[topic]
    if info.error != NO_ERROR or not info.leaders:
        raise ConsumerError(f"option topic={topic}: {describe(info.error)}: create the topic, or correct the option")
    return len(info.leaders)
