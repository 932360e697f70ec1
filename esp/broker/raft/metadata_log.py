"""The files of the metadata log, as the raft driver finds them at its start: the log itself, read batch by batch, and ``quorum-state``."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import METADATA_PARTITION, METADATA_TOPIC_ID, NodeId
from esp.ports.disk import Disk
from esp.ports.env import Env
from esp.raft import quorum_state
from esp.raft.quorum_state import QuorumState
from esp.records.batch import check_batch, read_whole_header
from esp.records.batch_header import BatchHeader
from esp.settings.topic import TopicSettings
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

METADATA_LOG_SETTINGS: Final = TopicSettings(retention_ms=-1, retention_bytes=-1)
"""Kafka's, with nothing deleted by age or size: the log moves its start to a snapshot's end only (RAFT-31)."""

LOST_VOTER_REMEDY: Final = (
    "Where the quorum has other voters, replace this one: give the node an empty directory (esp format), remove the old voter "
    "(kafka-metadata-quorum remove-controller) and add the new one (add-controller). An older copy would not know its votes. A quorum of "
    "one is restored from a copy."
)
"""The remedy where a controller has lost what its votes and its word for records rest on."""

_READ_BYTES: Final = 1024 * 1024
"""The bytes of the log that are read at a time when it is loaded."""


def open_metadata_log_blocking(
    env: Env,
    directory: LogDirectory,
    *,
    cluster_id: str,
    node_id: NodeId,
    has_controller_role: bool,
    settings: TopicSettings = METADATA_LOG_SETTINGS,
) -> Log:
    """Open and recover the metadata log, or begin it.

    Args:
        env: the outside.
        directory: the entry of ``log.dirs`` that holds it; formatted.
        cluster_id: the cluster that the directory must belong to.
        node_id: the node that it must belong to.
        has_controller_role: whether the node votes, or may come to vote. A log that it has lost is not begun anew then: the node's vote is
            of its directory, and it would vote for members without what it has confirmed (RAFT-3, RAFT-45).
        settings: of the log.

    Raises:
        OperatorError: it belongs to another node or cluster, or its files cannot be used.
    """
    assert directory.meta is not None, "the directory is formatted"
    directory.meta.require(directory.path, cluster_id=cluster_id, node_id=node_id)
    is_lost = has_controller_role and directory.has_lost(METADATA_PARTITION)
    if is_lost and METADATA_PARTITION not in directory.replicas:
        raise OperatorError(
            f"The metadata log in {directory.path} is gone, by which node {node_id} may have voted.",
            f"Put __cluster_metadata-0 back as this node left it, if you can. {LOST_VOTER_REMEDY}",
        )
    try:
        if directory.replicas.get(METADATA_PARTITION) is None and not is_lost:
            return directory.create_log_blocking(METADATA_PARTITION, METADATA_TOPIC_ID, settings)
        return directory.load_log_blocking(METADATA_PARTITION, settings, env.clock.wall_ms())
    except (OSError, CorruptionError) as error:
        raise OperatorError(
            f"The metadata log in {directory.path} cannot be opened: {error}.",
            "Repair the disk, or restore the directory from a copy; without it the cluster's topics are not known.",
        ) from error


class CheckedBatch(NamedTuple):
    """A batch that is what was written."""

    header: BatchHeader
    data: memoryview


def split_batches(data: memoryview) -> list[CheckedBatch]:
    """The batches that stand end to end in ``data``, each checked.

    Raises:
        CorruptionError: one is cut, or not what was written.
    """
    batches = []
    while data:
        header = read_whole_header(data)
        batch = data[: header.size]
        check_batch(batch, header)
        batches.append(CheckedBatch(header, batch))
        data = data[header.size :]
    return batches


async def read_batches(log: Log, offset: int, end_offset: int) -> AsyncIterator[CheckedBatch]:
    """All batches between two offsets where batches begin.

    Raises:
        CorruptionError: one is not what was written.
        OSError: the device failed.
    """
    while offset < end_offset:
        data = log.read(offset, _READ_BYTES, end_offset, at_least_one=True)
        if data is None:
            data = await log.read_cold(offset, _READ_BYTES, end_offset, at_least_one=True)
        batches = split_batches(memoryview(data))
        if not batches:
            raise CorruptionError(f"nothing can be read at offset {offset} of {end_offset}")
        for batch in batches:
            yield batch
        offset = batches[-1].header.next_offset


def read_quorum_state(disk: Disk, directory: str) -> QuorumState | None:
    """The contents of ``quorum-state``; None if there is no such file.

    Raises:
        OperatorError: it cannot be read.
    """
    path = f"{directory}/{quorum_state.FILE_NAME}"
    try:
        return QuorumState.decode(disk.read_file(path))
    except FileNotFoundError:
        return None
    except (OSError, CorruptionError) as error:
        raise OperatorError(
            f"{path} cannot be read: {error}.",
            "Repair the disk. If the file is damaged, and this node is the only voter, remove it: the log knows the epoch. "
            f"{LOST_VOTER_REMEDY}",
        ) from error
