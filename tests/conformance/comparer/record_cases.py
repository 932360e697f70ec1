"""Cases about records: written, read, found, deleted."""

from typing import Any, Final

from crc32c import crc32c

from esp.protocol.registry import ApiKey
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, pack_header, read_header
from esp.records.compression import Codec
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.setup import (
    EMPTY,
    MISSING,
    MISSING_ID,
    PACKED,
    RECORDS,
    TIMESTAMP_MS,
    batch,
    produce,
)
from tests.conformance.comparer.target import Target

_TOPIC_IDS_FROM: Final = 13
_KEY = ApiKey


def _offsets(topic: str, *asked: tuple[int, int], epoch: int = -1) -> dict[str, Any]:
    partitions = [
        {"partition_index": number, "timestamp": timestamp, "current_leader_epoch": epoch}
        for number, timestamp in asked
    ]
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": partitions}],
        "timeout": 5000,
    }


def _epochs(topic: str, partition: int, epoch: int, current: int = -1) -> dict[str, Any]:
    asked = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]}


def _fetch(target: Target, version: int, topic: str, partition: int, offset: int, **more: Any) -> dict[str, Any]:
    asked = {
        "partition": partition,
        "current_leader_epoch": more.get("epoch", -1),
        "fetch_offset": offset,
        "partition_max_bytes": more.get("partition_max_bytes", 1_000_000),
    }
    topic_id = None if version < _TOPIC_IDS_FROM else MISSING_ID if topic == MISSING else target.topic_id(topic)
    return {
        "replica_id": -1,
        "max_wait": 10,
        "min_bytes": more.get("min_bytes", 1),
        "max_bytes": more.get("max_bytes", 10_000_000),
        "session_id": more.get("session_id", 0),
        "session_epoch": more.get("session_epoch", -1),
        "topics": [{"topic": topic, "topic_id": topic_id, "partitions": [asked]}],
    }


def _produced(
    target: Target, version: int, topic: str, partition: int, records: bytes | None, **more: Any
) -> dict[str, Any]:
    content = produce(topic, partition, records, **more)
    if version >= _TOPIC_IDS_FROM:
        content["topic_data"][0]["topic_id"] = MISSING_ID if topic == MISSING else target.topic_id(topic)
    return content


def _deleted(topic: str, *asked: tuple[int, int], timeout: int = 10_000) -> dict[str, Any]:
    partitions = [{"partition_index": number, "offset": offset} for number, offset in asked]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout": timeout}


def _producers(topic: str, *numbers: int) -> dict[str, Any]:
    return {"topics": [{"name": topic, "partition_indexes": numbers}]}


_SPOILED: Final = batch(2)[:-1] + b"\xff"


def _sealed(whole: bytes) -> bytes:
    """The batch with the checksum that its bytes have."""
    return pack_header(read_header(whole)._replace(crc=crc32c(whole[ATTRIBUTES_OFFSET:]))) + whole[HEADER_SIZE:]


def _packed(name: str, records: bytes, first_version: int = 0) -> Case:
    return Case(name, _KEY.PRODUCE, lambda t, v: _produced(t, v, PACKED, 0, records), first_version)


_GZIP: Final = batch(2, codec=Codec.GZIP)
_ZSTD_FROM: Final = 7

CASES: Final = (
    Case("batch", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, batch(2))),
    Case("one replica", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, batch(1), acks=1)),
    Case("bad acks", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, batch(1), acks=2)),
    Case("missing", _KEY.PRODUCE, lambda t, v: _produced(t, v, MISSING, 0, batch(1))),
    Case("missing partition", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 9, batch(1))),
    Case("spoiled", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, _SPOILED)),
    Case("cut", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, batch(2)[:-5])),
    Case("no records", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, b"")),
    Case("two batches", _KEY.PRODUCE, lambda t, v: _produced(t, v, RECORDS, 2, batch(1) * 2)),
    Case(
        "gap of an idempotent producer",
        _KEY.PRODUCE,
        lambda t, v: _produced(t, v, RECORDS, 1, batch(1, producer_id=4711, producer_epoch=0, base_sequence=7)),
    ),
    _packed("unpacked from gzip", _GZIP),
    _packed("unpacked from snappy", batch(2, codec=Codec.SNAPPY)),
    _packed("unpacked from lz4", batch(2, codec=Codec.LZ4)),
    _packed("unpacked from zstd", batch(2, codec=Codec.ZSTD), _ZSTD_FROM),
    _packed("grown too large", batch(60, codec=Codec.GZIP)),
    _packed(
        "more records than there are",
        _sealed(pack_header(read_header(_GZIP)._replace(record_count=3, last_offset_delta=2)) + _GZIP[HEADER_SIZE:]),
    ),
    _packed(
        "fewer records than there are",
        _sealed(pack_header(read_header(_GZIP)._replace(record_count=1, last_offset_delta=0)) + _GZIP[HEADER_SIZE:]),
    ),
    _packed("not of its codec", _sealed(_GZIP[:HEADER_SIZE] + bytes(len(_GZIP) - HEADER_SIZE))),
    Case("unpacked", _KEY.FETCH, lambda t, v: _fetch(t, v, PACKED, 0, 0)),
    Case("from 0", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 0)),
    Case("from 12", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 12)),
    Case("end", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 15)),
    Case("beyond", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 16)),
    Case("negative", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, -1)),
    Case("missing", _KEY.FETCH, lambda t, v: _fetch(t, v, MISSING, 0, 0)),
    Case("missing partition", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 9, 0)),
    Case("old epoch", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 0, epoch=7), 9),
    Case("little room", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 0, partition_max_bytes=1, max_bytes=1)),
    Case("session", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 0, session_epoch=0), 7),
    Case("no such session", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 0, session_id=77, session_epoch=3), 7),
    Case("ends", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -1), (1, -2), (2, -2))),
    Case("times", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, TIMESTAMP_MS + 3), (1, 0), (2, 2**62))),
    Case("largest time", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -3))),
    Case("largest time of none", _KEY.LIST_OFFSETS, _offsets(EMPTY, (0, -3))),
    Case("local", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -4))),
    Case("tiered", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -5))),
    Case("pending", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -6))),
    Case("no such time", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -9))),
    Case("missing", _KEY.LIST_OFFSETS, _offsets(MISSING, (0, -1))),
    Case("missing partition", _KEY.LIST_OFFSETS, _offsets(RECORDS, (9, -1), (-1, -1))),
    Case("epoch", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -1), epoch=0), 4),
    Case("newer epoch", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -1), epoch=7), 4),
    Case("epoch", _KEY.OFFSET_FOR_LEADER_EPOCH, _epochs(RECORDS, 0, 0)),
    Case("newer epoch", _KEY.OFFSET_FOR_LEADER_EPOCH, _epochs(RECORDS, 0, 5)),
    Case("newer current epoch", _KEY.OFFSET_FOR_LEADER_EPOCH, _epochs(RECORDS, 0, 0, 5)),
    Case("missing", _KEY.OFFSET_FOR_LEADER_EPOCH, _epochs(MISSING, 0, 0)),
    Case("missing partition", _KEY.OFFSET_FOR_LEADER_EPOCH, _epochs(RECORDS, 9, 0)),
    Case(
        "idempotent",
        _KEY.INIT_PRODUCER_ID,
        {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
    ),
    Case("one", _KEY.DELETE_RECORDS, lambda _, v: _deleted(RECORDS, (0, v + 1))),
    Case("gone already", _KEY.DELETE_RECORDS, _deleted(RECORDS, (0, 1))),
    Case("beyond", _KEY.DELETE_RECORDS, _deleted(RECORDS, (0, 16))),
    Case("negative", _KEY.DELETE_RECORDS, _deleted(RECORDS, (0, -2))),
    Case("missing", _KEY.DELETE_RECORDS, _deleted(MISSING, (0, 1))),
    Case("missing partition", _KEY.DELETE_RECORDS, _deleted(RECORDS, (9, 1), (-1, 1))),
    Case("internal", _KEY.DELETE_RECORDS, _deleted("__consumer_offsets", (0, 0))),
    Case("nothing there", _KEY.DELETE_RECORDS, _deleted(EMPTY, (0, -1), (1, 0))),
    Case("twice", _KEY.DELETE_RECORDS, _deleted(RECORDS, (0, 4), (0, 5))),
    Case("no partition", _KEY.DELETE_RECORDS, _deleted(RECORDS)),
    Case("no time", _KEY.DELETE_RECORDS, _deleted(RECORDS, (0, 6), timeout=0)),
    Case("no topic", _KEY.DELETE_RECORDS, {"topics": [], "timeout": 1000}),
    Case("after deletion", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 0)),
    Case("within what is left", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 6)),
    Case("start after deletion", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -2), (1, -2))),
    Case("twice", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -2), (0, -1))),
    Case("all", _KEY.DELETE_RECORDS, _deleted(RECORDS, (0, -1))),
    Case("all gone", _KEY.FETCH, lambda t, v: _fetch(t, v, RECORDS, 0, 15)),
    Case("all gone", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, -3), (1, -1))),
    Case("no time left", _KEY.LIST_OFFSETS, _offsets(RECORDS, (0, TIMESTAMP_MS))),
    Case("some", _KEY.DESCRIBE_PRODUCERS, _producers(RECORDS, 0, 1, 9)),
    Case("missing", _KEY.DESCRIBE_PRODUCERS, _producers(MISSING, 0)),
    Case("no name", _KEY.DESCRIBE_PRODUCERS, _producers("", 0)),
    Case("bad name", _KEY.DESCRIBE_PRODUCERS, _producers("a b", 0)),
    Case("no partition", _KEY.DESCRIBE_PRODUCERS, _producers(RECORDS)),
)
