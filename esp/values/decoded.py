"""Decoded values: a column for each field, and which rows could not be decoded in full."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Decoded(NamedTuple):
    """Rows in columns.

    Attributes:
        columns: in the order of the schema.
        is_bad: true for rows whose value could not be decoded in full; of JSON some of their fields may be there.
    """

    columns: list[pa.Array]
    is_bad: NDArray[np.bool_]


def join(parts: Sequence[Decoded]) -> Decoded:
    """The rows of one part behind those of another; at least one part."""
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    return Decoded(columns, np.concatenate([part.is_bad for part in parts]))


def interleave(parts: Sequence[Decoded], places: Sequence[NDArray[np.intp]]) -> Decoded:
    """Rows at the places where they stood.

    Args:
        parts: of the rows; at least one.
        places: for each part the numbers of its rows in the result. All together they are 0 and up, each once.
    """
    joined = join(parts)
    order = np.empty(len(joined.is_bad), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    taking = pa.array(order)
    return Decoded([column.take(taking) for column in joined.columns], joined.is_bad[order])


def nulls(schema: pa.Schema, count: int, *, are_bad: bool) -> Decoded:
    """Rows without any value."""
    return Decoded([pa.nulls(count, field.type) for field in schema], np.full(count, are_bad))
