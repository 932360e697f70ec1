"""The batches in a node's segment files, read from outside the node.

Clients fall back without notice: librdkafka sends plain batches if it believes that the broker does not support lz4. Tests of codecs, of
idempotence and of timestamps therefore read the files.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from esp.records.batch_header import HEADER_SIZE, BatchHeader, read_header


def segment_paths(log_dirs: Iterable[Path], topic: str, partition: int = 0) -> list[Path]:
    """Return the partition's ``.log`` files in order of their offsets."""
    return sorted(path for directory in log_dirs for path in (directory / f"{topic}-{partition}").glob("*.log"))


def read_batch_headers(log_dirs: Iterable[Path], topic: str, partition: int = 0) -> list[BatchHeader]:
    """Return the headers of all whole batches in the partition's segments, in order."""
    return [header for path in segment_paths(log_dirs, topic, partition) for header in _iterate(path.read_bytes())]


def _iterate(content: bytes) -> Iterator[BatchHeader]:
    position = 0
    while position + HEADER_SIZE <= len(content):
        header = read_header(content, position)
        if header.batch_length <= 0 or position + header.size > len(content):
            return
        yield header
        position += header.size
