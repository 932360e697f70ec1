"""Requests to share coordinators, and their results, in the messages of InitializeShareGroupState (83), ReadShareGroupState (84),
WriteShareGroupState (85), DeleteShareGroupState (86) and ReadShareGroupStateSummary (87), in the newest versions.

A message is about one group: requests to one coordinator go in one message for each group and API. Answers are told apart by topic id and
partition, so that a message has one question about a share partition at most.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.delete_share_group_state.v0 import request as delete_request
from kio.schema.delete_share_group_state.v0 import response as delete_response
from kio.schema.initialize_share_group_state.v0 import request as initialize_request
from kio.schema.initialize_share_group_state.v0 import response as initialize_response
from kio.schema.read_share_group_state.v0 import request as read_request
from kio.schema.read_share_group_state.v0 import response as read_response
from kio.schema.read_share_group_state_summary.v1 import request as summary_request
from kio.schema.read_share_group_state_summary.v1 import response as summary_response
from kio.schema.write_share_group_state.v1 import request as write_request
from kio.schema.write_share_group_state.v1 import response as write_response
from kio.static.primitive import i8, i16, i32, i64

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.coordinator.requests import Delete, Done, Initialize, Read, ReadSummary, Refused, Request, Result, Write
from esp.share.persister import PersistedRead, PersistedSummary

NO_TOPIC_ID: Final = uuid.UUID(int=0)

_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.fenced_leader_epoch: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.fenced_state_epoch: (
        "The share coordinator rejected the request because the share-group state epoch did not match."
    ),
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.not_coordinator: "This is not the correct coordinator.",
    ErrorCode.coordinator_load_in_progress: "The coordinator is loading and hence can't process requests.",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
}
"""Kafka's usual texts."""


class _Shape(NamedTuple):
    """The messages of one kind of request."""

    request: Any
    topic: Any
    partition: Any
    response: Any
    topic_result: Any
    partition_result: Any
    fields: Callable[[Any], dict[str, Any]]
    """Returns the fields of a partition in a request."""
    result_fields: Callable[[Any], dict[str, Any]]
    """Returns the fields of a partition's result beside its error; of no result those that Kafka has beside an error."""
    read: Callable[[ShareStateKey, Any], Request]
    read_result: Callable[[Any], Result]


def build_request(requests: Sequence[Request]) -> Any:
    """One message of requests of one kind about share partitions of one group."""
    shape = _SHAPES[type(requests[0])]
    by_topic: dict[uuid.UUID, list[Any]] = {}
    for request in requests:
        partition = shape.partition(partition=i32(request.key.partition), **shape.fields(request))
        by_topic.setdefault(request.key.topic_id, []).append(partition)
    return shape.request(
        group_id=requests[0].key.group_id,
        topics=tuple(shape.topic(topic_id=each, partitions=tuple(some)) for each, some in by_topic.items()),
    )


def kind_of(message: Any) -> type[Request]:
    """The kind of the requests in a message."""
    return _KINDS[type(message)]


def read_request_message(message: Any) -> Iterator[tuple[ShareStateKey, Request | Refused]]:
    """The requests in a message, in its order; in place of those that say what cannot be, a refusal."""
    shape = _SHAPES[kind_of(message)]
    for topic in message.topics:
        for partition in topic.partitions:
            key = ShareStateKey(message.group_id, TopicId(topic.topic_id or NO_TOPIC_ID), int(partition.partition))
            try:
                yield key, shape.read(key, partition)
            except ValueError as error:
                yield key, Refused(ErrorCode.invalid_request, str(error))


def build_response(kind: type[Request], results: Iterable[tuple[ShareStateKey, Result]]) -> Any:
    """The answer to a message of requests of this kind; topics in the order in which they come first."""
    shape = _SHAPES[kind]
    by_topic: dict[uuid.UUID, list[Any]] = {}
    for key, result in results:
        error, text = (ErrorCode.none, None) if not isinstance(result, Refused) else _told(result)
        each = shape.partition_result(
            partition=i32(key.partition), error_code=error, error_message=text, **shape.result_fields(result)
        )
        by_topic.setdefault(key.topic_id, []).append(each)
    return shape.response(
        results=tuple(shape.topic_result(topic_id=each, partitions=tuple(some)) for each, some in by_topic.items())
    )


def read_response_message(kind: type[Request], group_id: str, message: Any) -> dict[ShareStateKey, Result]:
    """The results in an answer; UNKNOWN_SERVER_ERROR in place of those that say what cannot be."""
    shape = _SHAPES[kind]
    results: dict[ShareStateKey, Result] = {}
    for topic in message.results:
        for partition in topic.partitions:
            key = ShareStateKey(group_id, TopicId(topic.topic_id or NO_TOPIC_ID), int(partition.partition))
            if partition.error_code is not ErrorCode.none:
                results[key] = Refused(ErrorCode(partition.error_code), partition.error_message)
                continue
            try:
                results[key] = shape.read_result(partition)
            except ValueError as error:
                results[key] = Refused(ErrorCode.unknown_server_error, str(error))
    return results


def _told(refused: Refused) -> tuple[ErrorCode, str | None]:
    return refused.error, refused.message or _MESSAGES.get(refused.error)


def _batches(types: Any, batches: Iterable[StateBatch]) -> tuple[Any, ...]:
    return tuple(
        types.StateBatch(
            first_offset=i64(batch.start_offset),
            last_offset=i64(batch.end_offset - 1),
            delivery_state=i8(batch.state),
            delivery_count=i16(batch.delivery_count),
        )
        for batch in batches
    )


def _read_batches(batches: Iterable[Any]) -> tuple[StateBatch, ...]:
    """The batches of a message; ValueError for a state that does not exist."""
    return tuple(
        StateBatch(
            int(batch.first_offset),
            int(batch.last_offset) + 1,
            RecordState(batch.delivery_state),
            int(batch.delivery_count),
        )
        for batch in batches
    )


def _read_result(result: Result) -> dict[str, Any]:
    if not isinstance(result, PersistedRead):
        return {"state_epoch": i32(0), "start_offset": i64(0), "state_batches": ()}
    return {
        "state_epoch": i32(result.state_epoch),
        "start_offset": i64(result.start_offset),
        "state_batches": _batches(read_response, result.batches),
    }


def _summary_result(result: Result) -> dict[str, Any]:
    if not isinstance(result, PersistedSummary):
        return {"state_epoch": i32(0), "leader_epoch": i32(0), "start_offset": i64(0)}
    return {
        "state_epoch": i32(result.state_epoch),
        "leader_epoch": i32(result.leader_epoch),
        "start_offset": i64(result.start_offset),
        "delivery_complete_count": i32(result.complete_count),
    }


def _write_fields(request: Write) -> dict[str, Any]:
    return {
        "state_epoch": i32(request.state_epoch),
        "leader_epoch": i32(request.leader_epoch),
        "start_offset": i64(request.start_offset),
        "delivery_complete_count": i32(request.complete_count),
        "state_batches": _batches(write_request, request.batches),
    }


def _read_write(key: ShareStateKey, data: Any) -> Write:
    return Write(
        key,
        int(data.state_epoch),
        int(data.leader_epoch),
        int(data.start_offset),
        int(data.delivery_complete_count),
        _read_batches(data.state_batches),
    )


def _nothing(_result: object) -> dict[str, Any]:
    return {}


def _done(_data: object) -> Done:
    return Done()


_SHAPES: Final[Mapping[type[Request], _Shape]] = {
    Initialize: _Shape(
        initialize_request.InitializeShareGroupStateRequest,
        initialize_request.InitializeStateData,
        initialize_request.PartitionData,
        initialize_response.InitializeShareGroupStateResponse,
        initialize_response.InitializeStateResult,
        initialize_response.PartitionResult,
        lambda request: {"state_epoch": i32(request.state_epoch), "start_offset": i64(request.start_offset)},
        _nothing,
        lambda key, data: Initialize(key, int(data.state_epoch), int(data.start_offset)),
        _done,
    ),
    Read: _Shape(
        read_request.ReadShareGroupStateRequest,
        read_request.ReadStateData,
        read_request.PartitionData,
        read_response.ReadShareGroupStateResponse,
        read_response.ReadStateResult,
        read_response.PartitionResult,
        lambda request: {"leader_epoch": i32(request.leader_epoch)},
        _read_result,
        lambda key, data: Read(key, int(data.leader_epoch)),
        lambda data: PersistedRead(int(data.state_epoch), int(data.start_offset), _read_batches(data.state_batches)),
    ),
    Write: _Shape(
        write_request.WriteShareGroupStateRequest,
        write_request.WriteStateData,
        write_request.PartitionData,
        write_response.WriteShareGroupStateResponse,
        write_response.WriteStateResult,
        write_response.PartitionResult,
        _write_fields,
        _nothing,
        _read_write,
        _done,
    ),
    Delete: _Shape(
        delete_request.DeleteShareGroupStateRequest,
        delete_request.DeleteStateData,
        delete_request.PartitionData,
        delete_response.DeleteShareGroupStateResponse,
        delete_response.DeleteStateResult,
        delete_response.PartitionResult,
        _nothing,
        _nothing,
        lambda key, _data: Delete(key),
        _done,
    ),
    ReadSummary: _Shape(
        summary_request.ReadShareGroupStateSummaryRequest,
        summary_request.ReadStateSummaryData,
        summary_request.PartitionData,
        summary_response.ReadShareGroupStateSummaryResponse,
        summary_response.ReadStateSummaryResult,
        summary_response.PartitionResult,
        lambda _request: {"leader_epoch": i32(-1)},
        _summary_result,
        lambda key, _data: ReadSummary(key),
        lambda data: PersistedSummary(
            int(data.state_epoch), int(data.leader_epoch), int(data.start_offset), int(data.delivery_complete_count)
        ),
    ),
}

_KINDS: Final[Mapping[type, type[Request]]] = {shape.request: kind for kind, shape in _SHAPES.items()}
