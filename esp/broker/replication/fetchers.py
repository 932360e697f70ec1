"""The fetchers of a node, one for each broker that it follows, and the assignment of partitions to them."""

import logging
from collections.abc import Callable, Iterable

from esp.broker.connections.peer import Peer
from esp.broker.replication.fetcher import FollowerHost, ReplicaFetcher
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.controller.image import ClusterImage
from esp.model.ids import BrokerEpoch, NodeId
from esp.ports.env import Env
from esp.ports.network import Address
from esp.settings.broker import BrokerSettings

log = logging.getLogger(__name__)


class ReplicaFetchers:
    """Makes a fetcher when the first partition follows a broker, and ends it when the last one does so no more.

    Args:
        env: the outside.
        settings: the node's own.
        broker_epoch: this node's, as registered last.
        tasks: where the fetchers live.
        host: the host of the replicas.
    """

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        broker_epoch: Callable[[], BrokerEpoch],
        tasks: Tasks,
        host: FollowerHost,
    ) -> None:
        self._env = env
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._tasks = tasks
        self._host = host
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._sources: dict[HostedPartition, NodeId] = {}

    def follow(self, hosted: HostedPartition, image: ClusterImage) -> None:
        """Fetch for ``hosted`` from the leader that its follower's role names."""
        assert hosted.follower is not None
        self.forget(hosted)
        source = hosted.follower.state.leader
        self._sources[hosted] = source
        fetcher = self._fetchers.get(source) or self._make(source, image)
        if fetcher is not None:
            fetcher.follow(hosted)

    def forget(self, hosted: HostedPartition) -> None:
        """Fetch for ``hosted`` no more, if it is fetched."""
        source = self._sources.pop(hosted, None)
        fetcher = None if source is None else self._fetchers.get(source)
        if fetcher is not None:
            fetcher.forget(hosted)

    def update(self, image: ClusterImage, changed_brokers: Iterable[NodeId]) -> None:
        """Take over the brokers' addresses, and end the fetchers that are not needed any more."""
        for source in changed_brokers:
            fetcher = self._fetchers.get(source)
            if fetcher is not None and fetcher.peer.address == self._address(source, image):
                fetcher.retry_now()
                continue
            if fetcher is not None:
                fetcher.close()
                del self._fetchers[source]
            for hosted in [hosted for hosted, followed in self._sources.items() if followed == source]:
                self.follow(hosted, image)
        for source, fetcher in tuple(self._fetchers.items()):
            if not len(fetcher):
                fetcher.close()
                del self._fetchers[source]

    def close(self) -> None:
        """Fetch nothing more."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._sources.clear()

    def _make(self, source: NodeId, image: ClusterImage) -> ReplicaFetcher | None:
        """A fetcher for a broker; None while the metadata does not say where it is."""
        address = self._address(source, image)
        if address is None:
            log.warning("node %d has no address on the inter-broker listener", source)
            return None
        peer = Peer(
            self._env,
            address,
            client_id=f"broker-{self._settings.node_id}-fetcher",
            terms=self._settings.inter_broker_terms,
        )
        fetcher = self._fetchers[source] = ReplicaFetcher(
            self._env, self._settings, source, peer, self._broker_epoch, self._tasks, self._host
        )
        return fetcher

    def _address(self, source: NodeId, image: ClusterImage) -> Address | None:
        broker = image.brokers.get(source)
        listener = self._settings.inter_broker_listener_name
        return None if broker is None or listener is None else broker.endpoints.get(listener)
