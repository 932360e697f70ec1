"""Records as rows, from decoded batches and from :mod:`esp.records`, which is the oracle."""

import random
from collections.abc import Iterable

import pyarrow as pa

from esp.arrow.errors import Place
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.records.builder import Record

PLACE = Place("events", 3)


def rows_of(decoded: Iterable[pa.RecordBatch]) -> list[Record]:
    """The rows of decoded batches with all columns but the type of the timestamp."""
    rows: list[Record] = []
    for batch in decoded:
        batch.validate(full=True)
        columns = batch.to_pydict()
        times = batch.column("timestamp").view(pa.int64()).to_pylist()
        for offset, time, key, value, headers in zip(
            columns["offset"], times, columns["key"], columns["value"], columns["headers"], strict=True
        ):
            pairs = tuple((header["key"], header["value"]) for header in headers or ())
            assert headers is None or pairs, "no headers are null"
            rows.append(Record(offset, time, key, value, pairs))
    return rows


def records_of(batches: Iterable[bytes]) -> list[Record]:
    """The records of batches that no consumer is kept from."""
    return [record for batch in batches if not read_header(batch).is_control for record in iterate_records(batch)]


def texts(seed: int, count: int, least: int, most: int) -> list[bytes]:
    """So many values of random sizes."""
    random_ = random.Random(seed)
    return [random_.randbytes(random_.randint(least, most)) for _ in range(count)]
