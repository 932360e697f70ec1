"""The base of every client of a cluster: knows brokers and leaders, refreshes that, keeps one connection to each broker."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

from esp.controller.image import TopicImage
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.ports.network import Address, Network
from esp.protocol.registry import ApiKey
from esp.simulation.workload import requests
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.survey_requests import build, grow

METADATA_TIMEOUT_S: Final = 5.0
GROW_TIMEOUT_S: Final = 5.0
GROW_VERSION: Final = 2

UNREACHED_MAX_S: Final = 30.0
"""The time without any connection after which a client is patient: longer than most deaths and cuts last, shorter than an outage."""

RECONNECT_S: Final = 1.0
"""``reconnect.backoff.max.ms`` of real clients."""


class Leadership(NamedTuple):
    """The leader of a partition and its epoch, as far as the client knows."""

    node_id: int
    leader_epoch: int


class ClusterClient:
    """A client's metadata, and its connections.

    Args:
        network: as the client's host sees it.
        bootstrap: addresses to begin with.
        name: the client id.
        rng: the client's own stream of randomness.
    """

    def __init__(self, network: Network, bootstrap: Sequence[Address], name: str, rng: Random) -> None:
        self.name = name
        self.topic_ids: dict[str, TopicId] = {}
        self.leaders: dict[tuple[str, int], Leadership] = {}
        self.keeps_epochs = False
        """True if a leader that does not answer stays known until a newer one is, as with real clients (KIP-320).

        One that forgets goes where lagging brokers send it: worse than any real one, while there are faults.
        """
        self._doubted: dict[tuple[str, int], None] = {}
        self._network = network
        self._bootstrap = tuple(bootstrap)
        self._rng = rng
        self._brokers: dict[int, Address] = {}
        self.avoided: frozenset[Address] = frozenset()
        """Asked only if no other will do."""
        self._connections: dict[Address, ClientConnection] = {}
        self._unreached_s: float | None = None
        """The time of the first of the attempts to connect that have all failed since; None after one that has not."""

    async def refresh(self, topics: Sequence[str]) -> None:
        """Ask any broker, known or of the beginning, that is not avoided, for the brokers and for the leaders of some topics.

        Raises:
            NoAnswerError: the one that was asked does not answer.
        """
        connection = await self.any_broker()
        answer = await connection.call(
            ApiKey.METADATA, requests.METADATA_VERSION, requests.metadata(topics), METADATA_TIMEOUT_S
        )
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error_code is ErrorCode.none and topic.topic_id is not None:
                self._take(topic)
            elif topic.error_code is ErrorCode.unknown_topic_or_partition:
                self.topic_ids.pop(topic.name, None)

    def _take(self, topic: Any) -> None:
        if self.topic_ids.get(topic.name) != topic.topic_id:
            self.topic_ids[topic.name] = topic.topic_id
            for known in [known for known in self.leaders if known[0] == topic.name]:
                del self.leaders[known]
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            before = self.leaders.get(key)
            if before is None or partition.leader_epoch >= before.leader_epoch:  # brokers may lag (KIP-320)
                self.leaders[key] = Leadership(partition.leader_id, partition.leader_epoch)

    async def leader(self, topic: str, partition: int) -> tuple[ClientConnection, Leadership]:
        """A connection to the leader.

        Raises:
            NoAnswerError: it is unknown, or not to be reached.
        """
        if (topic, partition) not in self.leaders or (topic, partition) in self._doubted:
            await self.refresh([topic])
            self._doubted.pop((topic, partition), None)
        leadership = self.leaders.get((topic, partition))
        address = self._brokers.get(leadership.node_id) if leadership is not None else None
        if leadership is None or address is None:
            self.forget_leader(topic, partition)
            raise NoAnswerError("the leader is unknown")
        return await self.connect(address), leadership

    def address_of(self, node_id: int) -> Address | None:
        """The address of a broker, if it is known."""
        return self._brokers.get(node_id)

    async def any_broker(self) -> ClientConnection:
        """A connection to any broker that is not avoided, if there is one. Raises NoAnswerError."""
        every = dict.fromkeys((*self._brokers.values(), *self._bootstrap))
        known = [address for address in every if address not in self.avoided] or list(every)
        return await self.connect(known[self._rng.randrange(len(known))])

    async def add_partition(self, topic: TopicImage) -> ErrorCode:
        """Ask any broker for one more partition of a topic; returns its answer. Raises NoAnswerError."""
        request = build(ApiKey.CREATE_PARTITIONS, GROW_VERSION, grow(topic.name, len(topic.partitions) + 1))
        connection = await self.any_broker()
        answer = await connection.call(ApiKey.CREATE_PARTITIONS, GROW_VERSION, request, GROW_TIMEOUT_S)
        return ErrorCode(answer.results[0].error_code)

    async def connect(self, address: Address) -> ClientConnection:
        """The connection to an address. Raises NoAnswerError."""
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            try:
                connection = await ClientConnection.open(self._network, address, self.name)
            except NoAnswerError:
                await self._back_off()
                raise
            self._unreached_s = None
            raced = self._connections.get(address)
            if raced is not None and not raced.is_closed:
                connection.close()
                return raced
            self._connections[address] = connection
        return connection

    async def _back_off(self) -> None:
        """Wait a while if no broker could be reached for long: dozens of clients would else try hundreds of times in an outage's second."""
        now_s = asyncio.get_running_loop().time()
        if self._unreached_s is None:
            self._unreached_s = now_s
        elif now_s - self._unreached_s > UNREACHED_MAX_S:
            await asyncio.sleep(RECONNECT_S)

    def forget_leader(self, topic: str, partition: int) -> None:
        """Ask anew before the next request for the partition."""
        if self.keeps_epochs:
            self._doubted[topic, partition] = None
        else:
            self.leaders.pop((topic, partition), None)

    def leave_connections(self) -> list[ClientConnection]:
        """Use other connections from now on; those so far stay open, and are the caller's."""
        left, self._connections = list(self._connections.values()), {}
        return left

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections.values():
            connection.close()
