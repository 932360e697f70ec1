"""Avro records without parts, column by column: no step is one for each record."""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from esp.arrow.columns import take_spans
from esp.arrow.record_fields import Span
from esp.arrow.varints import SLACK, Numbers, Octets
from esp.values.avro_defaults import decimal_of, default_of
from esp.values.avro_fields import Bits, Records
from esp.values.avro_resolution import Plan, Step
from esp.values.avro_schema import AvroType, Field, arrow_type
from esp.values.decoded import Decoded

_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")
_MILLIS_MOST: Final = (2**63 - 1) // 1000
_DECIMAL_BYTES: Final = 16


class _WrongError(Exception):
    """Some bytes are not what their column is made of.

    Args:
        rows: theirs.
    """

    def __init__(self, rows: NDArray[np.intp]) -> None:
        super().__init__(rows)
        self.rows = rows


class _Taken(NamedTuple):
    """A field of all records as it was read: numbers, or where its bytes stand; ``present`` is None if all records have one."""

    step: Step
    numbers: NDArray[Any] | None
    span: Span | None
    present: Bits | None


class FlatDecoder:
    """Decodes records of one writer's schema.

    Args:
        plan: of :func:`~esp.values.avro_resolution.plan_flat`.
        columns: the reader's fields.

    Raises:
        SchemaError: a default is no value of its field.
    """

    def __init__(self, plan: Plan, columns: tuple[Field, ...]) -> None:
        self._steps = plan.steps
        self._columns = columns
        self._types = [arrow_type(field.type) for field in columns]
        self._defaults = {place: default_of(columns[place], default) for place, default in plan.defaults.items()}

    def decode(self, values: pa.Array, header: int) -> Decoded:
        """Return the columns of values without nulls.

        Args:
            values: binary.
            header: the bytes before each record.
        """
        octets, offsets = bytes_of(values)
        records = Records(octets, offsets[:-1] + header, offsets[1:])
        taken = [self._take(records, step) for step in self._steps]
        while True:
            try:
                made = {
                    one.step.column: self._make(octets, records, one) for one in taken if one.step.column is not None
                }
                break
            except _WrongError as error:
                records.is_bad[error.rows] = True
        for place, default in self._defaults.items():
            made[place] = default.take(pa.array(np.zeros(len(records), np.int64), mask=records.is_bad))
        return Decoded([made[place] for place in range(len(self._columns))], records.is_bad)

    def _take(self, records: Records, step: Step) -> _Taken:
        present = None
        if step.null_branch is not None:
            branches = records.read_integers(None, is_long=True)
            records.mark((branches != 0) & (branches != 1), None)
            present = branches != step.null_branch
            if present.all():
                present = None
            elif step.column is not None and not self._columns[step.column].type.may_be_null:
                records.mark(~present, None)
        written = step.written
        if written.kind in ("bytes", "string"):
            return _Taken(step, None, records.read_spans(present), present)
        if written.kind == "fixed":
            return _Taken(step, None, records.read_fixed(present, written.size), present)
        numbers: NDArray[Any]
        if written.kind == "boolean":
            numbers = records.read_booleans(present)
        elif written.kind in ("float", "double"):
            numbers = records.read_floats(present, is_double=written.kind == "double")
        else:
            numbers = records.read_integers(present, is_long=written.kind == "long")
            records.mark(self._are_impossible(numbers, step), present)
        return _Taken(step, numbers, None, present)

    def _are_impossible(self, numbers: Numbers, step: Step) -> Bits:
        """True for numbers that the column does not have."""
        written = step.written
        if written.kind == "enum":
            known = np.array([one is not None for one in self._symbols(step)] + [False])
            count = len(written.symbols)
            found: Bits = ~known[np.where((numbers >= 0) & (numbers < count), numbers, count)]
            return found
        if self._logical(step) is not None and (written.logical or self._logical(step)) in _MILLIS:
            return np.abs(numbers) > _MILLIS_MOST
        return np.zeros(len(numbers), bool)

    def _symbols(self, step: Step) -> list[str | None]:
        """The reader's symbol for each of the writer's; None if it has none."""
        if step.column is None:
            return list(step.written.symbols)
        wanted = self._columns[step.column].type.present
        other = wanted.symbol_default if wanted.symbol_default in wanted.symbols else None
        return [symbol if symbol in wanted.symbols else other for symbol in step.written.symbols]

    def _logical(self, step: Step) -> str | None:
        return None if step.column is None else self._columns[step.column].type.present.logical

    def _make(self, octets: Octets, records: Records, taken: _Taken) -> pa.Array:
        """The column of a field.

        Raises:
            _WrongError: some texts are not UTF-8, or some decimals too long.
        """
        step, numbers, span, present = taken
        assert step.column is not None, "fields that are passed over make no column"
        is_null = records.is_bad if present is None else records.is_bad | ~present
        kind = self._types[step.column]
        if span is not None:
            if is_null.any():
                span = Span(span.starts, np.where(is_null, -1, span.lengths))
            if pa.types.is_decimal(kind):
                return _make_decimals(octets, span, self._columns[step.column].type.present, kind)
            return _make_bytes(octets, span, kind)
        assert numbers is not None, "a field has numbers or bytes"
        mask = is_null if is_null.any() else None
        if step.written.kind == "enum":
            indices = pa.array(np.where(is_null, 0, numbers).astype(np.int32), mask=mask)
            return pa.array(self._symbols(step), pa.string()).take(indices)
        return _make_numbers(numbers, step.written, self._logical(step), kind, mask)


def _make_numbers(
    numbers: NDArray[Any], written: AvroType, logical: str | None, kind: pa.DataType, mask: Bits | None
) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(
            numbers * np.int64(1000) if (written.logical or logical) in _MILLIS else numbers, mask=mask
        ).view(kind)
    if pa.types.is_date(kind):
        return pa.array(numbers.astype(np.int32), mask=mask).view(kind)
    with np.errstate(over="ignore"):
        return pa.array(numbers.astype(kind.to_pandas_dtype(), copy=False), mask=mask)


def _make_bytes(octets: Octets, span: Span, kind: pa.DataType) -> pa.Array:
    found = take_spans(octets, span, pa.binary())
    if not pa.types.is_string(kind):
        return found
    try:
        return found.cast(kind)
    except pa.ArrowInvalid:
        raise _WrongError(np.flatnonzero([not _is_text(one) for one in found.to_pylist()])) from None


def _is_text(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def _make_decimals(octets: Octets, span: Span, wanted: AvroType, kind: pa.DataType) -> pa.Array:
    """Two's complements, the highest byte first, as decimals of 16 bytes, the lowest first.

    Raises:
        _WrongError: some have more digits than the column.
    """
    lengths = np.maximum(span.lengths, 0)
    longest = int(lengths.max(initial=0))
    is_null = span.lengths < 0
    if longest > _DECIMAL_BYTES:
        return _make_long_decimals(octets, span, wanted, kind)
    fill = np.where((lengths > 0) & (octets[span.starts] >= 0x80), 0xFF, 0).astype(np.uint8)
    places = np.arange(_DECIMAL_BYTES)
    inside = places < lengths[:, None]
    at = np.where(inside, span.starts[:, None] + lengths[:, None] - 1 - places, 0)
    data = np.where(inside, octets[at], fill[:, None]).astype(np.uint8)
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    found = pa.Array.from_buffers(kind, len(lengths), [validity, pa.py_buffer(np.ascontiguousarray(data))])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        return _make_long_decimals(octets, span, wanted, kind)
    return found


def _make_long_decimals(octets: Octets, span: Span, wanted: AvroType, kind: pa.DataType) -> pa.Array:
    decimals, wrong = [], []
    for row, data in enumerate(take_spans(octets, span, pa.binary()).to_pylist()):
        try:
            decimals.append(None if data is None else decimal_of(data, wanted))
        except ValueError:
            wrong.append(row)
    if wrong:
        raise _WrongError(np.array(wrong))
    return pa.array(decimals, kind)


def bytes_of(values: pa.Array) -> tuple[Octets, Numbers]:
    """The bytes of binary values, which :data:`~esp.arrow.varints.SLACK` others follow, and where each begins, with the end."""
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first, end = int(offsets[0]), int(offsets[-1])
    octets = np.zeros(end - first + SLACK, np.uint8)
    if end > first:
        octets[: end - first] = np.frombuffer(data, np.uint8, end - first, first)
    return octets, offsets - first
