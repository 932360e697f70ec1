"""ShareFetch (78) and ShareAcknowledge (79), versions 1-2: wire messages to requests of members, and answers back.

Both do all that must be done before the connection's next request first: the session counts the request, and what is acknowledged is on
its way to be written. Of a long request, whose connection is held, that is done in slices, else at once. The rest is a coroutine.
Acknowledgements are answered when they are written; those of a fetch before it waits for records.

The handlers are called as cold handlers are (:mod:`esp.broker.connections.dispatcher`), with the share partitions in place of the services.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from kio.schema.share_acknowledge.v2 import response as acknowledge_response
from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse
from kio.schema.share_fetch.v2 import response as fetch_response
from kio.schema.share_fetch.v2.request import ShareFetchRequest
from kio.schema.share_fetch.v2.response import ShareFetchResponse
from kio.schema.types import BrokerId
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from esp.broker.groups.wire import milliseconds
from esp.broker.request import ClientContext, Request
from esp.broker.share.leaders import Pending, ShareLeaders
from esp.broker.share.pending_fetch import PendingShareFetch
from esp.broker.share.requests import Acknowledgements, Answers, PartitionAnswer, ShareAcknowledging, ShareFetch
from esp.broker.waiting import Waiters
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE, NodeId, TopicId
from esp.protocol.progress import AT_ONCE_ELEMENTS, Progress, SlicedWork, whole
from esp.share.acknowledgements import AcknowledgementBatch
from esp.share.acquiring import AcquireMode
from esp.share.sessions import FINAL_EPOCH, SessionKey, ShareSession, WantedPartition

_NO_ID: Final = TopicId(UUID(int=0))
_LEADER_MOVED: Final = frozenset((ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch))


Response = TypeVar("Response")
Later = Coroutine[Any, Any, Response | SlicedWork[Response]]
Begun = SlicedWork[Later[Response]] | Later[Response]
"""The result of a handler."""


def handle_share_fetch(
    leaders: ShareLeaders, request: Request, message: ShareFetchRequest
) -> Begun[ShareFetchResponse]:
    """Begin, and answer when there is something to answer."""
    work = _begin_fetch(leaders, request, message)
    return work if request.client.hold.is_held else whole(work)


def handle_share_acknowledge(
    leaders: ShareLeaders, request: Request, message: ShareAcknowledgeRequest
) -> Begun[ShareAcknowledgeResponse]:
    """Begin, and answer when all is written.

    Raises:
        ApiError: the request is refused.
    """
    work = _begin_acknowledging(leaders, request, message)
    return work if request.client.hold.is_held else whole(work)


def _begin_fetch(
    leaders: ShareLeaders, request: Request, message: ShareFetchRequest
) -> SlicedWork[Later[ShareFetchResponse]]:
    try:
        asked = yield from _decode_fetch(message)
        session = yield from leaders.begin_fetch(request, asked)
    except ApiError as error:
        return _refuse_fetch(leaders, request, message, error)
    pending = yield from leaders.acknowledge(request, asked.acknowledging)
    if asked.acknowledging.epoch == FINAL_EPOCH:
        leaders.end_session(session)
    return _fetch(leaders, request, asked, session, pending)


def _begin_acknowledging(
    leaders: ShareLeaders, request: Request, message: ShareAcknowledgeRequest
) -> SlicedWork[Later[ShareAcknowledgeResponse]]:
    words = yield from _words((topic.topic_id, topic.partitions) for topic in message.topics)
    asked = ShareAcknowledging(_key_of(message), message.share_session_epoch, words, message.is_renew_ack)
    session = leaders.begin_acknowledging(asked)
    pending = yield from leaders.acknowledge(request, asked)
    if asked.epoch == FINAL_EPOCH:
        leaders.end_session(session)
    return _acknowledge(leaders, request, asked, pending)


async def _refuse_fetch(
    leaders: ShareLeaders, request: Request, message: ShareFetchRequest, error: ApiError
) -> ShareFetchResponse:
    # After this error a client asks again at once.
    if error.code is ErrorCode.share_session_limit_reached and not request.is_abandoned:
        waiting = Waiters(leaders.clock)
        request.on_abandoned = waiting.wake
        await waiting.wait(max(0, milliseconds(message.max_wait)) * 1000)
        request.on_abandoned = None
    return _fetch_response((), error=error)


async def _fetch(
    leaders: ShareLeaders, request: Request, asked: ShareFetch, session: ShareSession, pending: Pending
) -> SlicedWork[ShareFetchResponse]:
    answers = await _results(pending)
    throttle_ms = 0
    if asked.acknowledging.epoch != FINAL_EPOCH and not asked.acknowledging.is_renewing:
        fetch = PendingShareFetch(leaders, request, asked, session)
        for partition, answer in (await fetch.run()).items():
            acknowledged = answers.get(partition)
            if acknowledged is not None:
                answer.acknowledge_error = acknowledged.acknowledge_error
                answer.acknowledge_message = acknowledged.acknowledge_message
            answers[partition] = answer
        throttle_ms = fetch.throttle_ms
    return _fetched(leaders, request, session, answers, throttle_ms)


def _fetched(
    leaders: ShareLeaders, request: Request, session: ShareSession, answers: Answers, throttle_ms: int
) -> SlicedWork[ShareFetchResponse]:
    leading = _Leading(leaders, request.client)
    topics: dict[TopicId, list[fetch_response.PartitionData]] = {}
    progress = Progress(AT_ONCE_ELEMENTS)
    for partition, answer in answers.items():
        if progress.count_one():
            yield
        topics.setdefault(partition.topic_id, []).append(_fetched_of(leading, partition, answer))
    return _fetch_response(
        tuple(
            fetch_response.ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
        endpoints=tuple(fetch_response.NodeEndpoint(**_endpoint_fields(*each)) for each in leading.endpoints()),
        lock_ms=leaders.lock_duration_ms(session.key.group_id),
        throttle_ms=throttle_ms,
    )


def _fetch_response(
    responses: tuple[fetch_response.ShareFetchableTopicResponse, ...],
    *,
    endpoints: tuple[fetch_response.NodeEndpoint, ...] = (),
    error: ApiError | None = None,
    lock_ms: int = 0,
    throttle_ms: int = 0,
) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time=_as_time(throttle_ms),
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message or None,
        acquisition_lock_timeout=_as_time(lock_ms),
        responses=responses,
        node_endpoints=endpoints,
    )


async def _acknowledge(
    leaders: ShareLeaders, request: Request, asked: ShareAcknowledging, pending: Pending
) -> SlicedWork[ShareAcknowledgeResponse]:
    return _acknowledged(leaders, request, asked, await _results(pending))


def _acknowledged(
    leaders: ShareLeaders, request: Request, asked: ShareAcknowledging, answers: Answers
) -> SlicedWork[ShareAcknowledgeResponse]:
    leading = _Leading(leaders, request.client)
    topics: dict[TopicId, list[acknowledge_response.PartitionData]] = {}
    progress = Progress(AT_ONCE_ELEMENTS)
    for partition, answer in answers.items():
        if progress.count_one():
            yield
        leader = leading.fields(partition, answer.acknowledge_error)
        topics.setdefault(partition.topic_id, []).append(
            acknowledge_response.PartitionData(
                partition_index=i32(partition.partition),
                error_code=answer.acknowledge_error,
                error_message=answer.acknowledge_message,
                current_leader=acknowledge_response.LeaderIdAndEpoch(**leader),
            )
        )
    return ShareAcknowledgeResponse(
        throttle_time=_as_time(0),
        error_code=ErrorCode.none,
        error_message=None,
        acquisition_lock_timeout=_as_time(leaders.lock_duration_ms(asked.key.group_id)),
        responses=tuple(
            acknowledge_response.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
        node_endpoints=tuple(
            acknowledge_response.NodeEndpoint(**_endpoint_fields(*each)) for each in leading.endpoints()
        ),
    )


async def _results(pending: Pending) -> Answers:
    """The answers about all partitions of which records were acknowledged, once each is written or has failed."""
    answers: Answers = {}
    for partition, result in pending.items():
        answers[partition] = (
            PartitionAnswer(acknowledge_error=await result) if isinstance(result, asyncio.Future) else result
        )
    return answers


# Requests.


def _key_of(message: Any) -> SessionKey:
    return SessionKey(message.group_id or "", message.member_id or "")


def _decode_fetch(message: ShareFetchRequest) -> SlicedWork[ShareFetch]:
    """The request apart from the wire. Raises ApiError: INVALID_REQUEST."""
    mode = int(message.share_acquire_mode)
    if mode not in tuple(AcquireMode):
        raise ApiError(ErrorCode.invalid_request, f"Share acquire mode {mode} is not known.")
    words = yield from _words((topic.topic_id, topic.partitions) for topic in message.topics)
    wanted = yield from _partitions(
        (_topic_id(topic.topic_id), partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
    )
    forgotten = yield from _partitions(
        (_topic_id(topic.topic_id), partition)
        for topic in message.forgotten_topics_data
        for partition in topic.partitions
    )
    return ShareFetch(
        ShareAcknowledging(_key_of(message), message.share_session_epoch, words, message.is_renew_ack),
        wanted,
        forgotten,
        milliseconds(message.max_wait),
        message.min_bytes,
        message.max_bytes,
        message.max_records if message.max_bytes > 0 else 0,  # Kafka gives no records for no bytes
        message.batch_size,
        AcquireMode(mode),
    )


def _partitions(named: Iterable[tuple[TopicId, int]]) -> SlicedWork[list[WantedPartition]]:
    found = []
    progress = Progress(AT_ONCE_ELEMENTS)
    for each in named:
        if progress.count_one():
            yield
        found.append(WantedPartition(*each))
    return found


def _words(topics: Iterable[tuple[UUID | None, Iterable[Any]]]) -> SlicedWork[Acknowledgements]:
    words: dict[WantedPartition, list[AcknowledgementBatch]] = {}
    progress = Progress(AT_ONCE_ELEMENTS)
    for topic_id, partitions in topics:
        for partition in partitions:
            if progress.count_one():
                yield
            batches = []
            for batch in partition.acknowledgement_batches:
                if progress.count_one():
                    yield
                batches.append(AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types))
            if batches:
                words.setdefault(WantedPartition(_topic_id(topic_id), partition.partition_index), []).extend(batches)
    return words


def _topic_id(topic_id: UUID | None) -> TopicId:
    return _NO_ID if topic_id is None else TopicId(topic_id)


# Answers.


class _Leading:
    """The leaders that a client is told of, where it asks a node that does not lead.

    Args:
        leaders: knows the metadata.
        client: sees other nodes by the listener that it uses.
    """

    def __init__(self, leaders: ShareLeaders, client: ClientContext) -> None:
        self._metadata = leaders.metadata
        self._listener = client.listener
        self._named: dict[NodeId, None] = {}
        """The leaders that the answer names."""

    def _find(self, partition: WantedPartition) -> tuple[NodeId, int]:
        topic = self._metadata.image.topics_by_id.get(partition.topic_id)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return NO_NODE, -1
        state = topic.partitions[partition.partition]
        return self._metadata.leader(state), state.leader_epoch

    def fields(self, partition: WantedPartition, error: ErrorCode) -> dict[str, Any]:
        """The fields of the current leader, in the answer about a partition."""
        leader, epoch = NO_NODE, -1
        if error in _LEADER_MOVED:
            leader, epoch = self._find(partition)
            self._named[leader] = None
        return {"leader_id": i32(leader), "leader_epoch": i32(epoch)}

    def endpoints(self) -> Iterable[tuple[NodeId, str, int, str | None]]:
        """The addresses of all leaders that were named."""
        for node, address in self._metadata.endpoints(self._listener) if self._named else ():
            if node in self._named:
                yield node, address.host, address.port, self._metadata.rack(node)


def _endpoint_fields(node: NodeId, host: str, port: int, rack: str | None) -> dict[str, Any]:
    return {"node_id": BrokerId(node), "host": host, "port": i32(port), "rack": rack}


def _fetched_of(leading: _Leading, partition: WantedPartition, answer: PartitionAnswer) -> fetch_response.PartitionData:
    error = answer.error if answer.error is not ErrorCode.none else answer.acknowledge_error
    return fetch_response.PartitionData(
        partition_index=i32(partition.partition),
        error_code=answer.error,
        error_message=None,
        acknowledge_error_code=i16(answer.acknowledge_error),
        acknowledge_error_message=answer.acknowledge_message,
        current_leader=fetch_response.LeaderIdAndEpoch(**leading.fields(partition, error)),
        records=cast("Records", answer.records),
        acquired_records=tuple(
            fetch_response.AcquiredRecords(
                first_offset=i64(piece.start_offset),
                last_offset=i64(piece.end_offset - 1),
                delivery_count=i16(piece.delivery_count),
            )
            for piece in answer.acquired
        ),
    )


def _as_time(duration_ms: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=duration_ms))
