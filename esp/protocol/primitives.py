"""Reading and packing of single values, for the hand-written parts: headers and the two hot codecs.

The read functions return a value and the position after it. They check counts and lengths against the bytes left, and raise
DecodeError; where the buffer ends within a number they raise IndexError or struct.error, which callers turn into DecodeError once for a
whole message.

Kafka's unsigned varint: seven bits a byte, low bits first, at most five bytes for 32 bits (KIP-482, ``ByteUtils``).
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError

MAX_VALUE: Final = 2**32 - 1

TEXT_BYTES_MAX: Final = 32_767
"""The most bytes of a text, as in Kafka, also in versions that could have longer ones: nothing has so long a name. A name of megabytes in
the metadata log would hold up each node with each of its records."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the value at ``position`` and the position after it.

    Raises:
        DecodeError: the value is longer than five bytes or 32 bits.
        IndexError: the buffer ends within the value.
    """
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # as the size of most small batches: the loop would cost as much again
        return first & 0x7F | byte << 7, position + 2
    value = first & 0x7F | (byte & 0x7F) << 7
    position += 2
    for shift in (14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_VALUE:
                break
            return value, position
    raise DecodeError("a varint is longer than 32 bits")


def pack_uvarint(value: int) -> bytes:
    """The shortest form of ``value``, which is in ``[0, MAX_VALUE]``."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))


TopicRef = str | bytes
"""A topic as Produce and Fetch name it: its name or, from version 13 on, the 16 bytes of its id (KIP-516)."""

TOPIC_IDS_FROM: Final = 13
"""The version of both Produce and Fetch that names topics by id."""

TAGGED_FIELDS_MAX: Final = 100
"""The most tagged fields of one struct or header: ten times as many as Kafka's messages have. Each costs time, and any client could send
millions of unknown ones."""

I16: Final = struct.Struct(">h")
I32: Final = struct.Struct(">i")


class NodeEndpoint(NamedTuple):
    """The address of a new leader (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def check_size(size: int, buffer: Buffer, position: int) -> None:
    """Raise DecodeError unless ``size`` bytes follow ``position``."""
    if not 0 <= size <= len(buffer) - position:
        raise DecodeError(f"a length of {size} with {len(buffer) - position} bytes left")


def read_legacy_count(buffer: Buffer, position: int, least_element_size: int) -> tuple[int, int]:
    """An array's count of four bytes; null is not allowed."""
    count: int = I32.unpack_from(buffer, position)[0]
    position += 4
    if count < 0 or count * least_element_size > len(buffer) - position:
        raise DecodeError(f"a count of {count} with {len(buffer) - position} bytes left")
    return count, position


def read_compact_count(buffer: Buffer, position: int, least_element_size: int) -> tuple[int, int]:
    """An array's count as varint; null is not allowed."""
    count, position = read_uvarint(buffer, position)
    count -= 1
    if count < 0 or count * least_element_size > len(buffer) - position:
        raise DecodeError(f"a count of {count} with {len(buffer) - position} bytes left")
    return count, position


def read_legacy_nullable_text(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A string with a length of two bytes, or null."""
    length: int = I16.unpack_from(buffer, position)[0]
    position += 2
    if length == -1:
        return None, position
    check_size(length, buffer, position)
    return str(buffer[position : position + length], "utf-8"), position + length


def read_compact_nullable_text(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A string with its length as varint, or null."""
    length, position = read_uvarint(buffer, position)
    if not length:
        return None, position
    if length > TEXT_BYTES_MAX + 1:
        raise DecodeError(f"a text of {length - 1} bytes, where {TEXT_BYTES_MAX} is the most")
    end = position + length - 1
    if end > len(buffer):
        raise DecodeError(f"a length of {length - 1} with {len(buffer) - position} bytes left")
    return str(buffer[position:end], "utf-8"), end


def read_legacy_text(buffer: Buffer, position: int) -> tuple[str, int]:
    """A string with a length of two bytes."""
    text, position = read_legacy_nullable_text(buffer, position)
    if text is None:
        raise DecodeError("a string is null where none may be")
    return text, position


def read_compact_text(buffer: Buffer, position: int) -> tuple[str, int]:
    """A string with its length as varint."""
    text, position = read_compact_nullable_text(buffer, position)
    if text is None:
        raise DecodeError("a string is null where none may be")
    return text, position


def read_uuid_bytes(buffer: Buffer, position: int) -> tuple[bytes, int]:
    """The 16 bytes of a uuid."""
    check_size(16, buffer, position)
    return bytes(buffer[position : position + 16]), position + 16


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """The position after tagged fields none of which is of interest."""
    if not buffer[position]:
        return position + 1
    count, position = read_tagged_field_count(buffer, position)
    for _ in range(count):
        _tag, position, end = read_tagged_field(buffer, position)
        position = end
    return position


def read_tagged_field_count(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number of tagged fields that follow; each is at least a tag and a size."""
    count, position = read_uvarint(buffer, position)
    if count * 2 > len(buffer) - position:
        raise DecodeError(f"a count of {count} tagged fields with {len(buffer) - position} bytes left")
    if count > TAGGED_FIELDS_MAX:
        raise DecodeError(f"{count} tagged fields, of {TAGGED_FIELDS_MAX} at most")
    return count, position


def read_tagged_field(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """A tag, and the positions where its value begins and ends."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    end = position + size
    if end > len(buffer):
        raise DecodeError(f"tagged field {tag} of {size} bytes with {len(buffer) - position} bytes left")
    return tag, position, end


def pack_legacy_topic(topic: TopicRef) -> bytes:
    """A topic's name with a length of two bytes."""
    assert isinstance(topic, str)
    encoded = topic.encode()
    return I16.pack(len(encoded)) + encoded


def pack_compact_topic(topic: TopicRef) -> bytes:
    """A topic's name with its length as varint, or the 16 bytes of its id."""
    if isinstance(topic, bytes):
        return topic
    encoded = topic.encode()
    return pack_uvarint(len(encoded) + 1) + encoded


def pack_nullable_text(text: str | None, *, flexible: bool) -> bytes:
    """A string or null."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    encoded = text.encode()
    return (pack_uvarint(len(encoded) + 1) if flexible else I16.pack(len(encoded))) + encoded


def pack_tagged_fields(fields: Sequence[tuple[int, bytes]]) -> bytes:
    """Tagged fields, given as tags in ascending order and values."""
    return pack_uvarint(len(fields)) + b"".join(
        pack_uvarint(tag) + pack_uvarint(len(value)) + value for tag, value in fields
    )


def pack_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields at the end of a response that may say where new leaders are; tag 0 in Produce as in Fetch."""
    if not endpoints:
        return b"\0"
    value = pack_uvarint(len(endpoints) + 1) + b"".join(
        I32.pack(endpoint.node_id)
        + pack_nullable_text(endpoint.host, flexible=True)
        + I32.pack(endpoint.port)
        + pack_nullable_text(endpoint.rack, flexible=True)
        + b"\0"
        for endpoint in endpoints
    )
    return pack_tagged_fields([(0, value)])
