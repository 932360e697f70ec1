"""The marker's bytes are Kafka's, and nothing but a marker is read as one."""

import struct

import pytest

from esp.model.errors import CorruptionError
from esp.records.batch import check_batch
from esp.records.batch_header import CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT, read_header
from esp.records.builder import NewRecord, build_batch, seal_batch
from esp.records.compression import Codec
from esp.records.transaction_marker import Marker, build_marker, find_marker, read_marker


def control(key: bytes | None, value: bytes | None, *, codec: int = 0) -> bytes:
    return build_batch([NewRecord(value, key)], control=True, transactional=True, producer_id=1, codec=codec)


@pytest.mark.parametrize(("is_commit", "kind"), [(False, 0), (True, 1)])
def test_a_marker_has_kafka_s_bytes(*, is_commit: bool, kind: int) -> None:
    batch = build_marker(7, 3, is_commit=is_commit, coordinator_epoch=5, timestamp_ms=1_000)
    header = read_header(batch)
    check_batch(batch, header)
    assert len(batch) == 78
    assert header.attributes == TRANSACTIONAL_BIT | CONTROL_BIT
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 3, -1, 1)
    assert header.last_sequence == -1
    assert header.base_timestamp == header.max_timestamp == 1_000
    # Length, attributes and deltas; the key's version and type; the value's version and coordinator epoch; no headers.
    record = struct.pack(">bbbbbhhbhib", 2 * 16, 0, 0, 0, 2 * 4, 0, kind, 2 * 6, 0, 5, 0)
    assert batch[HEADER_SIZE:] == record


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_marker_is_read_back(*, is_commit: bool) -> None:
    batch = build_marker(7, 3, is_commit=is_commit, coordinator_epoch=2**31 - 1, timestamp_ms=0)
    assert read_marker(batch) == find_marker(batch) == Marker(is_commit, 2**31 - 1)


@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("codec", list(Codec))
def test_markers_of_other_forms_are_read_as_well(codec: Codec, *, is_commit: bool) -> None:
    key, value = struct.pack(">hh", 0, is_commit), struct.pack(">hi", 0, 4)
    for record in (NewRecord(value, key), NewRecord(value, key, (("name", b""),)), NewRecord(value + b"1", key + b"1")):
        batch = build_batch([record], control=True, transactional=True, producer_id=1, codec=codec)
        assert read_marker(batch) == read_marker(batch + b"behind") == Marker(is_commit, 4)


def test_later_versions_are_read_as_far_as_they_are_known() -> None:
    assert read_marker(control(struct.pack(">hhq", 1, 1, 9), struct.pack(">hiq", 2, 4, 9))) == Marker(True, 4)


@pytest.mark.parametrize(
    "batch",
    [
        control(struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 4)),
        control(struct.pack(">hh", -1, 0), struct.pack(">hi", 0, 4)),
        control(struct.pack(">hh", 0, 0), struct.pack(">hi", -1, 4)),
        control(struct.pack(">hh", 0, 0), b"\0\0\0"),
        control(b"\0", struct.pack(">hi", 0, 4)),
        control(None, None),
        seal_batch(b"", 0, base_timestamp=-1, max_timestamp=5, attributes=TRANSACTIONAL_BIT | CONTROL_BIT),
        control(struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 4))[:-1],
        build_batch([NewRecord(b"value", b"key")], codec=Codec.GZIP, control=True)[:-4] + b"\0\0\0\0",
    ],
    ids=["kind", "key version", "value version", "short value", "short key", "nulls", "empty", "cut", "compressed"],
)
def test_other_batches_are_no_markers(batch: bytes) -> None:
    with pytest.raises(CorruptionError):
        read_marker(batch)
    assert find_marker(batch) is None
