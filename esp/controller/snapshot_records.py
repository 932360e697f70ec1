"""An image as records: the content of a snapshot of the metadata log (KIP-630).

Replayed onto nothing they give the image again, to the last field and in the same order (RAFT-33). The order of the kinds is Kafka's.
"""

import uuid
from collections.abc import Iterator, Mapping

from esp.controller.floor_records import floor_records
from esp.controller.image import BrokerImage, ClusterImage, ControllerImage, FeatureRange, TopicImage
from esp.controller.trash_records import trash_record
from esp.model.acl import AclBinding
from esp.model.client_quotas import QuotaEntity
from esp.model.delegation_token import DelegationToken
from esp.model.ids import NO_BROKER_EPOCH, NO_NODE
from esp.model.partition import PartitionState
from esp.model.scram import ScramCredential, ScramMechanism
from esp.ports.network import Address
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    RECOVERED,
    RECOVERING,
    TOPIC_RESOURCE,
    AccessControlEntryRecord,
    BrokerEndpoint,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityData,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
    TopicRecord,
    UserScramCredentialRecord,
)


def snapshot_records(image: ClusterImage) -> Iterator[MetadataRecord]:
    """The records that make ``image`` out of nothing."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for trashed in image.trashed_topics.values():  # before the others: one of them may have the name
        yield from _topic(trashed.topic)
        yield from _resource_configs(TOPIC_RESOURCE, trashed.topic.name, trashed.topic.configs)
        yield trash_record(trashed)
    for topic in image.topics_by_id.values():
        yield from _topic(topic)
    yield from _configs(image)
    for entity, quotas in image.client_quotas.items():
        for key, value in quotas.items():
            yield client_quota_record(entity, key, value)
    if image.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=NO_NODE, broker_epoch=NO_BROKER_EPOCH, next_producer_id=image.next_producer_id
        )
    for acl_id, binding in image.acls.items():
        yield acl_record(acl_id, binding)
    for (user, mechanism), credential in image.scram_credentials.items():
        yield scram_credential_record(user, mechanism, credential)
    yield from map(delegation_token_record, image.delegation_tokens.values())


def acl_record(acl_id: uuid.UUID, binding: AclBinding) -> AccessControlEntryRecord:
    """The record that puts a rule of access in force."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def client_quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that gives an entity a quota, or, with None, takes it away."""
    return ClientQuotaRecord(
        entity=tuple(QuotaEntityData(entity_type=part.type, entity_name=part.name) for part in entity),
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def scram_credential_record(
    user: str, mechanism: ScramMechanism, credential: ScramCredential
) -> UserScramCredentialRecord:
    """The record that gives a user a credential."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def delegation_token_record(token: DelegationToken) -> DelegationTokenRecord:
    """The record that makes a delegation token, or gives one other times."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expiry_ms,
        token_id=token.token_id,
    )


def _broker(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        is_migrating_zk_broker=False,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_endpoints(broker.endpoints, broker.security_protocols),
        features=_features(broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
        registration_offset=broker.registration_offset,
    )


def _controller(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=_endpoints(controller.endpoints, controller.security_protocols),
        features=_features(controller.features),
    )


def _topic(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    yield from map(partition_record, topic.partitions)


def partition_record(partition: PartitionState) -> PartitionRecord:
    """The record that makes a partition what it is."""
    return PartitionRecord(
        partition_id=partition.partition,
        topic_id=partition.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=RECOVERING if partition.recovering else RECOVERED,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
        start_offset=partition.start_offset,
        restored_epoch=partition.restored_epoch,
    )


def _configs(image: ClusterImage) -> Iterator[ConfigRecord]:
    for name, configs in image.broker_configs.items():
        yield from _resource_configs(BROKER_RESOURCE, name, configs)
    for topic in image.topics_by_id.values():
        yield from _resource_configs(TOPIC_RESOURCE, topic.name, topic.configs)
    for name, floors in image.offset_floors.items():
        yield from floor_records(name, floors)
    for name, configs in image.group_configs.items():
        yield from _resource_configs(GROUP_RESOURCE, name, configs)
    for name, configs in image.client_metrics_configs.items():
        yield from _resource_configs(CLIENT_METRICS_RESOURCE, name, configs)


def _resource_configs(resource_type: int, resource: str, configs: Mapping[str, str]) -> Iterator[ConfigRecord]:
    for name, value in configs.items():
        yield ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)


def _endpoints(addresses: Mapping[str, Address], protocols: Mapping[str, int]) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        BrokerEndpoint(name=name, host=address.host, port=address.port, security_protocol=protocols[name])
        for name, address in addresses.items()
    )


def _features(features: Mapping[str, FeatureRange]) -> tuple[SupportedFeature, ...]:
    return tuple(
        SupportedFeature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
        for name, levels in features.items()
    )
