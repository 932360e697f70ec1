"""Reading batch headers out of segment files."""

from pathlib import Path

from esp.records.builder import NewRecord, build_batch
from esp.testing.segment_files import read_batch_headers, segment_paths


def write(directory: Path, base: int, content: bytes) -> None:
    directory.mkdir(exist_ok=True, parents=True)
    (directory / f"{base:020d}.log").write_bytes(content)


def batch(base_offset: int, records: int, codec: int = 0) -> bytes:
    return build_batch([NewRecord(b"v")] * records, base_offset=base_offset, timestamp_ms=1, codec=codec)


def test_batches_of_all_segments_and_directories_come_in_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(one / "t-0", 5, batch(5, 1, codec=4))
    write(one / "t-0", 0, batch(0, 3) + batch(3, 2))
    write(two / "t-1", 0, batch(0, 1))
    headers = read_batch_headers([one, two], "t", 0)
    assert [(header.base_offset, header.record_count, header.codec) for header in headers] == [
        (0, 3, 0),
        (3, 2, 0),
        (5, 1, 4),
    ]
    assert [path.parent.parent for path in segment_paths([one, two], "t", 1)] == [two]


def test_torn_or_preallocated_end_is_not_a_batch(tmp_path: Path) -> None:
    whole = batch(0, 3)
    for tail in (whole[:30], whole[:-1], bytes(100), b""):
        write(tmp_path / "t-0", 0, whole + tail)
        assert len(read_batch_headers([tmp_path], "t")) == 1
