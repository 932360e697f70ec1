"""Kafka's messages with fields of our own: tagged ones, from 10000 on, far from the tags that Kafka gives out, which are counted from 0.

Kafka and its clients skip a tag that they do not know (KIP-482). Some clients do not, so an answer has such a field only if the request
has asked for it by one.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.describe_client_quotas.v1 import request as quotas_request
from kio.schema.describe_client_quotas.v1 import response as quotas_response
from kio.schema.describe_producers.v0 import request as producers_request
from kio.schema.describe_producers.v0 import response as producers_response
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest(quotas_request.DescribeClientQuotasRequest):
    """Asks for quotas, and for the clients that a broker holds to them."""

    with_held: bool = field(metadata={"kafka_type": "bool", "tag": 10000}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldData:
    """Connections of a client from an address that wait because of one quota, or an address that may open no connection now."""

    __flexible__: ClassVar[bool] = True
    key: str = field(metadata={"kafka_type": "string"})
    """The quota's."""
    entity: tuple[quotas_response.EntityData, ...]
    """The one whose quota it is."""
    user: str | None = field(metadata={"kafka_type": "string"})
    """Null, as the client id is, where an address is held."""
    client_id: str | None = field(metadata={"kafka_type": "string"})
    address: str = field(metadata={"kafka_type": "string"})
    connections: i32 = field(metadata={"kafka_type": "int32"})
    left: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """The longest time for which one of them waits still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse(quotas_response.DescribeClientQuotasResponse):
    """Has quotas, and the clients that this broker holds to them; None: it does not tell."""

    held: tuple[HeldData, ...] | None = field(default=None, metadata={"tag": 10000})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest(producers_request.DescribeProducersRequest):
    """Asks for the producers of partitions, for the clients that have transactions open in them, and for their records as a share group
    sees them."""

    with_clients: bool = field(metadata={"kafka_type": "bool", "tag": 10000}, default=False)
    share_group: str | None = field(metadata={"kafka_type": "string", "tag": 10001}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRunData:
    """Neighbours in a share partition that are alike."""

    __flexible__: ClassVar[bool] = True
    start_offset: i64 = field(metadata={"kafka_type": "int64"})
    record_count: i32 = field(metadata={"kafka_type": "int32"})
    state: i8 = field(metadata={"kafka_type": "int8"})
    delivery_count: i16 = field(metadata={"kafka_type": "int16"})
    member_id: str | None = field(metadata={"kafka_type": "string"})
    """The member that has them."""
    locked_for: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """The time since their member has acquired or renewed them; 0 without a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitionData:
    """A share partition in the memory of its partition's leader."""

    __flexible__: ClassVar[bool] = True
    start_offset: i64 = field(metadata={"kafka_type": "int64"})
    end_offset: i64 = field(metadata={"kafka_type": "int64"})
    acquired_count: i32 = field(metadata={"kafka_type": "int32"})
    letter_count: i32 = field(metadata={"kafka_type": "int32"})
    """The records whose dead letters are still to be written."""
    letters_failing_for: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """The time since letters could not be written for the first time after others were; 0 if they can."""
    span_max: i32 = field(metadata={"kafka_type": "int32"})
    """The group's ``share.partition.max.record.locks`` there."""
    attempts_max: i32 = field(metadata={"kafka_type": "int32"})
    """The group's ``share.delivery.count.limit`` there."""
    runs: tuple[ShareRunData, ...]
    """The first ones, if there are very many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState(producers_response.ProducerState):
    """A producer of a partition, with the client that began its open transaction there, as the leader saw it, if it was asked for."""

    client_id: str | None = field(metadata={"kafka_type": "string", "tag": 10000}, default=None)
    client_host: str | None = field(metadata={"kafka_type": "string", "tag": 10001}, default=None)
    """The address of the client's connection. None: it is not known, or there is no open transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse(producers_response.PartitionResponse):
    """Kafka's, with our producers, and the partition's share partition of the group that was asked for."""

    active_producers: tuple[ProducerState, ...]
    shares: tuple[SharePartitionData, ...] = field(default=(), metadata={"tag": 10000})
    """The share partition, if it is in the leader's memory. Writers of tagged fields agree on no form of a nullable struct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResponse(producers_response.TopicResponse):
    """Kafka's, with our partitions."""

    partitions: tuple[PartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse(producers_response.DescribeProducersResponse):
    """Kafka's, with our topics."""

    topics: tuple[TopicResponse, ...]
