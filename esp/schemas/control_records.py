"""Control records of the metadata log and of its snapshots, as key and value of a log record: Kafka's ``ControlRecordType``.

The entities are kio's; here are their types, keys and the versions that Kafka 4.3 writes. Readers skip control types that they do not know.
"""

import io
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0.data import VotersRecord
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i64

from esp.model.errors import CorruptionError
from esp.model.ids import NodeId


class ControlType(IntEnum):
    """The subjects of control records in the metadata log."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


ControlEntity = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord


class ControlRecord(NamedTuple):
    """A control record as it stands in a batch."""

    key: bytes
    value: bytes


_ENTITIES: Final[Mapping[int, type[ControlEntity]]] = MappingProxyType(
    {
        ControlType.LEADER_CHANGE: LeaderChangeMessage,
        ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
        ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
        ControlType.KRAFT_VERSION: KRaftVersionRecord,
        ControlType.KRAFT_VOTERS: VotersRecord,
    }
)
_TYPES: Final[Mapping[type[ControlEntity], int]] = MappingProxyType(
    {entity: type_ for type_, entity in _ENTITIES.items()}
)
_KEY: Final = struct.Struct(">hh")
_KEY_VERSION: Final = 0


def encode_control_record(entity: ControlEntity) -> ControlRecord:
    """Key and value of a control record."""
    buffer = io.BytesIO()
    writer: Any = entity_writer(type(entity))
    writer(buffer, entity)
    return ControlRecord(_KEY.pack(_KEY_VERSION, _TYPES[type(entity)]), buffer.getvalue())


def decode_control_record(key: bytes | None, value: bytes | None) -> ControlEntity | None:
    """Return the content of a control record; None if its type has no meaning in the metadata log.

    Raises:
        CorruptionError: it is no control record, or its version cannot be read.
    """
    if key is None or value is None or len(key) != _KEY.size:
        raise CorruptionError("control record without key or value")
    version, type_ = _KEY.unpack(key)
    entity = _ENTITIES.get(type_)
    if version != _KEY_VERSION or entity is None:
        return None
    reader: Any = entity_reader(entity)
    decoded: ControlEntity
    try:
        decoded, _ = reader(value, 0)
    except Exception as error:
        raise CorruptionError(f"{entity.__name__}: {error}") from error
    if decoded.version != 0:
        raise CorruptionError(f"{entity.__name__} of version {decoded.version}; only 0 is known")
    return decoded


def leader_change(leader: NodeId, voters: Sequence[NodeId], granting_voters: Sequence[NodeId]) -> LeaderChangeMessage:
    """The first record of a leader's epoch."""
    return LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(leader),
        voters=tuple(Voter(voter_id=i32(voter)) for voter in voters),
        granting_voters=tuple(Voter(voter_id=i32(voter)) for voter in granting_voters),
    )


def kraft_version(level: int) -> KRaftVersionRecord:
    """The feature level of the quorum's own protocol: 1 if its voters stand in the log (KIP-853)."""
    return KRaftVersionRecord(version=i16(0), k_raft_version=i16(level))


def snapshot_header(last_contained_timestamp_ms: int) -> SnapshotHeaderRecord:
    """The first record of a snapshot; the timestamp is that of the log's last batch that is in it."""
    return SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_contained_timestamp_ms))


def snapshot_footer() -> SnapshotFooterRecord:
    """The last record of a snapshot."""
    return SnapshotFooterRecord(version=i16(0))
