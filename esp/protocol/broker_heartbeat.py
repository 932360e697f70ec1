"""The request of BrokerHeartbeat with a tagged field of our own, which Kafka's controllers and older ones of ours skip."""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.broker_heartbeat.v2 import request


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalEndOfPartition:
    """The end of the log of a partition whose topic is gone, and which the broker led last (FLOOR-3)."""

    __flexible__: ClassVar[bool] = True
    topic: str = field(metadata={"kafka_type": "string"})
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partition: int = field(metadata={"kafka_type": "int32"})
    end_offset: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest(request.BrokerHeartbeatRequest):
    """Version 2 of the request, and what the broker has led last."""

    final_ends: tuple[FinalEndOfPartition, ...] = field(metadata={"tag": 10000}, default=())
