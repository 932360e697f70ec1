"""The fields of records: where keys, values and headers stand in the bytes, for all records at once."""

from typing import NamedTuple

import numpy as np

from esp.arrow.errors import BrokenRecordsError
from esp.arrow.varints import SIZES, VARLONG_BYTES, Numbers, Octets, read_varints, words_of


class Span(NamedTuple):
    """A run of bytes for each row; ``lengths`` is -1 where the row has none (null)."""

    starts: Numbers
    lengths: Numbers


class HeaderSpans(NamedTuple):
    """The headers of all records, record by record: how many each record has, and their names and values."""

    counts: Numbers
    names: Span
    values: Span


class RecordFields(NamedTuple):
    """The fields of some records, a column each; ``headers`` is None if no record has any."""

    timestamp_deltas: Numbers
    offset_deltas: Numbers
    keys: Span
    values: Span
    headers: HeaderSpans | None


def find_fields(octets: Octets, starts: Numbers, ends: Numbers) -> RecordFields:
    """Return the fields of the records that begin at ``starts`` and end at ``ends``.

    Raises:
        BrokenRecordsError: a field does not fit its record, or bytes follow the last field.
    """
    words = words_of(octets)
    heads = words[starts]
    sizes = SIZES[heads].astype(np.int64)
    if not sizes.all():
        longer = np.flatnonzero(sizes == 0)
        sizes[longer] = read_varints(octets, words, starts[longer])[1] - starts[longer]
    at = starts + sizes + 1  # behind the attributes, of which no bit has a meaning yet
    timestamp_deltas, at = read_varints(octets, words, at, VARLONG_BYTES)
    offset_deltas, at = read_varints(octets, words, at)
    _check(at, ends)
    keys, at = _read_span(octets, at, ends)
    _check(at, ends)
    values, at = _read_span(octets, at, ends)
    _check(at, ends)
    counts, at = read_varints(octets, words, at)
    headers = None
    if counts.any():
        headers, at = _find_headers(octets, at, ends, counts)
    if not np.array_equal(at, ends):
        raise BrokenRecordsError("the fields of a record do not fill it")
    return RecordFields(timestamp_deltas, offset_deltas, keys, values, headers)


def _check(positions: Numbers, ends: Numbers) -> None:
    if np.any(positions >= ends):
        raise BrokenRecordsError("a field goes beyond the end of its record")


def _read_span(octets: Octets, positions: Numbers, ends: Numbers) -> tuple[Span, Numbers]:
    lengths, starts = read_varints(octets, words_of(octets), positions)
    if np.any(lengths < -1):
        raise BrokenRecordsError("a field has a negative length")
    stops = starts + np.maximum(lengths, 0)
    if np.any(stops > ends):
        raise BrokenRecordsError("a field goes beyond the end of its record")
    return Span(starts, lengths), stops


def _find_headers(octets: Octets, at: Numbers, ends: Numbers, counts: Numbers) -> tuple[HeaderSpans, Numbers]:
    """Find the first headers of all records, then the second ones, and so on."""
    if np.any(counts < 0) or np.any(counts > ends - at):
        raise BrokenRecordsError("a record has an impossible number of headers")
    total = int(counts.sum())
    first = np.cumsum(counts) - counts
    columns = [np.zeros(total, np.int64) for _ in range(4)]
    at = at.copy()
    rows = np.flatnonzero(counts)
    number = 0
    while len(rows):
        _check(at[rows], ends[rows])
        names, behind = _read_span(octets, at[rows], ends[rows])
        if np.any(names.lengths < 0):
            raise BrokenRecordsError("a header has no name")
        _check(behind, ends[rows])
        values, behind = _read_span(octets, behind, ends[rows])
        places = first[rows] + number
        for column, found in zip(columns, (*names, *values), strict=True):
            column[places] = found
        at[rows] = behind
        number += 1
        rows = rows[counts[rows] > number]
    return HeaderSpans(counts, Span(columns[0], columns[1]), Span(columns[2], columns[3])), at
