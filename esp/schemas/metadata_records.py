"""The records of the metadata log: Kafka's KRaft records (KIP-631, KIP-966), as kio-style entities.

Only the records that ESP writes or must be able to replay are here. Each class is the shape that Kafka 4.3 gives the record at
metadata.version 30; the versions of a record that share the shape, so that one class reads them all, stand in
:mod:`esp.schemas.metadata_frames`.
Tagged fields have explicit defaults and are omitted from the bytes at their default. A uuid of zero is None, as everywhere in kio.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType
from kio.static.primitive import i16

NO_LEADER_CHANGE: Final = -2
"""``PartitionChangeRecord.leader`` when the record leaves the leader, and with it the leader epoch, alone."""

NO_RECOVERY_CHANGE: Final = -1
"""``PartitionChangeRecord.leader_recovery_state`` when the record leaves it alone."""

RECOVERED: Final = 0
RECOVERING: Final = 1

NEVER_RESTORED: Final = -1
"""``PartitionRecord.restored_epoch`` of a topic that was never in the trash."""

FENCE: Final = 1
UNFENCE: Final = -1
"""``BrokerRegistrationChangeRecord.fenced``; 0 leaves it alone."""

IN_CONTROLLED_SHUTDOWN: Final = 1

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
"""``ConfigRecord.resource_type``; a broker resource without a name is the default of the whole cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where a broker or controller listens."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    port: int = field(metadata={"kafka_type": "uint16"})
    security_protocol: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeature:
    """The levels of a feature that a broker or controller can work with."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    min_supported_version: int = field(metadata={"kafka_type": "int16"})
    max_supported_version: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker has registered; it replaces any earlier registration of the id."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    is_migrating_zk_broker: bool = field(metadata={"kafka_type": "bool"})
    incarnation_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None = field(metadata={"kafka_type": "string"})
    fenced: bool = field(metadata={"kafka_type": "bool"})
    in_controlled_shutdown: bool = field(metadata={"kafka_type": "bool"})
    log_dirs: tuple[uuid.UUID | None, ...] = field(metadata={"kafka_type": "uuid", "tag": 0}, default=())
    cordoned_log_dirs: tuple[uuid.UUID | None, ...] | None = field(
        metadata={"kafka_type": "uuid", "tag": 1}, default=None
    )
    registration_offset: int = field(metadata={"kafka_type": "int64", "tag": 10000}, default=-1)
    """Our own, in snapshots only: where the record stood in the log. Kafka skips tags that it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker is no longer part of the cluster."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic was created; its partitions follow."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition was created; ``directories`` runs parallel to ``replicas``."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata={"kafka_type": "int32"})
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    isr: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    removing_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    adding_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    leader: int = field(metadata={"kafka_type": "int32"})
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=RECOVERED)
    leader_epoch: int = field(metadata={"kafka_type": "int32"})
    partition_epoch: int = field(metadata={"kafka_type": "int32"})
    directories: tuple[uuid.UUID | None, ...] = field(metadata={"kafka_type": "uuid"})
    eligible_leader_replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 1}, default=None)
    last_known_elr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 2}, default=None)
    start_offset: int = field(metadata={"kafka_type": "int64", "tag": 10000}, default=0)
    """Our own: the offset at which the partition's log begins, where that is not 0 (FLOOR-2)."""
    restored_epoch: int = field(metadata={"kafka_type": "int32", "tag": 10001}, default=NEVER_RESTORED)
    """Our own: the leader epoch that began when the topic was restored from the trash; -1, it never was (TRASH-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting of a topic or broker has a new value; None takes it away."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    resource_type: int = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    name: str = field(metadata={"kafka_type": "string"})
    value: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition has changed. What is given replaces the whole of its field.

    The record carries no epochs: each one raises the partition epoch by 1, and the leader epoch by 1 when ``leader`` is given, also when it
    names the same leader (REPLICATION ISR-8).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata={"kafka_type": "int32"})
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    isr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 0}, default=None)
    leader: int = field(metadata={"kafka_type": "int32", "tag": 1}, default=NO_LEADER_CHANGE)
    replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 2}, default=None)
    removing_replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 3}, default=None)
    adding_replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 4}, default=None)
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 5}, default=NO_RECOVERY_CHANGE)
    eligible_leader_replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 6}, default=None)
    last_known_elr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 7}, default=None)
    directories: tuple[uuid.UUID | None, ...] | None = field(metadata={"kafka_type": "uuid", "tag": 8}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is gone, with its partitions and settings."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    trashed_ms: int = field(metadata={"kafka_type": "int64", "tag": 10000}, default=-1)
    """Our own: the wall time at which it was put in the trash, from which it can be restored (TRASH-1)."""
    trash_until_ms: int = field(metadata={"kafka_type": "int64", "tag": 10001}, default=-1)
    """Our own: the wall time at which it is to be purged; below 0, it is not in the trash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The whole cluster works at this level of a feature from now on; level 0 takes the feature away."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    feature_level: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A broker was given the block of producer ids that ends before ``next_producer_id``."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    next_producer_id: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A registered broker has changed. Fields at their default leave things alone."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    fenced: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=0)
    in_controlled_shutdown: int = field(metadata={"kafka_type": "int8", "tag": 1}, default=0)
    log_dirs: tuple[uuid.UUID | None, ...] = field(metadata={"kafka_type": "uuid", "tag": 2}, default=())
    cordoned_log_dirs: tuple[uuid.UUID | None, ...] | None = field(
        metadata={"kafka_type": "uuid", "tag": 3}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """Nothing has happened; Kafka writes it on idle so that followers see the log move."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    """The records that follow take effect at the EndTransactionRecord, all at once (KIP-868)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str | None = field(metadata={"kafka_type": "string", "tag": 0}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    """The records since the BeginTransactionRecord take effect."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    """The records since the BeginTransactionRecord are dropped."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    reason: str | None = field(metadata={"kafka_type": "string", "tag": 0}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller has started; it replaces any earlier registration of the id."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    controller_id: int = field(metadata={"kafka_type": "int32"})
    incarnation_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    zk_migration_ready: bool = field(metadata={"kafka_type": "bool"})
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[SupportedFeature, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """The eligible leader replicas of a topic, or of all topics if the name is empty, are forgotten (REPLICATION ELR-3)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_name: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """A rule of access is in force; its numbers are those of :mod:`esp.model.acl`."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    resource_type: int = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    pattern_type: int = field(metadata={"kafka_type": "int8"})
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: int = field(metadata={"kafka_type": "int8"})
    permission_type: int = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """A rule of access is no longer in force."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntityData:
    """A part of the entity that a quota is for; the default has no name."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    entity_type: str = field(metadata={"kafka_type": "string"})
    entity_name: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """An entity has a quota, or has it no longer."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    entity: tuple[QuotaEntityData, ...]
    key: str = field(metadata={"kafka_type": "string"})
    value: float = field(metadata={"kafka_type": "float64"})
    remove: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """A user has this credential, in place of an earlier one of the same mechanism. Its text shows no secret."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    mechanism: int = field(metadata={"kafka_type": "int8"})
    salt: bytes = field(metadata={"kafka_type": "bytes"}, repr=False)
    stored_key: bytes = field(metadata={"kafka_type": "bytes"}, repr=False)
    server_key: bytes = field(metadata={"kafka_type": "bytes"}, repr=False)
    iterations: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """A user no longer has a credential of this mechanism."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    mechanism: int = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """There is this delegation token, in place of one of the same id; its principals are texts such as ``User:alice``."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    owner: str = field(metadata={"kafka_type": "string"})
    requester: str = field(metadata={"kafka_type": "string"})
    renewers: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    issue_timestamp: int = field(metadata={"kafka_type": "int64"})
    max_timestamp: int = field(metadata={"kafka_type": "int64"})
    expiration_timestamp: int = field(metadata={"kafka_type": "int64"})
    token_id: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    """A delegation token is gone."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    token_id: str = field(metadata={"kafka_type": "string"})


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | NoOpRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RegisterControllerRecord
    | ClearElrRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ClientQuotaRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
)
