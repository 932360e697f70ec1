"""Key and value of a record, as Kafka's dump tool writes them."""

import base64
import re
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from esp.cli.dumping.keyed_records import KeyedRecord, describe_group_record, describe_share_state_record
from esp.cli.dumping.member_fields import describe_assignment, describe_subscription
from esp.model.errors import CorruptionError
from esp.records.builder import Record
from esp.schemas.control_records import decode_control_record
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import GroupMetadataValue
from esp.schemas.metadata_frames import UnknownRecordError, decode_record
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import NO_PRODUCER_ID, TransactionValue
from esp.settings.described import is_sensitive


class Decoder(StrEnum):
    """The kind of records in a log."""

    TEXT = "text"
    METADATA = "metadata"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"
    SHARE_STATES = "share states"


HIDDEN: Final = "[hidden]"
"""Stands for a secret: the word of Kafka's own classes, whose dump tool prints secrets."""

Payload = tuple[str, dict[str, object]]
"""A record's key and value: as text, and as values."""

_KRAFT_LABELS: Final = {
    "LeaderChangeMessage": "LeaderChange:",
    "SnapshotHeaderRecord": "SnapshotHeader",
    "SnapshotFooterRecord": "SnapshotFooter",
    "KRaftVersionRecord": "KRaftVersion",
    "VotersRecord": "KRaftVoters",
}
CONSUMER: Final = "consumer"
"""The protocol type of groups whose assignments can be read."""

_END_OF_TRANSACTION: Final = {0: "ABORT", 1: "COMMIT"}


def describe(record: Record, decoder: Decoder, *, is_control: bool) -> Payload:
    """Key and value of a record.

    Raises:
        CorruptionError: they are not what the decoder, or a control record's type, says.
    """
    if is_control:
        return _describe_control(record)
    return _DESCRIBE[decoder](record)


def _describe_text(record: Record) -> Payload:
    values: dict[str, object] = {}
    parts = []
    for name, data in (("key", record.key), ("payload", record.value)):
        if data is not None:
            text = data.decode("utf-8", "replace")
            values[name] = text
            parts.append(f"{name}: {text}")
    return " ".join(parts), values


def _describe_metadata(record: Record) -> Payload:
    frame = record.value
    if frame is None:
        raise CorruptionError("metadata record without a value")
    try:
        decoded = decode_record(frame)
    except UnknownRecordError as error:
        raise CorruptionError(str(error)) from error
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(decoded).__name__).upper()
    if isinstance(decoded, ConfigRecord) and decoded.value is not None and _is_secret(decoded):
        decoded = replace(decoded, value=HIDDEN)
    payload = {
        "type": kind,
        "version": frame[2],
        "data": to_plain(decoded),
    }  # frame version and key are varints of one byte
    return f"payload: {_json(payload)}", {"payload": payload}


def _is_secret(record: ConfigRecord) -> bool:
    """True for a password, which Kafka keeps in plain text in its metadata log, and for a setting of which nothing is known."""
    return record.resource_type == BROKER_RESOURCE and is_sensitive(record.name)


def _describe_offsets(record: Record) -> Payload:
    decoded = decode_group_record(record.key, record.value)
    if record.key is None:
        return _describe_text(record)
    if decoded is None:
        return _describe_keyed(record, describe_group_record(record.key, record.value))
    key = {"type": str(int.from_bytes(record.key[:2], "big")), "data": to_plain(decoded.key)}
    if record.value is None or decoded.value is None:
        return f"key: {_json(key)} payload: <DELETE>", {"key": key, "payload": None}
    data = to_plain(decoded.value)
    if isinstance(decoded.value, GroupMetadataValue) and decoded.value.protocol_type == CONSUMER:
        for told, member in zip(data["members"], decoded.value.members, strict=True):
            told["subscription"] = describe_subscription(member.subscription)
            told["assignment"] = describe_assignment(member.assignment)
    payload = {"version": str(int.from_bytes(record.value[:2], "big")), "data": data}
    return f"key: {_json(key)} payload: {_json(payload)}", {"key": key, "payload": payload}


def _describe_share_states(record: Record) -> Payload:
    return _describe_keyed(record, describe_share_state_record(record.key, record.value) if record.key else None)


def _describe_keyed(record: Record, told: KeyedRecord | None) -> Payload:
    """A record of which all fields are known; of a type that is not known, its bytes."""
    if told is None:
        return _describe_text(record)
    payload = "<DELETE>" if told.payload is None else _json(told.payload)
    return f"key: {_json(told.key)} payload: {payload}", told._asdict()


def _describe_transactions(record: Record) -> Payload:
    decoded = decode_transaction_record(record.key, record.value)
    if decoded is None or record.key is None:
        return _describe_text(record)
    type_, version = (str(int.from_bytes(data[:2], "big")) for data in (record.key, record.value or b""))
    key = {"type": type_, "data": {"transactionalId": decoded.transactional_id}}
    if decoded.value is None:
        return f"key: {_json(key)} payload: <DELETE>", {"key": key, "payload": None}
    payload = {"version": version, "data": _transaction_data(decoded.value)}
    return f"key: {_json(key)} payload: {_json(payload)}", {"key": key, "payload": payload}


def _transaction_data(value: TransactionValue) -> dict[str, object]:
    """The fields in the order and by the names of Kafka's schema; those with a default here are left out if they have it."""
    named = (
        ("producerId", value.producer_id, None),
        ("previousProducerId", value.previous_producer_id, NO_PRODUCER_ID),
        ("nextProducerId", value.next_producer_id, NO_PRODUCER_ID),
        ("producerEpoch", value.producer_epoch, None),
        ("transactionTimeoutMs", value.timeout_ms, None),
        ("transactionStatus", int(value.status), None),
        ("transactionPartitions", _transaction_partitions(value), ()),
        ("transactionLastUpdateTimestampMs", value.last_update_ms, None),
        ("transactionStartTimestampMs", value.start_ms, None),
        ("clientTransactionVersion", value.client_version, 0),
    )
    return {name: told for name, told, default in named if told != default}


def _transaction_partitions(value: TransactionValue) -> object:
    if value.partitions is None:
        return None
    return [{"topic": each.topic, "partitionIds": list(each.partitions)} for each in value.partitions]


def _describe_control(record: Record) -> Payload:
    decoded = decode_control_record(record.key, record.value)
    if decoded is not None:
        label = _KRAFT_LABELS[type(decoded).__name__]
        payload = to_plain(decoded)
        return f"{label} {_json(payload)}", {label.rstrip(":"): payload}
    type_ = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    marker = _END_OF_TRANSACTION.get(type_)
    if marker is None:
        return f"controlType: {type_}", {"controlType": type_}
    epoch = int.from_bytes((record.value or b"")[2:6], "big", signed=True)
    return (
        f"endTxnMarker: {marker} coordinatorEpoch: {epoch}",
        {"endTxnMarker": marker, "coordinatorEpoch": epoch},
    )


_DESCRIBE: Final[dict[Decoder, Callable[[Record], Payload]]] = {
    Decoder.TEXT: _describe_text,
    Decoder.METADATA: _describe_metadata,
    Decoder.OFFSETS: _describe_offsets,
    Decoder.TRANSACTIONS: _describe_transactions,
    Decoder.SHARE_STATES: _describe_share_states,
}


def to_plain(value: Any) -> Any:
    """An entity as JSON has it: names in camel case without units, ids and bytes in base64, optional fields if they say something.

    A field that its class keeps out of its own text is a secret, and stays hidden.
    """
    if is_dataclass(value):
        named = {
            field.name: getattr(value, field.name) if field.repr else HIDDEN
            for field in fields(value)
            if "tag" not in field.metadata or getattr(value, field.name) != field.default
        }
        return {_camel(name): to_plain(item) for name, item in named.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        defaults: dict[str, Any] = getattr(value, "_field_defaults", {})
        return {
            _camel(name): to_plain(item)
            for name, item in value._asdict().items()
            if name not in defaults or item != defaults[name]
        }
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
