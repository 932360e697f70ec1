"""Subscriptions and assignments within the records of classic groups, as Kafka's dump tool writes them.

They are written by clients, which may put there what they like: what is none is shown as bytes.
"""

import base64
from typing import Final

from esp.model.errors import CorruptionError
from esp.schemas.keyed_values import ValueReader

_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3
"""The versions of a subscription that brought a field. Newer ones are read as the last of these."""


def describe_subscription(data: bytes) -> object:
    """The topics of a consumer, and what else it tells with its version."""
    reader = ValueReader(data)
    try:
        version = _read_version(reader)
        told: dict[str, object] = {
            "topics": [reader.string() for _ in range(_count(reader))],
            "userData": _nullable_bytes(reader),
        }
        if version >= _OWNED_FROM:
            told["ownedPartitions"] = _partitions(reader)
        if version >= _GENERATION_FROM:
            told["generationId"] = reader.i32()
        if version >= _RACK_FROM:
            told["rackId"] = reader.nullable_string()
    except CorruptionError:
        return base64.b64encode(data).decode()
    return told


def describe_assignment(data: bytes) -> object:
    """The partitions of a consumer."""
    reader = ValueReader(data)
    try:
        _read_version(reader)
        return {"assignedPartitions": _partitions(reader), "userData": _nullable_bytes(reader)}
    except CorruptionError:
        return base64.b64encode(data).decode()


def _read_version(reader: ValueReader) -> int:
    version = reader.i16()
    if version < 0:
        raise CorruptionError(f"version {version}")
    return version


def _partitions(reader: ValueReader) -> list[object]:
    return [
        {"topic": reader.string(), "partitions": [reader.i32() for _ in range(_count(reader))]}
        for _ in range(_count(reader))
    ]


def _count(reader: ValueReader) -> int:
    count = reader.nullable_count()
    if count is None:
        raise CorruptionError("an array is null that must not be")
    return count


def _nullable_bytes(reader: ValueReader) -> str | None:
    size = reader.nullable_count()
    if size is None:
        return None
    return base64.b64encode(bytes(reader.i8() & 0xFF for _ in range(size))).decode()
