"""Values to columns: records per second of processor time. ``python -m benchmarks.values``.

The values are flights, in JSON of 166 bytes and in Avro of 34. Each figure is the best of several rounds: other work on the machine makes
rounds slower, nothing makes them faster. ``python -m benchmarks.spark_values`` has those of Spark's own functions.
"""

import argparse
import json
import random
from collections.abc import Callable
from datetime import UTC
from functools import partial
from typing import Any, Final

import pyarrow as pa

from benchmarks.arrow import best_rate
from esp.values.avro_records import NestedDecoder
from esp.values.avro_schema import parse_avro
from esp.values.avro_values import AvroDecoder, RegisteredDecoder
from esp.values.ddl import parse_ddl
from esp.values.json_records import JsonRecords
from esp.values.json_values import JsonDecoder

RECORDS: Final = 100_000
"""The records of a block: about as many as a piece of fetched bytes has."""
SLOW_RECORDS: Final = 20_000

DDL: Final = (
    "id INT, event_time TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "dep_delay INT, arr_delay INT, distance INT"
)
AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "int"},
            {"name": "tailnum", "type": ["null", "string"]},
            {"name": "origin", "type": "string"},
            {"name": "dest", "type": "string"},
            {"name": "dep_delay", "type": ["null", "int"]},
            {"name": "arr_delay", "type": ["null", "int"]},
            {"name": "distance", "type": "int"},
        ],
    }
)
START_MS: Final = 1_357_016_400_000


def make_flights(count: int) -> list[dict[str, Any]]:
    """So many flights; times in milliseconds."""
    source = random.Random(1)
    return [
        {
            "id": number,
            "event_time": START_MS + number * 60_000,
            "carrier": source.choice(["UA", "AA", "B6"]),
            "flight": source.randrange(5000),
            "tailnum": f"N{source.randrange(99_999):05}",
            "origin": source.choice(["JFK", "LGA", "EWR"]),
            "dest": "LAX",
            "dep_delay": source.choice([None, 5, -3]),
            "arr_delay": source.randrange(-50, 100),
            "distance": source.randrange(3000),
        }
        for number in range(count)
    ]


def as_json(flights: list[dict[str, Any]]) -> pa.Array:
    """The flights in JSON, times as texts."""
    times = pa.array([flight["event_time"] for flight in flights]).view(pa.timestamp("ms")).to_pylist()
    made = [
        json.dumps({**flight, "event_time": f"{time:%Y-%m-%dT%H:%M:%SZ}"}, separators=(",", ":")).encode()
        for flight, time in zip(flights, times, strict=True)
    ]
    return pa.array(made, pa.binary())


def as_avro(flights: list[dict[str, Any]]) -> pa.Array:
    """The flights in Avro, field by field."""
    return pa.array([b"".join(_encode(flight)) for flight in flights], pa.binary())


def _encode(flight: dict[str, Any]) -> list[bytes]:
    parts = []
    for name, value in flight.items():
        if name in ("tailnum", "dep_delay", "arr_delay"):
            parts.append(b"\0" if value is None else b"\x02")
        if isinstance(value, str):
            parts += [_varint(len(value)), value.encode()]
        elif value is not None:
            parts.append(_varint(value))
    return parts


def _varint(value: int) -> bytes:
    raw = value << 1 ^ value >> 63
    made = bytearray()
    while raw > 0x7F:
        made.append(raw & 0x7F | 0x80)
        raw >>= 7
    made.append(raw)
    return bytes(made)


def measure_decoders(json_values: pa.Array, avro_values: pa.Array, rounds: int) -> dict[str, float]:
    """Millions of records per second of processor time, by what was decoded."""
    writer = parse_avro(AVRO)
    in_json, one_by_one = JsonDecoder(parse_ddl(DDL), UTC), JsonRecords(parse_ddl(DDL), UTC)
    in_avro, nested, registered = (
        AvroDecoder(AVRO),
        NestedDecoder(writer, writer),
        RegisteredDecoder(AVRO, lambda _: AVRO),
    )
    spoiled = pa.array(
        [b"{" if number % 1000 == 0 else value for number, value in enumerate(json_values.to_pylist())], pa.binary()
    )
    behind_ids = pa.array(
        [b"\0\0\0\0%c" % (number % 3) + value for number, value in enumerate(avro_values.to_pylist())], pa.binary()
    )
    few = slice(0, SLOW_RECORDS)
    cases: dict[str, tuple[Callable[[pa.Array], Any], pa.Array]] = {
        "JSON": (in_json.decode, json_values),
        "JSON, one of 1,000 spoiled": (in_json.decode, spoiled),
        "JSON, one by one": (one_by_one.decode, json_values[few]),
        "Avro": (in_avro.decode, avro_values),
        "Avro, three writers of a registry": (registered.decode, behind_ids),
        "Avro, by fastavro": (lambda values: nested.decode(values, 0), avro_values[few]),
    }
    return {name: best_rate(partial(_decode_all, decode, values), rounds) for name, (decode, values) in cases.items()}


def _decode_all(decode: Callable[[pa.Array], Any], values: pa.Array) -> int:
    """Decode the values, and return their number; 0 if nothing comes of it."""
    return len(values) if decode(values) else 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    flights = make_flights(RECORDS)
    json_values, avro_values = as_json(flights), as_avro(flights)
    print("| values | million records per CPU second |")
    print("| --- | ---: |")
    found = measure_decoders(json_values, avro_values, options.rounds)
    for name, rate in found.items():
        print(f"| {name} | {rate:.2f} |")


if __name__ == "__main__":
    main()
