"""Fetch (1), versions 4-18: the hot path out.

Records leave as they stand in the segment, as views of the mapped file. A request that finds fewer than ``min_bytes`` waits on its
partitions until more is committed, for at most ``max_wait_ms``; one that needs bytes that are not in the page cache leaves the loop for
them, so that it holds up no other request. A request that names very many partitions, or has a session with as many, is answered in slices.
``read_committed`` ends at the last stable offset, which is the high watermark while there are no transactions, and names the transactions
among the records that were aborted (LSO-2). Version 13 names topics by
id; sessions are KIP-227's. Requests of other brokers are another matter (:mod:`esp.broker.replication.session`). Consumers that send their
rack (``client.rack``, version 11) may be sent to a nearer replica, and are served by followers that are in sync (KIP-392).

On the listeners of controllers: other members of the quorum fetch the metadata log, and nothing else (KIP-595).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kio.schema.fetch.v18.response import FetchResponse

from esp.broker.authorization.access import topic_name
from esp.broker.controller.services import ControllerServices
from esp.broker.data_path.fetch_sessions import FetchSession, FetchSessions
from esp.broker.data_path.long_fetch import LongFetch
from esp.broker.data_path.pending_fetch import ConsumerReads, PendingFetch
from esp.broker.raft.wire import fetching
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.session import Surroundings
from esp.broker.replication.sessions import ReplicaSessions
from esp.broker.request import LATER, Answer, Request, Unanswered
from esp.broker.services import Services
from esp.broker.tasks import Tasks
from esp.broker.turns.long_requests import LongRequests
from esp.model.acl import CLUSTER_NAME, AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.protocol.errors import DecodeError
from esp.protocol.fetch_codec import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    RACK_FROM,
    READ_COMMITTED,
    TOPIC_IDS_FROM,
    FetchPartition,
    FetchRequest,
    FetchResult,
    decode_fetch_in_slices,
    encode_fetch_response,
)
from esp.protocol.produce_codec import TopicRef
from esp.protocol.progress import AT_ONCE_ELEMENTS, SLICE_ELEMENTS, SlicedWork, begin, slices
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, request: Request, message: Any) -> FetchResponse:
    """Let the core answer, at once or when there is something new."""
    answer = await services.raft.request(fetching.decode_fetch_request(message), messages.FetchResponse)
    return fetching.encode_fetch_response(answer, request.client.listener)


class FetchHandler:
    """Answers the fetches of consumers and other brokers.

    Args:
        services: the node's parts.
        tasks: the tasks in which cold data are read.
        long_requests: the long requests, with which requests for many partitions take turns.
    """

    def __init__(self, services: Services, tasks: Tasks, long_requests: LongRequests) -> None:
        self._services = services
        self._clock = services.env.clock
        self._replicas = services.replicas
        self._tasks = tasks
        self._long_requests = long_requests
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

    def handle(self, request: Request, body: memoryview) -> Answer:
        """Answer now or later; see :meth:`esp.broker.connections.dispatcher.Dispatcher.dispatch`.

        Raises:
            DecodeError: the body is no Fetch request.
        """
        asked = begin(decode_fetch_in_slices(body, request.api_version))
        if not isinstance(asked, FetchRequest):
            self._long_requests.work(request, len(body), partial(self._answer_long, request, asked))
            return LATER
        if asked.replica_id >= 0:
            return self._answer_follower(request, asked)
        try:
            session = self._begin_session(request, asked, asked.partitions)
            if session is not None and _is_incremental(asked):
                self._sessions.update(session, asked.partitions, asked.forgotten)
        except ApiError as error:
            return encode_fetch_response(request.api_version, request.correlation_id, (), error_code=error.code)
        fetch = self._fetch(request, asked, session)
        if len(fetch) > AT_ONCE_ELEMENTS:
            long = LongFetch(fetch, request, self._clock, self._tasks, self._long_requests.turns)
            self._long_requests.work(request, len(body), partial(long.begin, asked.max_wait_ms))
            return LATER
        satisfied = fetch.read()
        if fetch.is_cold:
            self._tasks.start(fetch.read_cold_and_reply(self._long_requests.turns), name="cold fetch", for_request=True)
            return LATER
        if satisfied or asked.max_wait_ms <= 0:
            return fetch.encode()
        fetch.park(self._clock, asked.max_wait_ms)
        return LATER

    def _answer_follower(self, request: Request, asked: FetchRequest) -> Answer:
        """Answer a request that names the broker which sends it; a client that is none is refused each partition, as in Kafka."""
        acts_for_cluster = Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        if not self._services.access.refuses(request.client, acts_for_cluster):
            request.client.is_broker = True
            return self._replica_sessions.handle(request, asked)
        code = ErrorCode.topic_authorization_failed
        refused = [FetchResult(item.topic, item.partition, code) for item in asked.partitions]
        return encode_fetch_response(request.api_version, request.correlation_id, refused)

    async def _answer_long(self, request: Request, decoding: SlicedWork[FetchRequest]) -> None:
        """Answer a request of which one slice has been read, and whose connection is held."""
        turns, hold = self._long_requests.turns, request.client.hold
        try:
            asked = await turns.run(decoding)
        except DecodeError as error:
            hold.end(str(error))
            return
        if asked.replica_id >= 0:
            answer = self._answer_follower(request, asked)
            if not isinstance(answer, Unanswered):
                request.reply(answer)
            hold.end()
            return
        try:
            session = self._begin_session(request, asked, asked.partitions[:SLICE_ELEMENTS])
            if session is not None:
                for forgotten in slices(asked.forgotten):
                    await turns.wait()
                    self._sessions.update(session, (), forgotten)
                for wanted in slices(asked.partitions):
                    await turns.wait()
                    self._sessions.update(session, wanted)
        except ApiError as error:
            answer = encode_fetch_response(request.api_version, request.correlation_id, (), error_code=error.code)
            request.reply(answer)
            hold.end()
            return
        fetch = self._fetch(request, asked, session)
        await LongFetch(fetch, request, self._clock, self._tasks, turns).begin(asked.max_wait_ms)

    def _begin_session(
        self, request: Request, asked: FetchRequest, wanted: Sequence[FetchPartition]
    ) -> FetchSession[FetchPartition] | None:
        """The session that the answer belongs to: one that goes on, or a new one for what is wanted if there is room.

        Raises:
            ApiError: it cannot go on.
        """
        now_us = self._clock.monotonic_us()
        by_topic_id = request.api_version >= TOPIC_IDS_FROM
        if _is_incremental(asked):
            return self._sessions.resume(asked.session_id, asked.session_epoch, by_topic_id=by_topic_id, now_us=now_us)
        if asked.session_id != NO_SESSION:
            self._sessions.close(asked.session_id)
        if asked.session_epoch == FINAL_EPOCH:
            return None
        return self._sessions.open(wanted, by_topic_id=by_topic_id, now_us=now_us)

    def _fetch(
        self, request: Request, asked: FetchRequest, session: FetchSession[FetchPartition] | None
    ) -> PendingFetch:
        """The partitions that are to be read; in a session that goes on, all of its partitions."""
        incremental = session is not None and _is_incremental(asked)
        max_bytes, min_bytes = min(asked.max_bytes, self._max_bytes), asked.min_bytes
        meter = request.client.meter
        if meter is not None and (quota_bytes := meter.fetch_bytes_max()) is not None:
            max_bytes = min(max_bytes, quota_bytes)
            min_bytes = min(min_bytes, max_bytes)
        return PendingFetch(
            self._reads(request, asked.rack_id),
            request,
            tuple(session) if session is not None and incremental else asked.partitions,
            session,
            incremental=incremental,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            close_session=self._sessions.close,
            cpu=self._services.searching,
            read_committed=asked.isolation_level == READ_COMMITTED,
        )

    def _reads(self, request: Request, rack_id: str) -> ConsumerReads:
        """The reads that a consumer may make here, and the racks by which it learns of a nearer replica."""
        from_followers = request.api_version >= RACK_FROM
        by_rack = bool(rack_id) and self._services.settings.replica_selector_class is not None
        find = self._find if self._services.access.is_open else partial(self._find_allowed, request)
        if not by_rack:
            reads = self._plain_reads[from_followers]
            return reads if self._services.access.is_open else reads._replace(find=find)
        return ConsumerReads(
            find,
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

    def _find_allowed(self, request: Request, topic: TopicRef, partition: int) -> HostedPartition:
        """As :meth:`_find`, if the request's client may read the topic now: a session or a request that waits may be older than a rule."""
        name = topic_name(self._services.metadata.image, topic)
        if name is not None and self._services.access.refuses(
            request.client, Permission(AclOperation.READ, ResourceType.TOPIC, name)
        ):
            raise ApiError(ErrorCode.topic_authorization_failed)
        return self._find(topic, partition)

    def _find(self, topic: TopicRef, partition: int) -> HostedPartition:
        replicas = self._replicas
        here = replicas.by_topic.get(topic) if isinstance(topic, str) else replicas.by_topic_id.get(topic)
        hosted = here.get(partition) if here is not None else None
        if hosted is None:
            raise ApiError(self._services.metadata.why_not_here(topic, partition))
        return hosted


def _is_incremental(asked: FetchRequest) -> bool:
    """True if a request goes on with a session."""
    return asked.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH)
