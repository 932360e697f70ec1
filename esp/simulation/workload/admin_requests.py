"""The requests of simulated administrators about leaders, brokers and voters, each in one line for its sender."""

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest, Listener
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i8, i32, i32Timedelta, u16

from esp.model.ids import METADATA_TOPIC
from esp.ports.network import Address
from esp.protocol.trash import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest
from esp.settings.addresses import DEFAULT_CONTROLLER_LISTENER

DESCRIBE_QUORUM_VERSION: Final = 2
ADD_RAFT_VOTER_VERSION: Final = 1
REMOVE_RAFT_VOTER_VERSION: Final = 0
ELECT_LEADERS_VERSION: Final = 2
UNREGISTER_BROKER_VERSION: Final = 0
ALTER_PARTITION_REASSIGNMENTS_VERSION: Final = 1
LIST_PARTITION_REASSIGNMENTS_VERSION: Final = 0
INCREMENTAL_ALTER_CONFIGS_VERSION: Final = 1

TOPIC: Final = 2
BROKER: Final = 4

PREFERRED: Final = 0
UNCLEAN: Final = 1


def describe_quorum() -> DescribeQuorumRequest:
    """Ask for the voters and the observers."""
    partition = PartitionData(partition_index=i32(0))
    return DescribeQuorumRequest(topics=(TopicData(topic_name=TopicName(METADATA_TOPIC), partitions=(partition,)),))


def add_voter(
    node_id: int, directory_id: uuid.UUID, address: Address, *, timeout_s: float, waits: bool
) -> AddRaftVoterRequest:
    """Make an observer a voter; the answer comes when that is committed if ``waits``, else when the leader has written it."""
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout=_duration(timeout_s),
        voter_id=i32(node_id),
        voter_directory_id=directory_id,
        listeners=(Listener(name=DEFAULT_CONTROLLER_LISTENER, host=address.host, port=u16(address.port)),),
        ack_when_committed=waits,
    )


def remove_voter(node_id: int, directory_id: uuid.UUID) -> RemoveRaftVoterRequest:
    """Make a voter an observer."""
    return RemoveRaftVoterRequest(cluster_id=None, voter_id=i32(node_id), voter_directory_id=directory_id)


def elect_leaders(election: int, wanted: Iterable[tuple[str, int]] | None, timeout_s: float) -> ElectLeadersRequest:
    """Elect leaders of partitions; None for all of them."""
    return ElectLeadersRequest(
        election_type=i8(election),
        topic_partitions=None
        if wanted is None
        else tuple(TopicPartitions(topic=TopicName(name), partitions=(i32(number),)) for name, number in wanted),
        timeout=_duration(timeout_s),
    )


def reassign(
    topic: str, partition: int, replicas: Iterable[int] | None, timeout_s: float
) -> AlterPartitionReassignmentsRequest:
    """Give a partition other replicas; None cancels that."""
    wanted = None if replicas is None else tuple(map(BrokerId, replicas))
    reassignable = ReassignablePartition(partition_index=i32(partition), replicas=wanted)
    return AlterPartitionReassignmentsRequest(
        timeout=_duration(timeout_s),
        topics=(ReassignableTopic(name=TopicName(topic), partitions=(reassignable,)),),
    )


def list_trash(timeout_s: float) -> ListPartitionReassignmentsRequest:
    """Ask for the topics in the trash."""
    return ListPartitionReassignmentsRequest(timeout=_duration(timeout_s), topics=(), with_trash=True)


def change_trash(action: int, topic_id: uuid.UUID, timeout_s: float) -> AlterPartitionReassignmentsRequest:
    """Restore or purge a topic."""
    return AlterPartitionReassignmentsRequest(
        timeout=_duration(timeout_s), topics=(), trash_action=action, trash_topic_id=topic_id
    )


def unregister_broker(node_id: int) -> UnregisterBrokerRequest:
    """Forget a broker."""
    return UnregisterBrokerRequest(broker_id=BrokerId(node_id))


def alter_configs(kind: int, changes: Mapping[str, Mapping[str, str | None]]) -> IncrementalAlterConfigsRequest:
    """Give settings of topics or brokers other values; None removes one. The broker without a name stands for all of them."""
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(
                resource_type=i8(kind),
                resource_name=resource,
                configs=tuple(
                    AlterableConfig(name=name, config_operation=i8(1 if value is None else 0), value=value)
                    for name, value in values.items()
                ),
            )
            for resource, values in changes.items()
        ),
        validate_only=False,
    )


def _duration(seconds: float) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(seconds=seconds))
