"""Names of files and directories below a data directory, and reading them back: Kafka's (``LogFileUtils``, ``LocalLog``)."""

import re
from enum import Enum
from typing import Final, NamedTuple

from esp.model.ids import TopicId, TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
"""Files beside a segment that mean nothing without it."""
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
"""Files that live and die with a segment; a snapshot also stands alone."""

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"

LOCK_FILE: Final = ".lock"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
RUNNING_FILE: Final = ".esp_running"
LOADING_FILE: Final = ".esp_loading"
RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"

_NAME_BYTES_MAX: Final = 255
"""The limit of file systems for one name, in bytes."""
_OFFSET_FILE: Final = re.compile(r"(\d{20})(\.\w+)")
_REPLICA: Final = re.compile(r"(.+)-(\d+)")
_MARKED_REPLICA: Final = re.compile(r"(.+)-(\d+)\.([0-9a-f]{32})-(delete|future|stray)")


class DirectoryKind(Enum):
    """The content of a directory below a data directory."""

    REPLICA = "replica"
    DELETE = "delete"
    """A removed replica, kept for ``file.delete.delay.ms``."""
    FUTURE = "future"
    """A replica that is moving here from another data directory."""
    STRAY = "stray"
    """A replica that the metadata did not know; kept for the operator."""


class DirectoryName(NamedTuple):
    """A replica's directory name, taken apart."""

    partition: TopicPartition
    kind: DirectoryKind


def offset_file_name(offset: int, suffix: str) -> str:
    """The name of a file that belongs to an offset: 20 digits and a suffix."""
    return f"{offset:020d}{suffix}"


def parse_offset_file_name(name: str) -> tuple[int, str] | None:
    """The offset and suffix of such a name; None if it is no such name, or has a second suffix."""
    match = _OFFSET_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def replica_directory_name(partition: TopicPartition) -> str:
    """The directory of a partition's replica."""
    return f"{partition.topic}-{partition.partition}"


def marked_directory_name(partition: TopicPartition, unique: TopicId, kind: DirectoryKind) -> str:
    """The name under which a replica's directory is put aside; ``unique`` keeps a topic of the same name apart.

    It is cut at its front part to the length that file systems allow.
    """
    suffix = f".{unique.hex}-{kind.value}"
    number = f"-{partition.partition}"
    topic = partition.topic[: _NAME_BYTES_MAX - len(suffix) - len(number)]
    return topic + number + suffix


def parse_directory_name(name: str) -> DirectoryName | None:
    """Return the parts of a directory's name; None if it is not a replica's."""
    if match := _MARKED_REPLICA.fullmatch(name):
        return DirectoryName(TopicPartition(match[1], int(match[2])), DirectoryKind(match[4]))
    if match := _REPLICA.fullmatch(name):
        return DirectoryName(TopicPartition(match[1], int(match[2])), DirectoryKind.REPLICA)
    return None
