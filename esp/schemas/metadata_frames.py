"""A metadata record in the bytes of a log record's value: Kafka's ``MetadataRecordSerde``.

A frame is the frame version, the record's key and the record's version, each an unsigned varint, then the record itself, in flexible
form. The log's batches are covered by a checksum, so kio's reader may read the record. Records of new and changed partitions are written
without a walk over their fields: a decision may have thousands of them.
"""

import io
import struct
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kio.serial import entity_reader, entity_writer

from esp.model.errors import CorruptionError
from esp.schemas.metadata_records import (
    NEVER_RESTORED,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERED,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
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
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

_COUNT_MAX: Final = 126
"""The largest number of elements in an array whose length is a varint of one byte."""
_FIELD_COUNT_MAX: Final = 31
"""The largest number of elements in an array that is a tagged field whose size is a varint of one byte."""
_ID: Final = struct.Struct(">i16s")
_FIELDS: Final = struct.Struct(">i16sB")
_LEADER_FIELD: Final = struct.Struct(">BBi")
_LEADER: Final = struct.Struct(">iii")
_NO_ID: Final = bytes(16)
_NO_TAGS: Final = b"\0"
_INTEGERS: Final = tuple(struct.Struct(f">B{count}i") for count in range(_COUNT_MAX + 1))


def encode_partition(record: PartitionRecord) -> bytes | None:
    """Return the record in flexible form, without frame; None if it has one of the rare fields, and is for the general writer."""
    counts = (len(record.replicas), len(record.isr), len(record.removing_replicas), len(record.adding_replicas))
    if (
        max(*counts, len(record.directories)) > _COUNT_MAX
        or record.leader_recovery_state != RECOVERED
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
        or record.start_offset
        or record.restored_epoch != NEVER_RESTORED
    ):
        return None
    return b"".join(
        (
            _ID.pack(record.partition_id, _id_bytes(record.topic_id)),
            _encode_integers(record.replicas),
            _encode_integers(record.isr),
            _encode_integers(record.removing_replicas),
            _encode_integers(record.adding_replicas),
            _LEADER.pack(record.leader, record.leader_epoch, record.partition_epoch),
            bytes((len(record.directories) + 1,)),
            *map(_id_bytes, record.directories),
            _NO_TAGS,
        )
    )


def encode_partition_change(record: PartitionChangeRecord) -> bytes | None:
    """Return the record in flexible form, without frame; None if it has a field that few changes have, and is for the general writer."""
    if (
        record.replicas is not None
        or record.removing_replicas is not None
        or record.adding_replicas is not None
        or record.leader_recovery_state != NO_RECOVERY_CHANGE
        or record.directories is not None
    ):
        return None
    fields = []
    for tag, values in ((0, record.isr), (6, record.eligible_leader_replicas), (7, record.last_known_elr)):
        if values is not None:
            if len(values) > _FIELD_COUNT_MAX:
                return None
            fields.append(bytes((tag, 1 + 4 * len(values))) + _encode_integers(values))
        if tag == 0 and record.leader != NO_LEADER_CHANGE:
            fields.append(_LEADER_FIELD.pack(1, 4, record.leader))
    return b"".join((_FIELDS.pack(record.partition_id, _id_bytes(record.topic_id), len(fields)), *fields))


def _encode_integers(values: tuple[int, ...]) -> bytes:
    return _INTEGERS[len(values)].pack(len(values) + 1, *values)


def _id_bytes(value: uuid.UUID | None) -> bytes:
    return _NO_ID if value is None else value.bytes


FRAME_VERSION: Final = 1


class _RecordType(NamedTuple):
    """A record's key and the versions that share the shape of its class."""

    key: int
    entity: type[MetadataRecord]
    min_version: int = 0
    max_version: int = 0


_TYPES: Final = (
    _RecordType(0, RegisterBrokerRecord, 3, 4),
    _RecordType(1, UnregisterBrokerRecord),
    _RecordType(2, TopicRecord),
    _RecordType(3, PartitionRecord, 1, 2),
    _RecordType(4, ConfigRecord),
    _RecordType(5, PartitionChangeRecord, 0, 2),
    _RecordType(9, RemoveTopicRecord),
    _RecordType(10, DelegationTokenRecord),
    _RecordType(11, UserScramCredentialRecord),
    _RecordType(12, FeatureLevelRecord),
    _RecordType(14, ClientQuotaRecord),
    _RecordType(15, ProducerIdsRecord),
    _RecordType(17, BrokerRegistrationChangeRecord, 0, 3),
    _RecordType(18, AccessControlEntryRecord),
    _RecordType(19, RemoveAccessControlEntryRecord),
    _RecordType(20, NoOpRecord),
    _RecordType(22, RemoveUserScramCredentialRecord),
    _RecordType(23, BeginTransactionRecord),
    _RecordType(24, EndTransactionRecord),
    _RecordType(25, AbortTransactionRecord),
    _RecordType(26, RemoveDelegationTokenRecord),
    _RecordType(27, RegisterControllerRecord),
    _RecordType(28, ClearElrRecord),
)
_TYPE_OF_KEY: Final[Mapping[int, _RecordType]] = MappingProxyType({type_.key: type_ for type_ in _TYPES})
_TYPE_OF_ENTITY: Final[Mapping[type[MetadataRecord], _RecordType]] = MappingProxyType(
    {type_.entity: type_ for type_ in _TYPES}
)
_MAX_VARINT_BYTES: Final = 5


class UnknownRecordError(Exception):
    """A metadata record that this release cannot read: newer software wrote it, or a feature was on that ESP does not have."""


def encode_record(record: MetadataRecord) -> bytes:
    """The bytes of a record, as Kafka at metadata.version 30 writes them."""
    key = _TYPE_OF_ENTITY[type(record)].key
    frame = bytes((FRAME_VERSION, key, _version(record)))  # all below 128: varints of one byte
    encoded = None
    if isinstance(record, PartitionRecord):
        encoded = encode_partition(record)
    elif isinstance(record, PartitionChangeRecord):
        encoded = encode_partition_change(record)
    if encoded is not None:
        return frame + encoded
    buffer = io.BytesIO(frame)
    buffer.seek(len(frame))
    writer: Any = entity_writer(type(record))
    writer(buffer, record)
    return buffer.getvalue()


def decode_record(frame: bytes) -> MetadataRecord:
    """The record of which these are the bytes.

    Raises:
        UnknownRecordError: a record, or a version or field of one, that is not known here.
        CorruptionError: the bytes are no frame, or do not end with the record.
    """
    frame_version, position = _read_varint(frame, 0)
    if frame_version != FRAME_VERSION:
        raise UnknownRecordError(f"metadata frame of version {frame_version}; only {FRAME_VERSION} is known")
    key, position = _read_varint(frame, position)
    version, position = _read_varint(frame, position)
    type_ = _TYPE_OF_KEY.get(key)
    if type_ is None:
        raise UnknownRecordError(f"metadata record with the unknown key {key}")
    if not type_.min_version <= version <= type_.max_version:
        raise UnknownRecordError(
            f"{type_.entity.__name__} of version {version}; versions {type_.min_version} to {type_.max_version} are known"
        )
    reader: Any = entity_reader(type_.entity)
    record: MetadataRecord
    try:
        record, size = reader(frame, position)
    except KeyError as error:  # how kio says that it does not know a tagged field
        raise UnknownRecordError(f"{type_.entity.__name__}: {error.args[0]}") from error
    except Exception as error:
        raise CorruptionError(f"{type_.entity.__name__}: {error}") from error
    if position + size != len(frame):
        raise CorruptionError(f"{type_.entity.__name__} ends at {position + size} of {len(frame)} bytes")
    return record


def _version(record: MetadataRecord) -> int:
    """The version to write: the newest, but for a broker's change the lowest that can say it, as Kafka does."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return _TYPE_OF_ENTITY[type(record)].max_version


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if position + index >= len(data):
            raise CorruptionError(f"metadata frame of {len(data)} bytes is cut")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise CorruptionError("metadata frame begins with an unterminated integer")
