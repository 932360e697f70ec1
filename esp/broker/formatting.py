"""Gives new data directories their identity, as ``kafka-storage format`` does.

The identity of a directory stands in ``meta.properties``, which is written last, so that a crash leaves a directory new or whole. The
directory of the metadata log comes first: without it the others would belong to an unknown cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from esp.controller.bootstrap import FIRST_LEVELS, FIRST_METADATA, FirstMetadata, feature_records
from esp.model.errors import CorruptionError, OperatorError
from esp.model.features import METADATA_VERSION
from esp.model.ids import METADATA_PARTITION, DirectoryId, NodeId, uuid_to_base64
from esp.ports.env import Env
from esp.raft.snapshot import BOOTSTRAP_FILE, FIRST, build_first_snapshot, build_snapshot, read_snapshot
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.records.batch import iterate_records
from esp.schemas.metadata_frames import UnknownRecordError, decode_record, encode_record
from esp.schemas.metadata_records import FeatureLevelRecord, MetadataRecord, UserScramCredentialRecord
from esp.storage.layout import LOG_SUFFIX, replica_directory_name
from esp.storage.log_directory import LogDirectory
from esp.storage.meta_properties import MetaProperties


@dataclass(frozen=True, slots=True)
class Standalone:
    """The node that is formatted is the only voter of a new quorum, and listens for other controllers at ``endpoints``."""

    endpoints: tuple[VoterEndpoint, ...]


FirstVoters = Standalone | VoterSet | None
"""The first voters of the new cluster: this node alone, or the same set on every node.

None: the node joins a quorum that others know, or the voters stand in ``controller.quorum.voters`` (kraft.version 0).
"""


def format_new_directories_blocking(
    env: Env,
    directories: Sequence[LogDirectory],
    metadata_directory: LogDirectory,
    *,
    node_id: NodeId,
    voters: FirstVoters,
    cluster_id: str | None = None,
    first: FirstMetadata = FIRST_METADATA,
) -> str:
    """Format the new directories, and check the others; return the id of the cluster that all belong to.

    Args:
        env: the outside.
        directories: all entries of ``log.dirs`` and that of the metadata log, open.
        metadata_directory: the one of them that holds the metadata log; it gets the directory id that ``voters`` has for this node.
        node_id: this node.
        voters: the first voters.
        cluster_id: of the cluster; None: that of the directories that have one, or a random one.
        first: the levels of features and the users that the cluster begins with.

    Raises:
        OperatorError: a directory belongs to another node or cluster, has lost its identity, or cannot be written.
    """
    cluster_id = check_directories(env, directories, metadata_directory, node_id=node_id, cluster_id=cluster_id)
    cluster_id = cluster_id or uuid_to_base64(env.random.uuid())
    new = [directory for directory in directories if directory.meta is None]
    try:
        for directory in sorted(new, key=lambda directory: directory is not metadata_directory):
            directory_id = DirectoryId(env.random.uuid())
            if directory is metadata_directory and voters is not None:
                if isinstance(voters, Standalone):
                    voters = VoterSet((Voter(VoterKey(node_id, directory_id), voters.endpoints),))
                directory_id = _own_directory_id(voters, node_id) or directory_id
                _begin_metadata_log_blocking(env, directory.path, voters)
            _write_bootstrap_blocking(env, directory.path, first)
            directory.format_blocking(MetaProperties(cluster_id, node_id, directory_id))
    except OSError as error:
        raise OperatorError(
            f"A data directory cannot be formatted: {error}.", "Make room on its disk, or repair the disk."
        ) from error
    return cluster_id


def check_directories(
    env: Env,
    directories: Sequence[LogDirectory],
    metadata_directory: LogDirectory,
    *,
    node_id: NodeId,
    cluster_id: str | None = None,
) -> str | None:
    """Return the id of the cluster that all directories with an identity belong to, or ``cluster_id``, or None if there is neither.

    Args:
        env: the outside.
        directories: all entries of ``log.dirs`` and that of the metadata log, open.
        metadata_directory: the one of them that holds the metadata log.
        node_id: the node that they must belong to.
        cluster_id: the cluster that they must belong to; None: any, but one.

    Raises:
        OperatorError: a directory belongs to another node or cluster, has lost its identity, or has that of another directory.
    """
    for directory in directories:
        if directory.meta is not None:
            cluster_id = cluster_id or directory.meta.cluster_id
            directory.meta.require(directory.path, cluster_id=cluster_id, node_id=node_id)
        elif _holds_data(env, directory):
            remedy = "Restore that file from a copy."
            if directory is not metadata_directory:  # an empty one would belong to no cluster, or begin a new one
                remedy += " If other brokers have these partitions, an empty directory in its place will do."
            raise OperatorError(f"The data directory {directory.path} holds partitions but no meta.properties.", remedy)
    _require_own_ids(directories)
    known = [directory.path for directory in directories if directory.meta is not None]
    if metadata_directory.meta is None and known:
        raise OperatorError(
            f"The directory of the metadata log, {metadata_directory.path}, is empty, but {', '.join(known)} belongs to cluster "
            f"{cluster_id}.",
            "Restore it from a copy, or set metadata.log.dir to the directory that holds __cluster_metadata-0.",
        )
    return cluster_id


def _require_own_ids(directories: Sequence[LogDirectory]) -> None:
    """Raise OperatorError if two directories have the same id: the controller refuses such a broker."""
    paths: dict[object, str] = {}
    for directory in directories:
        if directory.meta is None:
            continue
        other = paths.setdefault(directory.meta.directory_id, directory.path)
        if other != directory.path:
            raise OperatorError(
                f"The data directories {other} and {directory.path} have the same directory.id: one is a copy of the other.",
                "Keep the one that this node used last in log.dirs, and set the other entry to an empty directory.",
            )


def _own_directory_id(voters: VoterSet, node_id: NodeId) -> DirectoryId | None:
    return next((voter.key.directory_id for voter in voters.voters if voter.key.node_id == node_id), None)


def _holds_data(env: Env, directory: LogDirectory) -> bool:
    """True if there are replicas. The part of the metadata log that an interrupted format has written does not count."""
    if directory.replicas.keys() - {METADATA_PARTITION}:
        return True
    path = f"{directory.path}/{replica_directory_name(METADATA_PARTITION)}"
    return env.disk.exists(path) and any(name.endswith(LOG_SUFFIX) for name in env.disk.listdir(path))


def _begin_metadata_log_blocking(env: Env, path: str, voters: VoterSet) -> None:
    """Write the snapshot that names the voters; the log itself is made when the node starts."""
    log_path = f"{path}/{replica_directory_name(METADATA_PARTITION)}"
    env.disk.make_directory(log_path)
    env.disk.sync_directory_blocking(path)
    env.disk.replace_file_blocking(f"{log_path}/{FIRST.file_name}", build_first_snapshot(voters, env.clock.wall_ms()))


def first_metadata_blocking(env: Env, path: str) -> FirstMetadata:
    """The features and users that a directory was formatted with; FIRST_METADATA if it does not say, as one of an earlier release.

    A level that is not written down beside others is 0: ``transaction.version=0``, or that of a release that did not have the feature.

    Args:
        env: the outside.
        path: of the directory of the metadata log.

    Raises:
        OperatorError: the file is damaged.
    """
    file = f"{path}/{BOOTSTRAP_FILE}"
    if not env.disk.exists(file):
        return FIRST_METADATA
    try:
        records = [
            decode_record(record.value or b"")
            for batch in read_snapshot(env.disk.read_file(file)).batches
            for record in iterate_records(batch)
        ]
    except (CorruptionError, UnknownRecordError, OSError) as error:
        raise OperatorError(
            f"{file} cannot be read: {error}.", "Restore it from a copy, or from another node."
        ) from error
    levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
    return FirstMetadata(
        {**dict.fromkeys(FIRST_LEVELS, 0), **levels} if METADATA_VERSION in levels else levels,
        tuple(record for record in records if isinstance(record, UserScramCredentialRecord)),
    )


def _write_bootstrap_blocking(env: Env, path: str, first: FirstMetadata) -> None:
    """Write the file in which Kafka looks for the features and users of a new cluster."""
    records: list[MetadataRecord] = [*feature_records(first.levels), *first.credentials]
    snapshot = build_snapshot(
        FIRST,
        (),
        [encode_record(record) for record in records],
        last_contained_timestamp_ms=0,
        now_ms=env.clock.wall_ms(),
    )
    env.disk.replace_file_blocking(f"{path}/{BOOTSTRAP_FILE}", snapshot)
