"""The fields of keys and values in the logs of coordinators, in plain and in flexible form (KIP-482).

A key is its type and its fields, a value its version and its fields; :mod:`esp.schemas.group_record_codec` and
:mod:`esp.schemas.transaction_record_codec` have the records.
"""

import struct
from typing import Final

from esp.model.errors import CorruptionError

_I8: Final = struct.Struct(">b")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")

_VARINT_BYTES_MAX: Final = 5


class ValueReader:
    """A position in ``data``; each method reads the value there and moves behind it.

    Every method raises CorruptionError if the bytes are no such value.

    Args:
        data: the whole value.
    """

    __slots__ = ("_data", "_position", "is_flexible")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.is_flexible = False
        """True if strings, bytes and arrays are compact, and tagged fields end a struct; set after the version has been read."""

    def i8(self) -> int:
        """A signed number of 1 byte."""
        return self._number(_I8)

    def i16(self) -> int:
        """A signed number of 2 bytes."""
        return self._number(_I16)

    def i32(self) -> int:
        """A signed number of 4 bytes."""
        return self._number(_I32)

    def i64(self) -> int:
        """A signed number of 8 bytes."""
        return self._number(_I64)

    def i32s(self) -> tuple[int, ...]:
        """An array of signed numbers of 4 bytes."""
        count = self.count()
        return struct.unpack(f">{count}i", self._take(count * _I32.size))

    def string(self) -> str:
        """A string that is there."""
        value = self.nullable_string()
        if value is None:
            raise CorruptionError("a string is null that must not be")
        return value

    def nullable_string(self) -> str | None:
        """A string, or None."""
        size = self._unsigned_varint() - 1 if self.is_flexible else self.i16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise CorruptionError(f"a string is no UTF-8: {error}") from error

    def byte_string(self) -> bytes:
        """Bytes; null is taken for none."""
        size = self._unsigned_varint() - 1 if self.is_flexible else self.i32()
        return self._take(size) if size > 0 else b""

    def nullable_count(self) -> int | None:
        """Read the number of elements of an array, see :meth:`count`; None for an array that is null."""
        count = self._unsigned_varint() - 1 if self.is_flexible else self.i32()
        if count > len(self._data):
            raise CorruptionError(f"an array of {count} elements in {len(self._data)} bytes")
        return None if count < 0 else count

    def count(self) -> int:
        """The number of elements of the array that follows, no more than there are bytes; null is taken for none."""
        return self.nullable_count() or 0

    def tags(self) -> dict[int, bytes]:
        """Tagged fields by their tag; none in plain form."""
        if not self.is_flexible:
            return {}
        fields: dict[int, bytes] = {}
        for _ in range(self._unsigned_varint()):
            tag = self._unsigned_varint()
            fields[tag] = self._take(self._unsigned_varint())
        return fields

    def require_end(self) -> None:
        """Raise unless the value ends here."""
        if self._position != len(self._data):
            raise CorruptionError(f"a value ends at {self._position} of {len(self._data)} bytes")

    def _number(self, format_: struct.Struct) -> int:
        (number,) = format_.unpack(self._take(format_.size))
        return int(number)

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise CorruptionError(f"a field of {size} bytes at {self._position} of {len(self._data)} bytes")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def _unsigned_varint(self) -> int:
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise CorruptionError("an unterminated integer")


def read_version(reader: ValueReader, what: str, newest: int) -> int:
    """Read the version that begins a value.

    Args:
        reader: at the start of the value.
        what: the record's name, for the message.
        newest: the newest version that is known.

    Raises:
        CorruptionError: it is another one.
    """
    version = reader.i16()
    if not 0 <= version <= newest:
        raise CorruptionError(f"{what} of version {version}; versions 0 to {newest} are known")
    return version


def encode_string(value: str) -> bytes:
    """A string in plain form."""
    data = value.encode()
    return _I16.pack(len(data)) + data


def encode_nullable_string(value: str | None) -> bytes:
    """A string, or null, in plain form."""
    return b"\xff\xff" if value is None else encode_string(value)


def encode_bytes(value: bytes) -> bytes:
    """Bytes in plain form."""
    return _I32.pack(len(value)) + value


def encode_unsigned_varint(value: int) -> bytes:
    """A number of flexible forms: lengths, counts, tags."""
    if value < 0x80:
        return bytes((value,))
    output = bytearray()
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)


def encode_compact_string(value: str) -> bytes:
    """A string in flexible form."""
    data = value.encode()
    return encode_unsigned_varint(len(data) + 1) + data


def encode_nullable_compact_string(value: str | None) -> bytes:
    """A string, or null, in flexible form."""
    return b"\x00" if value is None else encode_compact_string(value)


def encode_compact_bytes(value: bytes) -> bytes:
    """Bytes in flexible form."""
    return encode_unsigned_varint(len(value) + 1) + value
