"""Record batches to Arrow columns and back: records per second of processor time. ``python -m benchmarks.arrow``.

Records have 100 bytes of key and value. Each figure is the best of several rounds: other work on the machine makes rounds slower, nothing
makes them faster.
"""

import argparse
import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import pyarrow as pa

from esp.arrow.codecs import CODECS
from esp.arrow.decoding import COLUMNS, decode
from esp.arrow.encoding import encode
from esp.arrow.errors import Place
from esp.arrow.varints import SLACK

RECORDS: Final = 100_000
KEY_BYTES: Final = 10
START_MS: Final = 1_700_000_000_000
PLACE: Final = Place("benchmark", 0)


class Shape(NamedTuple):
    """One row of the table.

    Attributes:
        batch_bytes: of records in a batch.
        spread: by how many bytes values are shorter or longer than the mean.
        codec: Kafka's name.
    """

    batch_bytes: int
    spread: int
    codec: str


SHAPES: Final = [
    Shape(16_384, 0, "none"),
    Shape(16_384, 40, "none"),
    Shape(1_000_000, 40, "none"),
    *(Shape(16_384, 40, codec) for codec in ("gzip", "snappy", "lz4", "zstd")),
]


def make_columns(count: int, spread: int) -> pa.RecordBatch:
    """So many records as columns."""
    source = random.Random(1)
    sizes = [100 - KEY_BYTES + (source.randint(-spread, spread) if spread else 0) for _ in range(count)]
    values = ["".join(source.choices("abcdefghij0123456789", k=size)).encode() for size in sizes]
    keys = [b"key-%06d" % number for number in range(count)]
    times = pa.array([START_MS + number for number in range(count)]).view(pa.timestamp("ms", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), times], names=["key", "value", "timestamp"]
    )


def best_rate(work: Callable[[], int], rounds: int) -> float:
    """Millions of records per second of processor time."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        count = work()
        best = min(best, (time.process_time() - begun) / count)
    return 1e-6 / best


def measure_shape(shape: Shape, records: int, rounds: int) -> tuple[float, float, float]:
    """Return the best rates of decoding all columns, decoding value and offset, and encoding."""
    rows = make_columns(records, shape.spread)
    codec = CODECS[shape.codec]
    made = b"".join(one.data for one in encode(rows, batch_bytes=shape.batch_bytes, codec=codec, first_offset=0))
    data = made + bytes(SLACK)  # as a fetched answer has them

    def decoded(*columns: str) -> int:
        return sum(batch.num_rows for batch in decode(data, PLACE, columns=columns))

    def encoded() -> int:
        return sum(one.record_count for one in encode(rows, batch_bytes=shape.batch_bytes, codec=codec))

    return (
        best_rate(lambda: decoded(*COLUMNS), rounds),
        best_rate(lambda: decoded("value", "offset"), rounds),
        best_rate(encoded, rounds),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--records", type=int, default=RECORDS)
    options = parser.parse_args()
    print("| batch bytes | value sizes | codec | decode, all columns | decode, value and offset | encode |")
    print("| ---: | --- | --- | ---: | ---: | ---: |")
    for shape in SHAPES:
        rates = measure_shape(shape, options.records, options.rounds)
        sizes = f"90 ± {shape.spread}" if shape.spread else "90"
        print(
            f"| {shape.batch_bytes} | {sizes} | {shape.codec} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |"
        )


if __name__ == "__main__":
    main()
