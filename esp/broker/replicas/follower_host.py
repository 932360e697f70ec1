"""What a fetcher needs of the host of the replicas for which it fetches."""

import asyncio
from typing import Protocol

from esp.broker.replicas.hosted_partition import HostedPartition
from esp.broker.replicas.throttles import ReplicaThrottles


class FollowerHost(Protocol):
    """What a fetcher needs of :class:`esp.broker.replicas.host.ReplicaHost`."""

    directories_lock: asyncio.Lock
    throttles: ReplicaThrottles

    async def flush(self, hosted: HostedPartition) -> None:
        """Flush one replica's log, as far as there is room: :attr:`PartitionFollower.must_flush` tells."""

    def on_disk_error(self, hosted: HostedPartition, error: Exception) -> None:
        """A replica's log could not be changed: take its directory offline."""

    def take_offline(self, hosted: HostedPartition, error: Exception) -> None:
        """A replica cannot follow without losing records: stop it, and leave its files as they are (TRUNC-8)."""
