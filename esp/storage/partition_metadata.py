"""``partition.metadata``: the topic to which a replica's directory belongs, in Kafka's format (KIP-516).

The file of a new replica becomes durable with its log's first flush, as the names in its directory do. A power loss before that may leave
it missing or torn; nothing in such a directory was ever promised (docs/decisions/0013-durable-with-the-first-flush.md).
"""

import string
from typing import Final

from esp.model.errors import OperatorError
from esp.model.ids import TopicId, uuid_from_base64, uuid_to_base64
from esp.ports.disk import Disk
from esp.storage.layout import PARTITION_METADATA_FILE, TEMPORARY_SUFFIX

_BEGINNING: Final = b"version: 0\ntopic_id: "
_ID_LENGTH: Final = 22
_ID_BYTES: Final = string.ascii_letters.encode() + string.digits.encode() + b"-_"


def write_topic_id(disk: Disk, replica_path: str, topic_id: TopicId) -> None:
    """Write the file, before any other of the log: a torn one belongs to a log that has no other files."""
    disk.write_file(f"{replica_path}/{PARTITION_METADATA_FILE}", _encode(topic_id))


def write_topic_id_blocking(disk: Disk, replica_path: str, topic_id: TopicId) -> None:
    """Write the file so that it is there whole or not at all; its name becomes durable with the directory's next sync."""
    temporary = f"{replica_path}/{PARTITION_METADATA_FILE}{TEMPORARY_SUFFIX}"
    disk.write_file(temporary, _encode(topic_id))
    file = disk.open(temporary)
    file.sync_blocking()
    file.close()
    disk.rename(temporary, f"{replica_path}/{PARTITION_METADATA_FILE}")


def _encode(topic_id: TopicId) -> bytes:
    return _BEGINNING + uuid_to_base64(topic_id).encode()


def is_torn(disk: Disk, replica_path: str) -> bool:
    """True if the file is what a power loss may leave of one that was not synced: bytes of it, nothing or zeros where others were."""
    data = disk.read_file(f"{replica_path}/{PARTITION_METADATA_FILE}")
    whole = zip(data, _BEGINNING, strict=False)
    return len(data) <= len(_BEGINNING) + _ID_LENGTH and (
        all(byte in (0, expected) for byte, expected in whole)
        and all(byte == 0 or byte in _ID_BYTES for byte in data[len(_BEGINNING) :])
    )


def read_topic_id(disk: Disk, replica_path: str) -> TopicId | None:
    """The id in the file; None if it is missing, as when the log's creation was cut off by a crash.

    Raises:
        OperatorError: it is damaged. No crash does that to a log that was flushed; without the id the replica would count as a stray, and
            an empty one would take its place.
    """
    path = f"{replica_path}/{PARTITION_METADATA_FILE}"
    try:
        entries = dict(line.split(": ", 1) for line in disk.read_file(path).decode().splitlines())
        return TopicId(uuid_from_base64(entries["topic_id"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise OperatorError(
            f"{path} cannot be read: {error}.",
            "Restore the file from a copy, or from that of another partition of the same topic: all of them hold the same two lines.",
        ) from error
