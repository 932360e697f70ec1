"""Batches of keyed records, made quickly: the records of a size are alike but for key, value and their own numbers."""

import os
import time
from collections.abc import Iterator
from random import Random
from typing import Final

from esp.records.builder import NewRecord, encode_records, seal_batch
from esp.records.compression import compress

KEY_SIZE: Final = 10
VALUE_SIZE: Final = 90
"""The bytes of a value: with its key a record has 100."""

BATCH_RECORDS: Final = 144
"""The records that a Java producer puts into a batch with its default ``batch.size`` of 16 KiB."""

RECORD_SIZE: Final = len(encode_records([NewRecord(bytes(VALUE_SIZE), bytes(KEY_SIZE))], [0]))
_VALUES: Final = 512
"""Different values; half of each is random, so that a codec has something to find."""


def keyed_batches(size: int, kept_share: float, codec: int, seed: int) -> Iterator[bytes]:
    """Yield batches with ``size`` bytes of records in all, before compression.

    Args:
        size: in bytes.
        kept_share: the number of keys beside that of records. Which key a record has is left to chance.
        codec: of the batches.
        seed: of the keys.
    """
    rng = Random(seed)
    count = size // RECORD_SIZE
    keys = range(max(1, int(count * kept_share)))
    values = [(os.urandom(VALUE_SIZE // 4).hex() + "value " * VALUE_SIZE)[:VALUE_SIZE].encode() for _ in range(_VALUES)]
    # what stands before the key and between key and value is the same for each place in a batch
    blank = NewRecord(b"v" * VALUE_SIZE, b"k" * KEY_SIZE)
    heads, position = [], 0
    whole = bytes(encode_records([blank] * BATCH_RECORDS, [0] * BATCH_RECORDS))
    middle_and_end = whole[whole.index(b"k" * KEY_SIZE) + KEY_SIZE :]
    middle = middle_and_end[: middle_and_end.index(b"v")]
    for _ in range(BATCH_RECORDS):
        start = whole.index(b"k" * KEY_SIZE, position)
        heads.append(whole[position:start])
        position = start + KEY_SIZE + len(middle) + VALUE_SIZE + 1
    for _ in range(count // BATCH_RECORDS):
        chosen = zip(heads, rng.choices(keys, k=BATCH_RECORDS), rng.choices(values, k=BATCH_RECORDS), strict=True)
        payload = b"".join([b"%b%010d%b%b\0" % (head, key, middle, value) for head, key, value in chosen])
        now_ms = time.time_ns() // 1_000_000
        yield seal_batch(
            compress(codec, payload), BATCH_RECORDS, base_timestamp=now_ms, max_timestamp=now_ms, attributes=codec
        )
