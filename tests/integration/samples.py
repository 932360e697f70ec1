"""Records that tests write with one client and expect back from it or another."""

import time
from typing import NamedTuple

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's codecs: clients' name, number in a batch's attributes."""

MESSAGE_MAX_BYTES = 1_048_588
"""Kafka's default ``message.max.bytes``: of a whole batch."""


class Sample(NamedTuple):
    """A record as a client gives and gets it; the timestamp in milliseconds."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def odd_records() -> list[Sample]:
    """Records with whatever is easily got wrong, then enough plain ones that every codec has something to compress."""
    now = time.time_ns() // 1_000_000
    odd = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"", b"empty key", ()),
        (b"tombstone", None, ()),
        (b"empty value", b"", ()),
        (b"\x00\xff\x80", b"\xfe\x00\x01", (("binary", b"\x00\xff"),)),
        (b"headers", b"v", (("a", b"1"), ("b", b""), ("a", b"2"))),
        ("schlüssel".encode(), "wért".encode(), (("näme", b"x"),)),
        (b"long", b"z" * 20_000, ()),
    ]
    plain = [(b"k%d" % (i % 7), b"value %d of many" % i, (("n", b"%d" % i),)) for i in range(200)]
    return [Sample(key, value, headers, now - 1000 + i) for i, (key, value, headers) in enumerate([*odd, *plain])]
