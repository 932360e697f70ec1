"""Replicas of topics in the trash: put aside under a name that Kafka's brokers never delete, and given back, or removed (TRASH-2).

Their directories end in ``-stray``, as those of replicas do that the metadata does not know. The file ``trash.metadata`` tells them apart.
It is there before the directory gets that name, and has what the checkpoints of the data directory said of the log. A directory that has
both its own name and the file was given back, or was on its way to the trash when the process ended: the metadata decide. One that is an
ordinary replica, or a true stray, from then on loses the file first, durably: nothing but the file would have a later start remove it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from esp.model.errors import OperatorError
from esp.model.ids import TopicId, TopicPartition, uuid_from_base64, uuid_to_base64
from esp.ports.disk import Disk
from esp.storage.layout import DirectoryKind, parse_directory_name
from esp.storage.recovery import KnownOffsets

TRASH_FILE: Final = "trash.metadata"

UNKNOWN_EPOCH: Final = -1
"""The leader epoch of a mark that an earlier release wrote without one."""


@dataclass(frozen=True, slots=True)
class TrashedReplica:
    """A log in the trash."""

    path: str
    topic_id: TopicId
    number: int
    """The number of the partition."""
    offsets: KnownOffsets
    is_complete: bool
    """True if all of it was made durable when it was put aside; it has every record then that it ever had."""
    metadata_offset: int
    """The offset of the metadata that had the topic in the trash: older ones do not know it."""
    leader_epoch: int = UNKNOWN_EPOCH
    """The leader epoch of the partition when its topic was deleted."""

    @property
    def key(self) -> tuple[TopicId, int]:
        """The id of the topic, and the number of the partition."""
        return self.topic_id, self.number

    def is_of_last_deletion(self, restored_epoch: int) -> bool:
        """True unless the topic was restored, led and deleted again since, before it was restored with that leader epoch.

        Metadata that are older than the mark say the same of it. So does a mark without an epoch: nothing contradicts it.
        """
        return self.leader_epoch == UNKNOWN_EPOCH or self.leader_epoch >= restored_epoch - 1


class TrashedReplicas:
    """The replicas in the trash of one data directory.

    Args:
        disk: where it lives.
        directory: the data directory's path.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.by_key: dict[tuple[TopicId, int], TrashedReplica] = {}

    def find(self, path: str) -> bool:
        """Look into a directory that ends in ``-stray``, at the start; true if it is in the trash, and now in :attr:`by_key`.

        Raises:
            OperatorError: its file is damaged.
            OSError: the device failed.
        """
        replica = self.read_mark(path)
        if replica is None:
            return False
        self.by_key[replica.key] = replica
        return True

    def read_mark(self, path: str) -> TrashedReplica | None:
        """The mark in a replica's directory, whatever the directory is called; None if there is none.

        Raises:
            OperatorError: the file is damaged.
            OSError: the device failed.
        """
        parsed = parse_directory_name(path.rpartition("/")[2])
        if parsed is None or not self._disk.exists(f"{path}/{TRASH_FILE}"):
            return None
        return _decode(self._disk.read_file(f"{path}/{TRASH_FILE}"), path, parsed.partition.partition)

    def mark_blocking(self, replica: TrashedReplica) -> None:
        """Write, durably, that the directory is on its way to the trash. Raises OSError."""
        self._disk.replace_file_blocking(f"{replica.path}/{TRASH_FILE}", _encode(replica))

    def add(self, replica: TrashedReplica, path: str) -> None:
        """The replica's directory was renamed to ``path``."""
        self.by_key[replica.key] = replace(replica, path=path)

    def unmark_blocking(self, path: str) -> None:
        """Remove the mark of a directory, durably: it is an ordinary replica now, or a true stray. Raises OSError."""
        if self._disk.exists(f"{path}/{TRASH_FILE}"):
            self._disk.remove(f"{path}/{TRASH_FILE}")
            self._disk.sync_directory_blocking(path)

    def keep_as_stray_blocking(self, replica: TrashedReplica) -> None:
        """The metadata place it elsewhere: it is a true stray from now on, under the name that it has (REASSIGN-4). Raises OSError."""
        self.unmark_blocking(replica.path)
        del self.by_key[replica.key]

    def of_topics(self, topic_ids: Iterable[TopicId]) -> list[TrashedReplica]:
        """The replicas of these topics."""
        wanted = frozenset(topic_ids)
        return [replica for replica in self.by_key.values() if replica.topic_id in wanted]


def name_in_trash(replica: TrashedReplica) -> TopicPartition:
    """The name that the directory bears, which may be cut off."""
    parsed = parse_directory_name(replica.path.rpartition("/")[2])
    assert parsed is not None
    assert parsed.kind is DirectoryKind.STRAY
    return parsed.partition


def _encode(replica: TrashedReplica) -> bytes:
    known = replica.offsets
    lines: dict[str, int | str] = {
        "version": 0,
        "topic_id": uuid_to_base64(replica.topic_id),
        "recovery_point": known.recovery_point,
        "log_start": known.log_start_offset,
        "has_log_start": int(known.has_log_start),
        "high_watermark": known.high_watermark,
        "cleaned_to": known.cleaned_to,
        "is_complete": int(replica.is_complete),
        "metadata_offset": replica.metadata_offset,
        "leader_epoch": replica.leader_epoch,
    }
    return "".join(f"{name}: {value}\n" for name, value in lines.items()).encode()


def _decode(data: bytes, path: str, number: int) -> TrashedReplica:
    try:
        lines = dict(line.split(": ", 1) for line in data.decode().splitlines())
        topic_id = TopicId(uuid_from_base64(lines.pop("topic_id")))
        entries = {name: int(value) for name, value in lines.items()}
        known = KnownOffsets(
            entries["recovery_point"],
            entries["log_start"],
            entries["high_watermark"],
            entries["cleaned_to"],
            has_log_start=bool(entries["has_log_start"]),
        )
        return TrashedReplica(
            path,
            topic_id,
            number,
            known,
            bool(entries["is_complete"]),
            entries["metadata_offset"],
            entries.get("leader_epoch", UNKNOWN_EPOCH),
        )
    except (ValueError, KeyError) as error:
        raise OperatorError(
            f"{path}/{TRASH_FILE} cannot be read: {error}.",
            "Without the file, the directory is one that the metadata does not know: it is kept until you remove it.",
        ) from error
