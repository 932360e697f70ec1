"""JSON values as columns: pyarrow's reader takes whole blocks where it says what Spark says; other values are read one by one.

What pyarrow and Spark read alike is taken fast: objects of the schema's types with other fields beside them, numbers in range, texts. Dates
and timestamps are read as texts and then turned into what they are. Refused by pyarrow, or not shown to it, is all else: other types than
the schema's, duplicate names, single quotes, values that are no object. A block with such a value is read in pieces, and a piece around the
value. Maps are objects in JSON, which pyarrow does not read as maps, and bytes are in Base64: schemas with one of them are always read one
by one.
"""

import re
from datetime import tzinfo
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from esp.values.decoded import Decoded, interleave, join, nulls
from esp.values.json_records import JsonRecords
from esp.values.json_times import TextError, dates_of, local_timestamps_of, timestamps_of

_PIECE: Final = 1024
"""Values of a refused block that are read together."""
_REFUSALS_MOST: Final = 24
"""Refusals in a piece after which it is quicker to read the rest one by one."""
_FEW: Final = 16
"""Values that are read one by one rather than halved again."""
_ROW: Final = re.compile(r"in row ([0-9]+)$")
"""The end of pyarrow's messages about texts; those about numbers have no row."""
_BLOCK_MOST: Final = 2**30
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")


class _RefusedError(Exception):
    """A block has a value that needs a closer look.

    Args:
        row: the value, if it is known.
    """

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row


class JsonDecoder:
    """Decodes JSON objects.

    Args:
        schema: the columns.
        zone: the time zone of timestamps without one.

    Raises:
        SchemaError: a type has no JSON values.
    """

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self.schema = schema
        self._zone = zone
        self._records = JsonRecords(schema, zone)
        self._is_fast = all(_is_readable(field.type) for field in schema)
        self._parse = pj.ParseOptions(
            explicit_schema=pa.schema([(field.name, _read_type(field.type)) for field in schema]),
            unexpected_field_behavior="ignore",
        )

    def decode(self, values: pa.Array) -> Decoded:
        """Return the columns of binary values; a null has none."""
        if not self._is_fast or len(values) == 0:
            return self._records.decode(values)
        is_object = _are_objects(values)
        if is_object.all():
            return self._decode_objects(values)
        objects, others = np.flatnonzero(is_object), np.flatnonzero(~is_object)
        rest = values.take(pa.array(others))
        slow = (
            self._records.decode(rest) if rest.null_count < len(rest) else nulls(self.schema, len(rest), are_bad=False)
        )
        if len(objects) == 0:
            return slow
        return interleave([self._decode_objects(values.take(pa.array(objects))), slow], [objects, others])

    def _decode_objects(self, values: pa.Array) -> Decoded:
        try:
            return self._decode_block(values)
        except _RefusedError:
            pieces = range(0, len(values), _PIECE)
            return join([self._decode_piece(values[first : first + _PIECE]) for first in pieces])

    def _decode_piece(self, values: pa.Array) -> Decoded:
        """Read values around those that are refused, which are read one by one; all that are left after some refusals are."""
        parts: list[Decoded] = []
        waiting = [(values, True)]
        refusals = 0
        while waiting:
            block, is_tried = waiting.pop()
            if len(block) == 0:
                continue
            if not is_tried or refusals >= _REFUSALS_MOST:
                parts.append(self._records.decode(block))
                continue
            try:
                parts.append(self._decode_block(block))
            except _RefusedError as error:
                refusals += 1
                row, middle = error.row, len(block) // 2
                if row is not None and row < len(block):
                    waiting += [(block[row + 1 :], True), (block[row : row + 1], False), (block[:row], True)]
                elif len(block) > _FEW:
                    waiting += [(block[middle:], True), (block[:middle], True)]
                else:
                    parts.append(self._records.decode(block))
        return join(parts)

    def _decode_block(self, values: pa.Array) -> Decoded:
        """Read all values at once.

        Each value begins with a brace and ends with one, and a line feed stands between two: no text and no object can reach from one
        value into the next. So each value is at least one object, and as many objects as values are one of each.

        Raises:
            _RefusedError: a value is not what the schema says.
        """
        try:
            text = _lines(values)
            options = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
            table = pj.read_json(pa.BufferReader(text), options, self._parse)
            if table.num_rows != len(values):
                raise _RefusedError
            columns = [_converted(_whole(table.column(field.name)), field.type, self._zone) for field in self.schema]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TextError) as error:
            found = _ROW.search(str(error))
            raise _RefusedError(None if found is None else int(found[1])) from error
        return Decoded(columns, np.zeros(len(values), bool))


def _are_objects(values: pa.Array) -> NDArray[np.bool_]:
    """True for values whose first byte and whose last are braces."""
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    if data_buffer is None or data_buffer.size == 0:
        return np.zeros(len(values), bool)
    octets = np.frombuffer(data_buffer, np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    last = len(octets) - 1
    found: NDArray[np.bool_] = (
        (ends - starts >= 2) & (octets[np.minimum(starts, last)] == _OPEN) & (octets[np.maximum(ends - 1, 0)] == _CLOSE)
    )
    if values.null_count:
        found &= values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _lines(values: pa.Array) -> pa.Buffer:
    """All values with a line feed between two, as UTF-8: other bytes are replaced, as by Java."""
    if values.nbytes > _BLOCK_MOST:
        raise _RefusedError
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        values = pa.array([value.decode("utf-8", "replace").encode() for value in values.to_pylist()], pa.binary())
    lines = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.binary_join(lines, b"\n")[0].as_buffer()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _is_readable(kind: pa.DataType) -> bool:
    """True for types that have JSON values that pyarrow reads."""
    if pa.types.is_list(kind):
        return _is_readable(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_readable(field.type) for field in _fields_of(kind))
    return not pa.types.is_map(kind) and not pa.types.is_binary(kind)


def _fields_of(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(number) for number in range(kind.num_fields)]


def _read_type(kind: pa.DataType) -> pa.DataType:
    """The type as which pyarrow reads a column."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_read_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_type(field.type)) for field in _fields_of(kind)])
    return kind


def _converted(array: pa.Array, kind: pa.DataType, zone: tzinfo) -> pa.Array:
    """A column of the schema's type, of one as pyarrow read it.

    Raises:
        TextError: a text is no time.
        ArrowInvalid: a decimal is too large.
    """
    if pa.types.is_date(kind):
        return dates_of(array)
    if pa.types.is_timestamp(kind):
        return local_timestamps_of(array) if kind.tz is None else timestamps_of(array, zone)
    if pa.types.is_decimal(kind):
        array.validate(full=True)  # pyarrow's reader does not look at the precision once it has the scale
    if pa.types.is_list(kind):
        elements = _converted(array.values, kind.value_type, zone)
        return pa.ListArray.from_arrays(
            array.offsets, elements, kind, mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_struct(kind):
        fields = _fields_of(kind)
        members = [_converted(array.field(number), field.type, zone) for number, field in enumerate(fields)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
    return array
