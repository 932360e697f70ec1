"""The replicas that their brokers have stopped rather than cut them (TRUNC-8): the controller must be told, so that none is elected."""

import contextlib
from collections.abc import Callable, Iterator

from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.ids import NodeId, TopicId

Key = tuple[TopicId, int]


class StoppedReplicas:
    """Remembers when each was stopped; a process that ends, or puts the replica aside, ends that.

    Args:
        hosted_on: the replica of a partition that a living node has open, or None.
        now_s: the simulation's clock.
    """

    def __init__(self, hosted_on: Callable[[NodeId, Key], object | None], now_s: Callable[[], float]) -> None:
        self._hosted_on = hosted_on
        self._now_s = now_s
        self._stopped_s: dict[object, float] = {}

    def note(self, hosted: object) -> None:
        """A replica is stopped now."""
        self._stopped_s.setdefault(hosted, self._now_s())

    def since_s(self, node_id: NodeId, key: Key) -> float | None:
        """The time since which the replica that a living node has of a partition has been stopped; None if it is not."""
        hosted = self._hosted_on(node_id, key)
        return None if hosted is None else self._stopped_s.get(hosted)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all brokers of this process from outside, until the block ends."""
        take_offline = ReplicaHost.take_offline

        def watch(host: ReplicaHost, hosted: HostedPartition, error: Exception) -> None:
            self.note(hosted)
            take_offline(host, hosted, error)

        ReplicaHost.take_offline = watch  # type: ignore[method-assign, assignment]  # of the class
        try:
            yield
        finally:
            ReplicaHost.take_offline = take_offline  # type: ignore[method-assign]
