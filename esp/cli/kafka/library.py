"""kafka-python, as the tools use it: the one place that imports it.

It warns when it is imported, logs what its callers are told anyway, and lacks codecs that are installed. It has no type information: all
that comes from here is ``Any``, and what leaves the modules ``kafka_…`` is of types of our own.

Codecs for kafka-python.

It compresses gzip by itself and takes snappy, lz4 and zstd from three further packages. Where they are not installed it gets ours, which
frame the same (:mod:`esp.records.compression`), so that every codec works with what is installed anyway. kafka-python has no way to
register a codec; what it looks up at call time is set here, in one place, and a test sends every codec through it.
"""

import logging
import warnings
from functools import partial
from types import ModuleType
from typing import Any, Final

from esp.records.compression import Codec, compress, decompress

DECOMPRESSED_LIMIT: Final = 1024 * 1024 * 1024
"""Bytes of one batch's records; more than any client's memory is meant for."""


def lend_codecs(codec: ModuleType, default_records: ModuleType) -> None:
    """Give kafka-python the codecs that it lacks.

    Args:
        codec: its module ``kafka.codec``.
        default_records: its module ``kafka.record.default_records``, which holds names of the former.
    """
    for name, number in (("snappy", Codec.SNAPPY), ("lz4", Codec.LZ4), ("zstd", Codec.ZSTD)):
        if getattr(codec, f"has_{name}")():
            continue
        setattr(codec, name, codec)  # what has_...() asks: whether the package's module is there
        for module in (codec, default_records):
            setattr(module, f"{name}_encode", partial(compress, number))
            setattr(module, f"{name}_decode", partial(_decode, number))


def _decode(number: Codec, payload: bytes) -> bytes:
    return decompress(number, payload, DECOMPRESSED_LIMIT)


def deliver_last_bytes(transport: type) -> None:
    """Have a kind of kafka-python's transports deliver what came with the end of a connection, which it drops: a refused log-in.

    The end is found again when the transport reads the next time.
    """
    receive: Any = transport._sock_recv  # type: ignore[attr-defined]  # noqa: SLF001 - the library has no other way

    def receive_all(self: Any) -> tuple[bytes, Exception | None]:
        data, error = receive(self)
        return data, None if data else error

    transport._sock_recv = receive_all  # type: ignore[attr-defined]  # noqa: SLF001


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it loads its schemas by a deprecated function of importlib
    import kafka.codec
    import kafka.record.default_records
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewPartitions
    from kafka.errors import (
        BrokerResponseError,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        IncompatibleBrokerVersion,
        KafkaConnectionError,
        KafkaError,
        KafkaTimeoutError,
        NodeNotReadyError,
        NotCoordinatorError,
        NotLeaderForPartitionError,
        OffsetOutOfRangeError,
        RequestTimedOutError,
        SaslAuthenticationFailedError,
        TopicAuthorizationFailedError,
        UnknownBrokerIdError,
        UnsupportedSaslMechanismError,
    )
    from kafka.errors import for_code as error_for_code
    from kafka.future import Future
    from kafka.net.compat import KafkaNetClient
    from kafka.net.inet import KafkaNetSocket
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.sasl import register_sasl_mechanism
    from kafka.net.sasl.abc import SaslMechanism as SaslMechanismOfLibrary
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.protocol.admin import (
        AlterPartitionReassignmentsRequest,
        AlterReplicaLogDirsRequest,
        AlterUserScramCredentialsRequest,
        CreateAclsRequest,
        DeleteAclsRequest,
        DeleteGroupsRequest,
        DeleteRecordsRequest,
        DescribeAclsRequest,
        DescribeClientQuotasRequest,
        DescribeConfigsRequest,
        DescribeGroupsRequest,
        DescribeLogDirsRequest,
        DescribeProducersRequest,
        DescribeQuorumRequest,
        DescribeTransactionsRequest,
        DescribeUserScramCredentialsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        ListConfigResourcesRequest,
        ListGroupsRequest,
        ListPartitionReassignmentsRequest,
        ListTransactionsRequest,
    )
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import FetchRequest, OffsetSpec
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
    from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, WriteTxnMarkersRequest
    from kafka.structs import OffsetAndMetadata

    from esp.cli.kafka import schemas

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
        """Groups of KIP-848 are to be described."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
        """The groups."""


logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").propagate = False
lend_codecs(kafka.codec, kafka.record.default_records)
for _transport in (KafkaTCPTransport, KafkaSSLTransport):
    deliver_last_bytes(_transport)

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterReplicaLogDirsRequest",
    "AlterUserScramCredentialsRequest",
    "BrokerResponseError",
    "ConsumerGroupDescribeRequest",
    "ConsumerProtocolAssignment",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "CreateAclsRequest",
    "DeleteAclsRequest",
    "DeleteGroupsRequest",
    "DeleteRecordsRequest",
    "DescribeAclsRequest",
    "DescribeClientQuotasRequest",
    "DescribeConfigsRequest",
    "DescribeGroupsRequest",
    "DescribeLogDirsRequest",
    "DescribeProducersRequest",
    "DescribeQuorumRequest",
    "DescribeTransactionsRequest",
    "DescribeUserScramCredentialsRequest",
    "ElectLeadersRequest",
    "FetchRequest",
    "FindCoordinatorRequest",
    "Future",
    "IncompatibleBrokerVersion",
    "IncrementalAlterConfigsRequest",
    "InitProducerIdRequest",
    "KafkaAdminClient",
    "KafkaConnectionError",
    "KafkaConnectionManager",
    "KafkaConsumer",
    "KafkaError",
    "KafkaNetClient",
    "KafkaNetSocket",
    "KafkaProducer",
    "KafkaTimeoutError",
    "ListConfigResourcesRequest",
    "ListGroupsRequest",
    "ListPartitionReassignmentsRequest",
    "ListTransactionsRequest",
    "MetadataRequest",
    "NetworkSelector",
    "NewPartitions",
    "NodeNotReadyError",
    "NotCoordinatorError",
    "NotLeaderForPartitionError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "OffsetSpec",
    "ProduceRequest",
    "RequestTimedOutError",
    "SaslAuthenticationFailedError",
    "SaslMechanismOfLibrary",
    "TopicAuthorizationFailedError",
    "TopicPartition",
    "UnknownBrokerIdError",
    "UnsupportedSaslMechanismError",
    "WriteTxnMarkersRequest",
    "error_for_code",
    "kafka",
    "register_sasl_mechanism",
]
