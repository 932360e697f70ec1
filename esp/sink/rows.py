"""The rows of a batch by their target partitions. Pure; a batch of Arrow is handled as a whole.

A row goes to the partition that its column ``partition`` names, else to that of its key, as Kafka's clients choose it, else to one that its
value decides: the same rows go the same way whenever the batch comes again.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from esp.arrow.checksums import checksums_of
from esp.arrow.murmur2 import murmur2
from esp.arrow.varints import Numbers
from esp.consumer.errors import ConsumerError

TARGET: Final = "esp_target"
"""The column of target partitions."""
ROUTE: Final = "esp_route"
"""The column of numbers by which Spark brings rows to the task that writes them."""
RECORD_COLUMNS: Final = ("key", "value", "headers", "timestamp")
PARTITION: Final = "partition"

Hashes = NDArray[np.uint32]


class Rows(NamedTuple):
    """The rows of one partition.

    Attributes:
        partition: the partition.
        batches: their columns of records.
        size: their number.
        keys: a hash of their keys that does not depend on their order.
    """

    partition: int
    batches: tuple[pa.RecordBatch, ...]
    size: int
    keys: int


def find_targets(records: pa.RecordBatch, topic: str, partitions: int) -> Numbers:
    """Return the target partition of each row.

    Args:
        records: with a binary column ``value``, and perhaps ``key`` and ``partition``.
        topic: the topic, for messages.
        partitions: the number of its partitions.

    Raises:
        ConsumerError: a row names a partition that the topic has not.
    """
    named = _column(records, PARTITION)
    if named is not None and named.null_count == 0:
        return _checked(named.to_numpy(zero_copy_only=False).astype(np.int64), topic, partitions)
    hashes = _hash_rows(records, with_values=True)
    targets: Numbers = (hashes & np.uint32(0x7FFF_FFFF)).astype(np.int64) % partitions
    if named is not None and named.null_count < len(named):
        chosen = _checked(named.drop_null().to_numpy(zero_copy_only=False).astype(np.int64), topic, partitions)
        targets[named.is_valid().to_numpy(zero_copy_only=False)] = chosen
    return targets


def _checked(numbers: Numbers, topic: str, partitions: int) -> Numbers:
    wrong = numbers[(numbers < 0) | (numbers >= partitions)]
    if len(wrong):
        raise ConsumerError(
            f"a row has partition {wrong[0]}, and topic {topic} has {partitions}: correct the column partition, or leave it null"
        )
    return numbers


def divide(batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """Yield the rows of each partition, by its number; they keep their order.

    Args:
        batches: with the column :data:`TARGET`, and those of records.
    """
    some = [batch for batch in batches if batch.num_rows]
    if not some:
        return
    table = pa.Table.from_batches(some)
    targets = table.column(TARGET)
    for partition in sorted(pc.unique(targets).to_pylist()):
        rows = table.filter(pc.equal(targets, partition))
        whole = rows.combine_chunks().to_batches()
        keys = sum(hash_keys(batch) for batch in whole) & 0xFFFF_FFFF_FFFF_FFFF
        records = rows.select([name for name in RECORD_COLUMNS if name in rows.schema.names]).combine_chunks()
        yield Rows(partition, tuple(records.to_batches()), rows.num_rows, keys)


def hash_keys(records: pa.RecordBatch) -> int:
    """Return a hash of the keys of rows that does not depend on their order: a sum of 64 bits.

    Values count for rows without a key, if it is their values that decide where they go.
    """
    hashes = _hash_rows(records, with_values=_column(records, PARTITION) is None)
    return int(_mix(hashes.astype(np.uint64)).sum(dtype=np.uint64))


def _hash_rows(records: pa.RecordBatch, *, with_values: bool) -> Hashes:
    """The hash of each row's key, or of its value if it has none."""
    keys = _column(records, "key")
    if keys is not None:
        keys = _binary(keys)
    if keys is not None and keys.null_count == 0:
        return murmur2(keys)
    hashes = np.zeros(records.num_rows, np.uint32) if keys is None else murmur2(keys)
    if with_values:
        is_keyless = np.full(records.num_rows, True) if keys is None else keys.is_null().to_numpy(zero_copy_only=False)
        values = _binary(records.column("value"))
        _, offsets, data = values.buffers()
        borders = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        memory = memoryview(b"") if data is None else memoryview(data)
        rows = np.flatnonzero(is_keyless)
        pieces = [
            memory[first:end] for first, end in zip(borders[rows].tolist(), borders[rows + 1].tolist(), strict=True)
        ]
        hashes[rows] = checksums_of(pieces)
    return hashes


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread hashes over 64 bits, so that their sum tells more than their number (the finaliser of SplitMix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)


def _column(records: pa.RecordBatch, name: str) -> pa.Array | None:
    return records.column(name) if name in records.schema.names else None


def _binary(column: pa.Array) -> pa.Array:
    """The column with offsets of four bytes, which Spark may be set to make eight."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())
