"""ListGroups with tagged fields of our own: a partition's leader asks coordinators up to where groups have read it (HOLD-1, HOLD-4).

A node that does not know the fields, or does not let the sender act for the cluster, answers without: it has not told anything then.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.list_groups.v5 import request as list_request
from kio.schema.list_groups.v5 import response as list_response


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTopicData:
    """Partitions of a topic, and the groups that hold their records: names and patterns."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    groups: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    partitions: tuple[int, ...] = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorData:
    """A partition of ``__consumer_offsets``, and the epoch in which the node that is asked leads it, as far as the sender knows."""

    __flexible__: ClassVar[bool] = True
    partition: int = field(metadata={"kafka_type": "int32"})
    leader_epoch: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest(list_request.ListGroupsRequest):
    """Asks for groups; or for the positions of groups in partitions, if it names coordinators."""

    held_topics: tuple[HeldTopicData, ...] = field(default=(), metadata={"tag": 10000})
    coordinators: tuple[CoordinatorData, ...] = field(default=(), metadata={"tag": 10001})


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionData:
    """The first offset of a partition that a group has not read."""

    __flexible__: ClassVar[bool] = True
    group_id: str = field(metadata={"kafka_type": "string"})
    topic: str = field(metadata={"kafka_type": "string"})
    partition: int = field(metadata={"kafka_type": "int32"})
    offset: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPositionsData:
    """The positions that were asked for, as far as one coordinator knows them."""

    __flexible__: ClassVar[bool] = True
    partition: int = field(metadata={"kafka_type": "int32"})
    positions: tuple[PositionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse(list_response.ListGroupsResponse):
    """Has groups; or what those coordinators know that lead in the epochs that were named, and have read their logs."""

    coordinators: tuple[CoordinatorPositionsData, ...] | None = field(default=None, metadata={"tag": 10000})
