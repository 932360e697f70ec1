"""The messages about the trash: those of reassignments with tagged fields of our own (TRASH-3, TRASH-5).

A node that does not know the fields, one of Kafka's say, finds no partition in such a request and does nothing. They need the permissions
that reassignments need: DESCRIBE or ALTER of the cluster.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.schema.alter_partition_reassignments.v1 import request as alter_request
from kio.schema.alter_partition_reassignments.v1 import response as alter_response
from kio.schema.list_partition_reassignments.v0 import request as list_request
from kio.schema.list_partition_reassignments.v0 import response as list_response

RESTORE: Final = 1
"""The ``trash_action`` that restores a topic."""

PURGE: Final = 2
"""The one that purges it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest(alter_request.AlterPartitionReassignmentsRequest):
    """Reassigns partitions; or restores or purges a topic in the trash."""

    trash_action: int = field(metadata={"kafka_type": "int8", "tag": 10000}, default=0)
    trash_topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid", "tag": 10001}, default=None)
    is_forced: bool = field(metadata={"kafka_type": "bool", "tag": 10002}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(alter_response.AlterPartitionReassignmentsResponse):
    """Answers a reassignment, or an action on a topic in the trash; then the error is that of the action."""

    trash_topic: str | None = field(metadata={"kafka_type": "string", "tag": 10000}, default=None)
    """The name of the topic that was restored or purged; None: nothing was."""
    offline: tuple[int, ...] = field(metadata={"kafka_type": "int32", "tag": 10001}, default=())
    """Partitions that were restored, and have no replica left that has all their records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest(list_request.ListPartitionReassignmentsRequest):
    """Asks for reassignments, and for the topics in the trash."""

    with_trash: bool = field(metadata={"kafka_type": "bool", "tag": 10000}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedData:
    """A topic in the trash."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: int = field(metadata={"kafka_type": "int32"})
    trashed_ms: int = field(metadata={"kafka_type": "int64"})
    """The wall time at which it was deleted."""
    until_ms: int = field(metadata={"kafka_type": "int64"})
    """The wall time at which it is purged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse(list_response.ListPartitionReassignmentsResponse):
    """Has reassignments, and the topics in the trash; None: it does not tell."""

    trash: tuple[TrashedData, ...] | None = field(default=None, metadata={"tag": 10000})
