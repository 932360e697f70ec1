"""Sends dead letters to the leaders of dead-letter queues, this node among them, as a producer with acks=all.

One way for all leaders means that one set of rules decides about a letter wherever its queue is led: codec, size, keys, and the broker's
permission to write to the topic.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, cast

from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v13.response import ProduceResponse
from kio.static.primitive import Records, i16, i32, i32Timedelta

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.connections.peer import PeerUnavailableError
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.replication.partition_leader import ALL_REPLICAS
from esp.settings.broker import BrokerSettings
from esp.settings.topic_overrides import resolve_topic_settings
from esp.share.dead_letters import Destination

TIMEOUT_MS: Final = 30_000
"""The time for an answer, in which the leader waits for its followers: the default of Kafka's ``request.timeout.ms``."""

_TIMEOUT: Final = i32Timedelta.parse(timedelta(milliseconds=TIMEOUT_MS))


class LetterPost:
    """See the module.

    Args:
        metadata: as clients are told.
        peers: the brokers of the cluster, this one too.
        settings: returns the node's settings in effect.
        create_topic: has a dead-letter queue created, and waits for that.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        peers: BrokerPeers,
        settings: Callable[[], BrokerSettings],
        create_topic: Callable[[str], Awaitable[ErrorCode]],
    ) -> None:
        self._metadata = metadata
        self._peers = peers
        self.settings: Final = settings
        self.create_topic: Final = create_topic

    def destination(self, topic: str) -> Destination:
        """A topic that is to be a dead-letter queue, as this node knows it."""
        found = self._metadata.image.topics_by_name.get(topic)
        if found is None:
            return Destination(topic, 0, allows_letters=False)
        settings = resolve_topic_settings(found.configs, self.settings())
        return Destination(topic, len(found.partitions), allows_letters=settings.errors_deadletterqueue_group_enable)

    async def send(self, topic: str, origin_partition: int, batch: bytes) -> ErrorCode:
        """Have letters written; NONE means that they are committed. What became of them is not known if no answer has come."""
        found = self._metadata.image.topics_by_name.get(topic)
        if found is None:
            return ErrorCode.unknown_topic_or_partition
        number = origin_partition % len(found.partitions)
        leader = self._metadata.leader(found.partitions[number])
        request = ProduceRequest(
            acks=i16(ALL_REPLICAS),
            timeout=_TIMEOUT,
            topic_data=(
                TopicProduceData(
                    topic_id=found.topic_id,
                    partition_data=(PartitionProduceData(index=i32(number), records=cast("Records", batch)),),
                ),
            ),
        )
        if leader not in self._metadata.alive:
            return ErrorCode.leader_not_available
        try:
            peer = self._peers.find(leader)
            answer: ProduceResponse = await peer.call(ApiKey.PRODUCE, request, timeout_ms=TIMEOUT_MS)
        except PeerUnavailableError:
            return ErrorCode.network_exception
        codes = [partition.error_code for each in answer.responses for partition in each.partition_responses]
        return codes[0] if codes else ErrorCode.unknown_server_error
