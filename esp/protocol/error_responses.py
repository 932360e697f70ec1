"""The answer that carries only an error, for any API whose answers have a place for one.

Most answers have an ``error_code`` of their own; everything else in them is left at its default. In the others each element has one, and
there is an element for each that the request names, as in Kafka.
"""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from esp.model.errors import ApiError, ErrorCode
from esp.protocol.entity_fields import Entity, entity_fields
from esp.protocol.messages import load_class
from esp.protocol.progress import Progress, SlicedWork, whole
from esp.protocol.registry import SERVED, ApiKey

_Content = Mapping[str, Any]
"""Fields of a struct by name; a list of structs is a list of these."""


def error_response(api_key: int, version: int, request: Any, error: ApiError) -> Any:
    """An instance of the API's response model class that refuses the whole ``request``, an instance of its request model class."""
    return whole(error_response_in_slices(api_key, version, request, error))


def refused_elements(api_key: int, version: int, request: Any, error: ApiError) -> Any:
    """An answer that refuses each element of a ``request``, and says nothing of the whole; the elements of others are merged into it."""
    api = SERVED[api_key]
    model = load_class(api, api.response_model(version), "response")
    elements = _ELEMENTS.get(api_key) or _REFUSED_SINGLY[api_key]
    answer = whole(_build(model, elements(request), error, Progress()))
    fields = model.__dataclass_fields__
    untouched = {name: value for name, value in _NO_ERROR.items() if name in fields}
    return dataclasses.replace(answer, **untouched) if untouched else answer


def error_response_in_slices(api_key: int, version: int, request: Any, error: ApiError) -> SlicedWork[Any]:
    """Make the result of :func:`error_response`."""
    api = SERVED[api_key]
    model = load_class(api, api.response_model(version), "response")
    elements = _ELEMENTS.get(api_key)
    if elements is None:
        assert "error_code" in model.__dataclass_fields__, f"an answer to {api.name} has no place for an error"
    return _build(model, {} if elements is None else elements(request), error, Progress())


def _build(entity: type[Entity], content: _Content, error: ApiError, progress: Progress) -> SlicedWork[Any]:
    values: dict[str, Any] = {}
    for field in entity_fields(entity):
        if field.name in ("error_code", "partition_error_code"):
            values[field.name] = error.code
        elif field.name == "error_message":
            values[field.name] = error.message
        elif field.name not in content:
            values[field.name] = field.implied_default()
        elif field.entity is None:
            values[field.name] = content[field.name]
        else:
            built = []
            for element in content[field.name]:
                if progress.count_one():
                    yield
                built.append((yield from _build(field.entity, element, error, progress)))
            values[field.name] = tuple(built)
    return entity(**values)


def _no_protocol(_request: Any) -> _Content:
    return {"protocol_name": "", "members": ()}  # versions up to 6 have no null


def _topics_to_create(request: Any) -> _Content:
    return {"topics": [{"name": name, "configs": ()} for name in dict.fromkeys(topic.name for topic in request.topics)]}


def _topics_with_partitions(request: Any) -> _Content:
    return {
        "topics": [
            {
                "name": getattr(topic, "name", None),
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": [{"partition_index": partition.partition_index} for partition in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _topics_to_cut(request: Any) -> _Content:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": partition.partition_index, "low_watermark": -1}
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _topics_with_epochs(request: Any) -> _Content:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [{"partition": partition.partition} for partition in topic.partitions]}
            for topic in request.topics
        ]
    }


def _topics_with_indexes(request: Any) -> _Content:
    return {
        "topics": [
            {"name": topic.name, "partitions": [{"partition_index": index} for index in topic.partition_indexes]}
            for topic in request.topics
        ]
    }


def _groups_to_describe(request: Any) -> _Content:
    return {"groups": [{"group_id": group_id} for group_id in request.groups]}


def _consumer_groups_to_describe(request: Any) -> _Content:
    return {"groups": [{"group_id": group_id} for group_id in request.group_ids]}


def _share_groups_to_describe(request: Any) -> _Content:
    return {"groups": [{"group_id": group.group_id, "topics": ()} for group in request.groups]}


def _share_offsets_to_alter(request: Any) -> _Content:
    return {
        "responses": [
            {
                "topic_name": topic.topic_name,
                "partitions": [{"partition_index": partition.partition_index} for partition in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _share_offsets_to_delete(request: Any) -> _Content:
    return {"responses": [{"topic_name": topic.topic_name} for topic in request.topics]}


def _groups_to_delete(request: Any) -> _Content:
    return {"results": [{"group_id": group_id} for group_id in request.groups_names]}


def _transactions_to_describe(request: Any) -> _Content:
    return {
        "transaction_states": [
            {"transactional_id": transactional_id, "topics": ()} for transactional_id in request.transactional_ids
        ]
    }


def _replicas_to_move(request: Any) -> _Content:
    return {
        "results": [
            {
                "topic_name": topic.name,
                "partitions": [{"partition_index": partition} for partition in topic.partitions],
            }
            for directory in request.dirs
            for topic in directory.topics
        ]
    }


def _markers_to_write(request: Any) -> _Content:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [{"partition_index": index} for index in topic.partition_indexes],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.markers
        ]
    }


def _states_of_share_partitions(request: Any) -> _Content:
    return {
        "results": [
            {
                "topic_id": topic.topic_id,
                "partitions": [{"partition": partition.partition} for partition in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _topics_to_delete(request: Any) -> _Content:
    if not hasattr(request, "topics"):  # before version 6
        return {"responses": [{"name": name} for name in request.topic_names]}
    return {"responses": [{"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics]}


def _acls_to_create(request: Any) -> _Content:
    return {"results": [{} for _ in request.creations]}


def _acls_to_delete(request: Any) -> _Content:
    return {"filter_results": [{} for _ in request.filters]}


def _quotas_to_alter(request: Any) -> _Content:
    return {
        "entries": [
            {"entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]}
            for entry in request.entries
        ]
    }


def _credentials_to_alter(request: Any) -> _Content:
    users = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    return {"results": [{"user": user} for user in users]}


def _topics_to_grow(request: Any) -> _Content:
    return {"results": [{"name": topic.name} for topic in request.topics]}


def _topics_to_describe(request: Any) -> _Content:
    return {"topics": [{"name": topic.name} for topic in request.topics]}


def _partitions_to_elect(request: Any) -> _Content:
    return {
        "replica_election_results": [
            {"topic": topic.topic, "partition_result": [{"partition_id": partition} for partition in topic.partitions]}
            for topic in request.topic_partitions or ()
        ]
    }


def _partitions_to_reassign(request: Any) -> _Content:
    return {
        "responses": [
            {
                "name": topic.name,
                "partitions": [{"partition_index": partition.partition_index} for partition in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _altered_resources(request: Any) -> _Content:
    return {"responses": _resources(request)}


def _described_resources(request: Any) -> _Content:
    return {"results": _resources(request)}


def _resources(request: Any) -> list[_Content]:
    return [
        {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        for resource in request.resources
    ]


def _partitions_to_add(request: Any) -> _Content:
    if hasattr(request, "transactions"):
        return {}
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [{"partition_index": partition} for partition in topic.partitions],
            }
            for topic in request.v3_and_below_topics
        ]
    }


_ELEMENTS: Final[Mapping[int, Callable[[Any], _Content]]] = {
    ApiKey.JOIN_GROUP: _no_protocol,
    ApiKey.CREATE_TOPICS: _topics_to_create,
    ApiKey.OFFSET_COMMIT: _topics_with_partitions,
    ApiKey.TXN_OFFSET_COMMIT: _topics_with_partitions,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _replicas_to_move,
    ApiKey.WRITE_TXN_MARKERS: _markers_to_write,
    ApiKey.DELETE_TOPICS: _topics_to_delete,
    ApiKey.CREATE_ACLS: _acls_to_create,
    ApiKey.DELETE_ACLS: _acls_to_delete,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials_to_alter,
    ApiKey.CREATE_PARTITIONS: _topics_to_grow,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas_to_alter,
    ApiKey.DESCRIBE_CONFIGS: _described_resources,
    ApiKey.ALTER_CONFIGS: _altered_resources,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _topics_to_describe,
    ApiKey.ELECT_LEADERS: _partitions_to_elect,  # version 0 has no error for the whole
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _partitions_to_reassign,
    ApiKey.SHARE_GROUP_DESCRIBE: _consumer_groups_to_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _share_groups_to_describe,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _states_of_share_partitions,
    ApiKey.READ_SHARE_GROUP_STATE: _states_of_share_partitions,
    ApiKey.WRITE_SHARE_GROUP_STATE: _states_of_share_partitions,
    ApiKey.DELETE_SHARE_GROUP_STATE: _states_of_share_partitions,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _states_of_share_partitions,
    ApiKey.ADD_PARTITIONS_TO_TXN: _partitions_to_add,  # versions up to 3 have no error for the whole
}
"""The elements of an answer that have errors of their own, beside an error for the whole or in place of it."""

_REFUSED_SINGLY: Final[Mapping[int, Callable[[Any], _Content]]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: _topics_with_partitions,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _topics_with_epochs,
        ApiKey.DELETE_RECORDS: _topics_to_cut,
        ApiKey.OFFSET_DELETE: _topics_with_partitions,
        ApiKey.DESCRIBE_PRODUCERS: _topics_with_indexes,
        ApiKey.DESCRIBE_GROUPS: _groups_to_describe,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_groups_to_describe,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: _share_offsets_to_alter,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: _share_offsets_to_delete,
        ApiKey.DELETE_GROUPS: _groups_to_delete,
        ApiKey.DESCRIBE_TRANSACTIONS: _transactions_to_describe,
    }
)
"""The elements of answers that have errors of their own where single ones are refused; no error of the whole stands at them."""

_NO_ERROR: Final[Mapping[str, Any]] = {"error_code": ErrorCode.none, "error_message": None}
