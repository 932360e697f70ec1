"""Records turned into text: as Kafka's console consumer prints them, or as one JSON object a line."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import msgspec

from esp.cli.kafka.answers import ConsumedRecord
from esp.cli.properties import flag
from esp.model.errors import OperatorError

TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_PRINTED: Final = ("print.timestamp", "print.partition", "print.offset", "print.headers", "print.key", "print.value")
_TEXTS: Final = ("key.separator", "line.separator", "headers.separator", "null.literal")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Kafka's ``DefaultMessageFormatter``: the parts that are wanted, in its order, ``key_separator`` between them.

    Attributes are Kafka's properties with dots as underscores.
    """

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Read the properties by Kafka's names.

        Raises:
            OperatorError: a name is unknown or a value impossible.
        """
        for name in properties:
            if name not in _PRINTED + _TEXTS:
                known = ", ".join(_PRINTED + _TEXTS)
                raise OperatorError(f"--property {name}: there is no such property", f"Known are {known}.")
        chosen: dict[str, Any] = {
            name.replace(".", "_"): flag(properties, name) for name in _PRINTED if name in properties
        }
        chosen |= {name.replace(".", "_"): properties[name].encode() for name in _TEXTS if name in properties}
        return cls(**chosen)

    def format(self, record: ConsumedRecord) -> bytes:
        """Return the record's line, its separator included."""
        parts: list[bytes] = []
        if self.print_timestamp:
            known = record.timestamp >= 0
            parts.append(
                f"{TIMESTAMP_TYPES[record.timestamp_type]}:{record.timestamp}".encode() if known else b"NO_TIMESTAMP"
            )
        if self.print_partition:
            parts.append(f"Partition:{record.partition}".encode())
        if self.print_offset:
            parts.append(f"Offset:{record.offset}".encode())
        if self.print_headers:
            headers = [f"{name}:".encode() + self._text(value) for name, value in record.headers]
            parts.append(self.headers_separator.join(headers) if headers else b"NO_HEADERS")
        if self.print_key:
            parts.append(self._text(record.key))
        if self.print_value:
            parts.append(self._text(record.value))
        return self.key_separator.join(parts) + self.line_separator

    def _text(self, value: bytes | None) -> bytes:
        return self.null_literal if value is None else value


class JsonFormat:
    """Writes a record as a JSON object on a line; bytes that are not UTF-8 become an object with their base64 form."""

    def format(self, record: ConsumedRecord) -> bytes:
        """Return the record's line."""
        return msgspec.json.encode(record_as_json(record)) + b"\n"


def record_as_json(record: ConsumedRecord) -> dict[str, Any]:
    """A record as an object of JSON."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[record.timestamp_type],
        "headers": [[name, _json_value(value)] for name, value in record.headers],
        "key": _json_value(record.key),
        "value": _json_value(record.value),
    }


def _json_value(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
