"""Turns the records of the metadata log into images: the one way in which metadata changes, at restart, on standby and when leading.

Replay is deterministic: no clock, no random numbers, no order of sets (RAFT-20). The same records give the same image however they are
divided into batches and publications.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import NamedTuple

from esp.controller.draft import ClusterDraft, TopicDraft
from esp.controller.errors import InvalidMetadataError
from esp.controller.floor_records import is_floor, parse_piece, piece_number
from esp.controller.image import BrokerImage, ClusterDelta, ClusterImage, ControllerImage, FeatureRange
from esp.controller.partition_change import apply_partition_change, directory_ids
from esp.controller.trash_records import is_purge, purged_id
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.client_quotas import quota_entity
from esp.model.delegation_token import DelegationToken
from esp.model.ids import ZERO_UUID, BrokerEpoch, LeaderEpoch, NodeId, ProducerId, TopicId
from esp.model.partition import PartitionState
from esp.model.scram import ScramCredential, ScramMechanism
from esp.ports.network import Address
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    FENCE,
    GROUP_RESOURCE,
    RECOVERING,
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    SupportedFeature,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)


class ReplayPoint(NamedTuple):
    """A state of the metadata log's state machine that it can go back to.

    Besides the image it is the first ``held_count`` of the records that an open transaction holds back; ``held`` is None outside of one.
    """

    image: ClusterImage
    held: Sequence[tuple[int, MetadataRecord]] | None = None
    held_count: int = 0

    @property
    def in_transaction(self) -> bool:
        """True if a transaction was begun and not ended."""
        return self.held is not None


class MetadataReplay:
    """The state machine of the metadata log.

    ``image`` is the last published one. Records between BeginTransactionRecord and EndTransactionRecord are held back until the latter.

    Args:
        image: the state before the first record that is replayed.
    """

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self._draft = ClusterDraft(image)
        self._offset = image.offset
        self._transaction: list[tuple[int, MetadataRecord]] | None = None

    @classmethod
    def at(cls, point: ReplayPoint) -> "MetadataReplay":
        """A state machine that goes on from ``point``."""
        replay = cls(point.image)
        if point.held is not None:
            replay._transaction = list(point.held[: point.held_count])
        return replay

    def point(self) -> ReplayPoint:
        """The present state; everything that was replayed is published. It costs nothing: later records only lengthen what is held."""
        held = self._transaction
        return ReplayPoint(self.image) if held is None else ReplayPoint(self.image, held, len(held))

    @property
    def in_transaction(self) -> bool:
        """True if a transaction was begun and not ended."""
        return self._transaction is not None

    def replay(self, offset: int, record: MetadataRecord) -> None:
        """Take the next record of the log.

        Raises:
            InvalidMetadataError: it does not fit the records before it.
        """
        if isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise InvalidMetadataError(f"a transaction begins at {offset} within another")
            self._transaction = []
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if self._transaction is None:
                raise InvalidMetadataError(f"{type(record).__name__} at {offset} without a transaction")
            held, self._transaction = self._transaction, None
            if isinstance(record, EndTransactionRecord):
                for held_offset, held_record in held:
                    self._apply(held_offset, held_record)
        elif self._transaction is not None:
            self._transaction.append((offset, record))
        else:
            self._apply(offset, record)

    def publish(self, offset: int, epoch: LeaderEpoch) -> ClusterDelta:
        """Make the replayed state the image of ``offset``, whose record has ``epoch``; return the changes since the image before.

        Raises:
            InvalidMetadataError: the records left a topic half made.
        """
        assert offset >= self.image.offset, "images follow the log"
        self.image, delta = self._draft.freeze(offset, epoch)
        self._draft = ClusterDraft(self.image)
        return delta

    def _apply(self, offset: int, record: MetadataRecord) -> None:
        self._offset = offset
        self._replay(record)

    @singledispatchmethod
    def _replay(self, record: MetadataRecord) -> None:
        raise InvalidMetadataError(f"{type(record).__name__} at {self._offset} cannot be applied")

    @_replay.register
    def _replay_no_op(self, record: NoOpRecord) -> None:
        pass

    @_replay.register
    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self._draft.features.pop(record.name, None)
        else:
            self._draft.features[record.name] = record.feature_level

    @_replay.register
    def _replay_topic(self, record: TopicRecord) -> None:
        self._draft.create_topic(record.name, TopicId(record.topic_id or ZERO_UUID))

    @_replay.register
    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic_id = TopicId(record.topic_id or ZERO_UUID)
        if record.trash_until_ms < 0:
            self._draft.delete_topic(topic_id)
        else:
            self._draft.trash_topic(topic_id, record.trashed_ms, record.trash_until_ms)

    @_replay.register
    def _replay_partition(self, record: PartitionRecord) -> None:
        topic = self._draft.topic(TopicId(record.topic_id or ZERO_UUID))
        topic.changed[record.partition_id] = new_partition(record)

    @_replay.register
    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._draft.topic(TopicId(record.topic_id or ZERO_UUID))
        _change_partition(topic, record)

    @_replay.register
    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        topics = [self._draft.topic_by_name(record.topic_name)] if record.topic_name else self._draft.all_topics()
        for topic in topics:
            for partition in topic.partitions():
                if partition.elr or partition.last_known_elr:
                    _change_partition(
                        topic,
                        PartitionChangeRecord(
                            partition_id=partition.partition,
                            topic_id=topic.topic_id,
                            eligible_leader_replicas=(),
                            last_known_elr=(),
                        ),
                    )

    @_replay.register
    def _replay_config(self, record: ConfigRecord) -> None:
        name = record.resource_name
        if is_floor(record):
            piece = None if record.value is None else parse_piece(record.value)
            self._draft.change_offset_floors(name, piece_number(record), piece)
            return
        if is_purge(record):
            self._draft.purge_topic(purged_id(record))
            return
        if record.resource_type == TOPIC_RESOURCE:
            topic = self._draft.topic_by_name(name)
            topic.configs_changed = True
            _change_config(topic.configs, record)
            return
        resources = self._configured(record.resource_type)
        _change_config(resources.setdefault(name, {}), record)
        if not resources[name]:
            del resources[name]
        if record.resource_type == BROKER_RESOURCE:
            self._draft.changed_broker_configs.add(name)

    def _configured(self, resource_type: int) -> dict[str, dict[str, str]]:
        if resource_type == BROKER_RESOURCE:
            return self._draft.broker_configs
        if resource_type == GROUP_RESOURCE:
            return self._draft.group_configs
        if resource_type == CLIENT_METRICS_RESOURCE:
            return self._draft.client_metrics_configs
        raise InvalidMetadataError(f"setting of a resource of type {resource_type} at {self._offset}")

    @_replay.register
    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        node_id = NodeId(record.broker_id)
        cordoned = record.cordoned_log_dirs
        self._draft.brokers[node_id] = BrokerImage(
            node_id=node_id,
            incarnation_id=record.incarnation_id or ZERO_UUID,
            epoch=BrokerEpoch(record.broker_epoch),
            registration_offset=self._offset if record.registration_offset < 0 else record.registration_offset,
            endpoints=_addresses(record.end_points),
            security_protocols=_security_protocols(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=directory_ids(record.log_dirs),
            cordoned_log_dirs=None if cordoned is None else directory_ids(cordoned),
        )
        self._draft.changed_brokers.add(node_id)

    @_replay.register
    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        del self._draft.brokers[broker.node_id]
        self._draft.changed_brokers.add(broker.node_id)

    @_replay.register
    def _replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self._draft.brokers[broker.node_id] = replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced == FENCE,
            in_controlled_shutdown=broker.in_controlled_shutdown or bool(record.in_controlled_shutdown),
            log_dirs=directory_ids(record.log_dirs) if record.log_dirs else broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else directory_ids(cordoned),
        )
        self._draft.changed_brokers.add(broker.node_id)

    @_replay.register
    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        node_id = NodeId(record.controller_id)
        self._draft.controllers[node_id] = ControllerImage(
            node_id=node_id,
            incarnation_id=record.incarnation_id or ZERO_UUID,
            endpoints=_addresses(record.end_points),
            security_protocols=_security_protocols(record.end_points),
            features=_features(record.features),
        )

    @_replay.register
    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._draft.next_producer_id:
            raise InvalidMetadataError(
                f"producer ids go from {self._draft.next_producer_id} to {record.next_producer_id} at {self._offset}"
            )
        self._draft.next_producer_id = ProducerId(record.next_producer_id)

    @_replay.register
    def _replay_access_control_entry(self, record: AccessControlEntryRecord) -> None:
        acl_id = record.id or ZERO_UUID
        acls = self._draft.change_acls()
        if acl_id in acls:
            raise InvalidMetadataError(f"access control entry {acl_id} is there already at {self._offset}")
        try:
            acls[acl_id] = AclBinding(
                ResourceType(record.resource_type),
                record.resource_name,
                PatternType(record.pattern_type),
                record.principal,
                record.host,
                AclOperation(record.operation),
                AclPermission(record.permission_type),
            )
        except ValueError as error:
            raise InvalidMetadataError(f"access control entry at {self._offset}: {error}") from error

    @_replay.register
    def _replay_remove_access_control_entry(self, record: RemoveAccessControlEntryRecord) -> None:
        acl_id = record.id or ZERO_UUID
        acls = self._draft.change_acls()
        if acl_id not in acls:
            raise InvalidMetadataError(f"there is no access control entry {acl_id} at {self._offset}")
        del acls[acl_id]

    @_replay.register
    def _replay_client_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity((part.entity_type, part.entity_name) for part in record.entity)
        self._draft.change_client_quota(entity, record.key, None if record.remove else record.value)

    @_replay.register
    def _replay_user_scram_credential(self, record: UserScramCredentialRecord) -> None:
        self._draft.change_scram_credentials()[self._credential_key(record)] = ScramCredential(
            salt=record.salt,
            stored_key=record.stored_key,
            server_key=record.server_key,
            iterations=record.iterations,
        )

    @_replay.register
    def _replay_remove_user_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        key = self._credential_key(record)
        credentials = self._draft.change_scram_credentials()
        if key not in credentials:
            raise InvalidMetadataError(f"user {key[0]} has no {key[1].sasl_name} credential at {self._offset}")
        del credentials[key]

    def _credential_key(
        self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord
    ) -> tuple[str, ScramMechanism]:
        try:
            return record.name, ScramMechanism(record.mechanism)
        except ValueError as error:
            raise InvalidMetadataError(f"credential of user {record.name} at {self._offset}: {error}") from error

    @_replay.register
    def _replay_delegation_token(self, record: DelegationTokenRecord) -> None:
        self._draft.change_delegation_tokens()[record.token_id] = DelegationToken(
            token_id=record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=record.renewers,
            issue_ms=record.issue_timestamp,
            max_ms=record.max_timestamp,
            expiry_ms=record.expiration_timestamp,
        )

    @_replay.register
    def _replay_remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        # One that is gone already is no fault: Kafka's controller writes that twice when it is asked twice.
        self._draft.change_delegation_tokens().pop(record.token_id, None)

    def _broker(self, node_id: int, epoch: int) -> BrokerImage:
        broker = self._draft.brokers.get(NodeId(node_id))
        if broker is None or broker.epoch != epoch:
            raise InvalidMetadataError(f"broker {node_id} is not registered with epoch {epoch} at {self._offset}")
        return broker


def new_partition(record: PartitionRecord) -> PartitionState:
    """The partition that a record creates."""
    return PartitionState(
        topic_id=TopicId(record.topic_id or ZERO_UUID),
        partition=record.partition_id,
        replicas=tuple(map(NodeId, record.replicas)),
        isr=tuple(map(NodeId, record.isr)),
        leader=NodeId(record.leader),
        leader_epoch=LeaderEpoch(record.leader_epoch),
        partition_epoch=record.partition_epoch,
        directories=directory_ids(record.directories),
        adding_replicas=tuple(map(NodeId, record.adding_replicas)),
        removing_replicas=tuple(map(NodeId, record.removing_replicas)),
        elr=tuple(map(NodeId, record.eligible_leader_replicas or ())),
        last_known_elr=tuple(map(NodeId, record.last_known_elr or ())),
        recovering=record.leader_recovery_state == RECOVERING,
        start_offset=record.start_offset,
        restored_epoch=record.restored_epoch,
    )


def _change_partition(topic: TopicDraft, change: PartitionChangeRecord) -> None:
    partition = topic.find_partition(change.partition_id)
    if partition is None:
        raise InvalidMetadataError(f"topic {topic.name} has no partition {change.partition_id}")
    topic.changed[change.partition_id] = apply_partition_change(partition, change)


def _change_config(configs: dict[str, str], record: ConfigRecord) -> None:
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value


def _addresses(endpoints: Sequence[BrokerEndpoint]) -> Mapping[str, Address]:
    return {endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in endpoints}


def _security_protocols(endpoints: Sequence[BrokerEndpoint]) -> Mapping[str, int]:
    return {endpoint.name: endpoint.security_protocol for endpoint in endpoints}


def _features(features: Sequence[SupportedFeature]) -> Mapping[str, FeatureRange]:
    return {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version) for feature in features
    }
