"""Reads a value of Kafka's message format, in plain or in flexible form, field by field."""

import struct
from typing import Final

from esp.model.errors import CorruptionError

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_VARINT_BYTES_MAX: Final = 5


class ValueReader:
    """A position in ``data``; each method reads what stands there and goes on behind it.

    Every method raises CorruptionError if the bytes are not what is read.

    Args:
        data: the whole value.
    """

    __slots__ = ("_data", "_position", "is_flexible")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.is_flexible = False
        """Whether strings, bytes and arrays are compact, and tagged fields end a struct; set it behind the version."""

    def i16(self) -> int:
        """A signed number of 2 bytes."""
        return self._number(_I16)

    def i32(self) -> int:
        """A signed number of 4 bytes."""
        return self._number(_I32)

    def i64(self) -> int:
        """A signed number of 8 bytes."""
        return self._number(_I64)

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

    def count(self) -> int:
        """How many elements of an array follow: no more than there are bytes."""
        count = self._unsigned_varint() - 1 if self.is_flexible else self.i32()
        if count > len(self._data):
            raise CorruptionError(f"an array of {count} elements in {len(self._data)} bytes")
        return max(count, 0)

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
        """Nothing may follow."""
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
        raise CorruptionError("an integer that does not end")
