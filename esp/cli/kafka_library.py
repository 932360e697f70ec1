"""kafka-python, as the tools use it: the one place that imports it.

It warns when it is imported, logs what its callers are told anyway, and lacks codecs that are installed. It has no type information: all
that comes from here is ``Any``, and what leaves the modules ``kafka_…`` is of types of our own.
"""

import logging
import warnings

from esp.cli.kafka_codecs import lend_codecs

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
        NotCoordinatorError,
        NotLeaderForPartitionError,
    )
    from kafka.errors import for_code as error_for_code
    from kafka.protocol.admin import (
        AlterPartitionReassignmentsRequest,
        AlterReplicaLogDirsRequest,
        DeleteGroupsRequest,
        DescribeConfigsRequest,
        DescribeGroupsRequest,
        DescribeLogDirsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        ListConfigResourcesRequest,
        ListGroupsRequest,
        ListPartitionReassignmentsRequest,
    )
    from kafka.protocol.consumer import OffsetSpec
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
    from kafka.protocol.metadata import FindCoordinatorRequest
    from kafka.structs import OffsetAndMetadata

logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").propagate = False
lend_codecs(kafka.codec, kafka.record.default_records)

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterReplicaLogDirsRequest",
    "BrokerResponseError",
    "ConsumerProtocolAssignment",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "DeleteGroupsRequest",
    "DescribeConfigsRequest",
    "DescribeGroupsRequest",
    "DescribeLogDirsRequest",
    "ElectLeadersRequest",
    "FindCoordinatorRequest",
    "IncompatibleBrokerVersion",
    "IncrementalAlterConfigsRequest",
    "KafkaAdminClient",
    "KafkaConnectionError",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "ListConfigResourcesRequest",
    "ListGroupsRequest",
    "ListPartitionReassignmentsRequest",
    "NewPartitions",
    "NotCoordinatorError",
    "NotLeaderForPartitionError",
    "OffsetAndMetadata",
    "OffsetSpec",
    "TopicPartition",
    "error_for_code",
    "kafka",
]
