"""``partition.metadata``: to which topic a replica's directory belongs, in Kafka's format (KIP-516)."""

from esp.model.errors import OperatorError
from esp.model.ids import TopicId, uuid_from_base64, uuid_to_base64
from esp.ports.disk import Disk
from esp.storage.layout import PARTITION_METADATA_FILE, TEMPORARY_SUFFIX


def write_topic_id_blocking(disk: Disk, replica_path: str, topic_id: TopicId) -> None:
    """Write the file, so that it is there whole or not at all; its name becomes durable with the directory's next sync."""
    path = f"{replica_path}/{PARTITION_METADATA_FILE}"
    temporary = path + TEMPORARY_SUFFIX
    disk.write_file(temporary, f"version: 0\ntopic_id: {uuid_to_base64(topic_id)}".encode())
    file = disk.open(temporary)
    file.sync_blocking()
    file.close()
    disk.rename(temporary, path)


def read_topic_id(disk: Disk, replica_path: str) -> TopicId | None:
    """The id in the file; None if it is missing, as when the log's creation was cut off by a crash.

    Raises:
        OperatorError: it is damaged, which no crash does: it is written whole or not at all. Without the id the replica would
            count as a stray, and an empty one would take its place.
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
