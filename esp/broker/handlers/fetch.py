"""Fetch (1), versions 4-18: the hot path out.

Records leave as they stand in the segment, as views of the mapped file. A request that finds fewer than ``min_bytes`` waits on its
partitions until more is committed, for at most ``max_wait_ms``; one that needs bytes that are not in the page cache leaves the loop for
them, so that it holds up nobody else. ``read_committed`` ends at the last stable offset, which is the high watermark while there are no
transactions. Version 13 names topics by id; sessions are KIP-227's. Requests of other brokers are another matter
(:mod:`esp.broker.replicas.session`). Consumers that say where they are (``client.rack``, version 11) may be sent to a nearer replica, and
are served by followers that are in sync (KIP-392).
"""

from collections.abc import Sequence

from esp.broker.connections.request import Request
from esp.broker.data_path.fetch_sessions import FetchSession, FetchSessions
from esp.broker.data_path.pending_fetch import ConsumerReads, PendingFetch
from esp.broker.replicas.hosted_partition import HostedPartition
from esp.broker.replicas.session import Surroundings
from esp.broker.replicas.sessions import ReplicaSessions
from esp.broker.services import Services
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError
from esp.model.ids import NodeId
from esp.ports.network import Buffer
from esp.protocol.fetch_codec import RACK_FROM, TOPIC_IDS_FROM, FetchPartition, decode_fetch, encode_fetch_response
from esp.protocol.fetch_metadata import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from esp.protocol.produce_codec import TopicRef


class FetchHandler:
    """Answers what consumers and other brokers ask for.

    Args:
        services: the node's parts.
        tasks: where reads of cold data live.
    """

    def __init__(self, services: Services, tasks: Tasks) -> None:
        self._services = services
        self._clock = services.env.clock
        self._replicas = services.replicas
        self._tasks = tasks
        self._max_bytes = services.settings.fetch_max_bytes
        self._sessions: FetchSessions[FetchPartition] = FetchSessions(
            services.env.random, services.settings.max_incremental_fetch_session_cache_slots
        )
        self._plain_reads = {
            allowed: ConsumerReads(self._find, services.is_current, allowed) for allowed in (False, True)
        }
        self._replica_sessions = ReplicaSessions(
            Surroundings(
                services.node_id,
                services.env.clock,
                tasks,
                self._find,
                services.replicas.may_join,
                services.replicas.throttles.leader,
            ),
            services.env.random,
            self._max_bytes,
            lambda node: node in services.metadata.image.brokers,
        )

    def handle(self, request: Request, body: memoryview) -> Sequence[Buffer] | None:
        """Answer now or later; see :meth:`esp.broker.connections.dispatcher.Dispatcher.dispatch`.

        Raises:
            DecodeError: the body is no Fetch request.
        """
        version = request.api_version
        asked = decode_fetch(body, version)
        if asked.replica_id >= 0:
            return self._replica_sessions.handle(request, asked)
        try:
            session, wanted, incremental = self._resolve_session(
                asked.session_id, asked.session_epoch, asked.partitions, asked.forgotten, version >= TOPIC_IDS_FROM
            )
        except ApiError as error:
            return encode_fetch_response(version, request.correlation_id, (), error_code=error.code)
        fetch = PendingFetch(
            self._reads(request, asked.rack_id),
            request,
            wanted,
            session,
            incremental=incremental,
            min_bytes=asked.min_bytes,
            max_bytes=min(asked.max_bytes, self._max_bytes),
        )
        satisfied = fetch.read()
        if fetch.is_cold:
            self._tasks.start(fetch.read_cold_and_reply(), name="cold fetch")
            return None
        if satisfied or asked.max_wait_ms <= 0:
            return fetch.encode()
        fetch.park(self._clock, asked.max_wait_ms)
        return None

    def _resolve_session(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[FetchPartition],
        forgotten: Sequence[tuple[str | bytes, int]],
        by_topic_id: bool,
    ) -> tuple[FetchSession[FetchPartition] | None, Sequence[FetchPartition], bool]:
        """The session that the answer belongs to, the partitions to read, and whether the answer carries news only."""
        now_us = self._clock.monotonic_us()
        sessions = self._sessions
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                sessions.close(session_id)
            if epoch == FINAL_EPOCH:
                return None, wanted, False
            return sessions.open(wanted, by_topic_id=by_topic_id, now_us=now_us), wanted, False
        session = sessions.resume(session_id, epoch, by_topic_id=by_topic_id, now_us=now_us)
        session.update(wanted, forgotten)
        return session, tuple(session), True

    def _reads(self, request: Request, rack_id: str) -> ConsumerReads:
        """What a consumer may read here, and how it learns of a nearer replica."""
        from_followers = request.api_version >= RACK_FROM
        if not rack_id or self._services.settings.replica_selector_class is None:
            return self._plain_reads[from_followers]
        return ConsumerReads(
            self._find,
            self._services.is_current,
            from_followers,
            rack_id,
            lambda node: self._rack(node, request.client.listener),
        )

    def _rack(self, node: NodeId, listener: str) -> str | None:
        """The rack of a broker that the consumer could fetch from."""
        metadata = self._services.metadata
        broker = metadata.image.brokers.get(node)
        if broker is None or node not in metadata.alive or listener not in broker.endpoints:
            return None
        return broker.rack

    def _find(self, topic: TopicRef, partition: int) -> HostedPartition:
        replicas = self._replicas
        here = replicas.by_topic.get(topic) if isinstance(topic, str) else replicas.by_topic_id.get(topic)
        hosted = here.get(partition) if here is not None else None
        if hosted is None:
            raise ApiError(self._services.metadata.why_not_here(topic, partition))
        return hosted
