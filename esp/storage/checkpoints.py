"""The small text files that keep one offset per partition of a data directory (Kafka's ``OffsetCheckpointFile``).

They are hints (REC-6): a file that cannot be read counts as absent, with a warning, and an empty file has no entries.
"""

import logging
from collections.abc import Mapping

from esp.model.ids import TopicPartition
from esp.ports.disk import Disk

_logger = logging.getLogger(__name__)


def encode_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The file's text, in order of the partitions."""
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def decode_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """Read the file's text.

    Raises:
        ValueError: it is no such text.
    """
    if not data:
        return {}
    version, count, *lines = data.decode().splitlines()
    if version != "0":
        raise ValueError(f"version {version!r} is not known")
    if int(count) != len(lines):
        raise ValueError(f"{count} entries are announced, {len(lines)} are there")
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        topic, partition, offset = line.rsplit(" ", 2)
        if int(offset) < 0:
            raise ValueError(f"offset {offset} is negative")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def read_checkpoint(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The entries of a file; none if it is missing or cannot be read."""
    try:
        return decode_checkpoint(disk.read_file(path))
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        _logger.warning("%s cannot be read and counts as absent: %s", path, error)
        return {}


def write_checkpoint_blocking(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file durably.

    Raises:
        OSError: the device failed or is full; the old file is still there.
    """
    disk.replace_file_blocking(path, encode_checkpoint(offsets))
